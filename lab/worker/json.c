/* SPDX-License-Identifier: MIT */
#include "worker/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define DEEPEST 8

static struct {
	char ends[DEEPEST]; /* the brackets that are to come */
	unsigned int depth;
	bool follows; /* another value in the same object or array */
} json;

static void string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if ((unsigned char)*text < ' ') {
			printf("\\u%04x", *text);
			continue;
		}
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

/* What comes before a value. */
static void begin(const char *name)
{
	if (json.follows)
		putchar(',');
	json.follows = true;
	if (name) {
		string(name);
		putchar(':');
	}
}

static void open(const char *name, char bracket, char end)
{
	begin(name);
	if (json.depth == DEEPEST) {
		fputs("fg-bench: JSON is nested too deep\n", stderr);
		exit(70);
	}
	putchar(bracket);
	json.ends[json.depth++] = end;
	json.follows = false;
}

void fgb_json_object(const char *name)
{
	open(name, '{', '}');
}

void fgb_json_array(const char *name)
{
	open(name, '[', ']');
}

void fgb_json_end(void)
{
	putchar(json.ends[--json.depth]);
	json.follows = json.depth != 0;
	if (!json.depth)
		putchar('\n');
}

void fgb_json_text(const char *name, const char *value)
{
	begin(name);
	string(value);
}

void fgb_json_flag(const char *name, bool value)
{
	begin(name);
	fputs(value ? "true" : "false", stdout);
}

void fgb_json_count(const char *name, uint64_t value)
{
	begin(name);
	printf("%" PRIu64, value);
}

void fgb_json_integer(const char *name, int64_t value)
{
	begin(name);
	printf("%" PRId64, value);
}

void fgb_json_real(const char *name, double value)
{
	char text[32];

	begin(name);
	snprintf(text, sizeof(text), "%.15g", value);
	if (strtod(text, NULL) != value)
		snprintf(text, sizeof(text), "%.17g", value);
	fputs(isfinite(value) ? text : "null", stdout);
}

void fgb_json_rounded(const char *name, double value, int decimals)
{
	begin(name);
	if (isfinite(value))
		printf("%.*f", decimals, value);
	else
		fputs("null", stdout);
}
