/* SPDX-License-Identifier: MIT */
#include "worker/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker/json.h"

static int parse_lock(const char *text, const struct fgb_lock **to)
{
	*to = &fgb_worker_lock;
	if (strcmp(text, fgb_worker_lock.name) == 0)
		return 0;
	fprintf(stderr, "fg-bench: unknown lock '%s' (see fg-bench --list)\n", text);
	return FGB_USAGE;
}

static int parse_levels(const struct fgb_option *option, const char *text)
{
	struct fgb_levels *to = option->to.levels;
	const char *rest = text;

	for (to->count = 0; to->count < FGB_LEVELS_MAX; rest++) {
		char *end;
		long value = strtol(rest, &end, 10);

		if (end == rest || (*end && *end != ',') || (double)value < option->min || (double)value > option->max)
			break;
		to->level[to->count++] = (int)value;
		rest = end;
		if (!*end)
			return 0;
	}
	fprintf(stderr, "fg-bench: %s: '%s' is not a list of at most %d whole numbers from %.10g to %.10g\n",
		option->name, text, FGB_LEVELS_MAX, option->min, option->max);
	return FGB_USAGE;
}

static int parse_value(const struct fgb_option *option, const char *text)
{
	static const char *const kinds[] = {
		[FGB_NUMBER] = "a whole number", [FGB_SECONDS] = "a number of seconds", [FGB_REAL] = "a number"};
	double value;
	char *end;

	errno = 0;
	value = option->kind == FGB_NUMBER ? (double)strtoll(text, &end, 10) : strtod(text, &end);
	if (end == text || *end || errno || !(value >= option->min && value <= option->max)) {
		fprintf(stderr, "fg-bench: %s: '%s' is not %s from %.10g to %.10g\n", option->name, text,
			kinds[option->kind], option->min, option->max);
		return FGB_USAGE;
	}
	if (option->kind == FGB_NUMBER)
		*option->to.number = (uint64_t)value;
	else
		*option->to.real = value;
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

static const struct fgb_option *find(const char *argument, const struct fgb_option *const *tables, const char **value)
{
	for (; *tables; tables++)
		for (const struct fgb_option *option = *tables; option->name; option++)
			if ((*value = match(argument, option->name)))
				return option;
	fprintf(stderr, "fg-bench: unknown option '%s' (see fg-bench --help)\n", argument);
	return NULL;
}

static int parse_flag(const struct fgb_option *option, const char *value)
{
	if (*value) {
		fprintf(stderr, "fg-bench: %s takes no value\n", option->name);
		return FGB_USAGE;
	}
	if (option->to.flag)
		*option->to.flag = true;
	return 0;
}

int fgb_parse(int argc, char **argv, const struct fgb_option *const *tables)
{
	for (int i = 1; i < argc; i++) {
		const char *value;
		const struct fgb_option *option = find(argv[i], tables, &value);
		int error;

		if (!option)
			return FGB_USAGE;
		if (option->kind != FGB_FLAG && strcmp(argv[i], option->name) == 0 && !(value = argv[++i])) {
			fprintf(stderr, "fg-bench: %s needs a value\n", option->name);
			return FGB_USAGE;
		}
		if (option->kind == FGB_FLAG)
			error = parse_flag(option, value);
		else if (option->kind == FGB_LOCK)
			error = parse_lock(value, option->to.lock);
		else if (option->kind == FGB_LEVELS)
			error = parse_levels(option, value);
		else
			error = parse_value(option, value);
		if (error)
			return error;
	}
	return 0;
}

/* What the option is where it is not given. */
static double preset(const struct fgb_option *option)
{
	return option->kind == FGB_NUMBER ? (double)*option->to.number : *option->to.real;
}

static bool has_number(const struct fgb_option *option)
{
	return option->kind == FGB_NUMBER || option->kind == FGB_SECONDS || option->kind == FGB_REAL;
}

void fgb_print_options(const struct fgb_option *options)
{
	char left[64];

	for (; options->name; options++) {
		snprintf(left, sizeof(left), "%s %s", options->name, options->value ? options->value : "");
		printf("  %-22s %s", left, options->brief);
		if (has_number(options) && preset(options) >= options->min)
			printf(" (%.10g)", preset(options));
		puts("");
	}
}

void fgb_print_options_json(const struct fgb_option *options)
{
	static const char *const kinds[] = {[FGB_NUMBER] = "number", [FGB_SECONDS] = "seconds", [FGB_REAL] = "real",
					    [FGB_LOCK] = "lock",     [FGB_LEVELS] = "levels",   [FGB_FLAG] = "flag"};

	for (; options->name; options++) {
		if (options->kind == FGB_LOCK || (options->kind == FGB_FLAG && !options->to.flag))
			continue;
		fgb_json_object(NULL);
		fgb_json_text("name", options->name + 2);
		fgb_json_text("kind", kinds[options->kind]);
		fgb_json_text("brief", options->brief);
		if (options->kind != FGB_FLAG) {
			fgb_json_real("min", options->min);
			fgb_json_real("max", options->max);
		}
		if (has_number(options))
			fgb_json_real("default", preset(options));
		fgb_json_end();
	}
}
