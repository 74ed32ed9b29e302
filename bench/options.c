/* SPDX-License-Identifier: MIT */
#include "bench/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int parse_lock(const char *text, const struct fgb_lock **to)
{
	*to = fgb_find_lock(text);
	if (*to)
		return 0;
	fprintf(stderr, "fg-bench: unknown lock '%s' (see fg-bench --list)\n", text);
	return FGB_USAGE;
}

static int parse_value(const struct fgb_option *option, const char *text)
{
	double value;
	char *end;

	errno = 0;
	value = option->kind == FGB_NUMBER ? (double)strtoll(text, &end, 10) : strtod(text, &end);
	if (end == text || *end || errno || !(value >= option->min && value <= option->max)) {
		fprintf(stderr, "fg-bench: %s: '%s' is not %s from %.10g to %.10g\n", option->name, text,
			option->kind == FGB_NUMBER ? "a whole number" : "a number of seconds", option->min,
			option->max);
		return FGB_USAGE;
	}
	if (option->kind == FGB_NUMBER)
		*option->to.number = (uint64_t)value;
	else
		*option->to.seconds = value;
	return 0;
}

/* `--name=value`: its value; `--name`: the empty string; another option: NULL */
static const char *match(const char *argument, const char *name)
{
	size_t length = strlen(name);

	if (strncmp(argument, name, length) != 0)
		return NULL;
	if (argument[length] == '=')
		return argument + length + 1;
	return argument[length] == '\0' ? argument + length : NULL;
}

int fgb_parse(int argc, char **argv, const struct fgb_option *options)
{
	for (int i = 1; i < argc; i++) {
		const struct fgb_option *option = options;
		const char *value = NULL;
		int error;

		while (option->name && !(value = match(argv[i], option->name)))
			option++;
		if (!option->name) {
			fprintf(stderr, "fg-bench: unknown option '%s' (see fg-bench --help)\n", argv[i]);
			return FGB_USAGE;
		}
		if (option->kind == FGB_FLAG && *value) {
			fprintf(stderr, "fg-bench: %s takes no value\n", option->name);
			return FGB_USAGE;
		}
		if (option->kind == FGB_FLAG) {
			if (option->to.flag)
				*option->to.flag = true;
			continue;
		}
		if (strcmp(argv[i], option->name) == 0 && !(value = argv[++i])) {
			fprintf(stderr, "fg-bench: %s needs a value\n", option->name);
			return FGB_USAGE;
		}
		error = option->kind == FGB_LOCK ? parse_lock(value, option->to.lock) : parse_value(option, value);
		if (error)
			return error;
	}
	return 0;
}
