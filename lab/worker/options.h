/* SPDX-License-Identifier: MIT */
/* The command line of a subcommand: tables of options, each with its range and a line of help. */
#ifndef FGB_OPTIONS_H
#define FGB_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "worker/bench.h"

#ifdef __cplusplus
extern "C" {
#endif

enum fgb_option_kind { FGB_NUMBER, FGB_SECONDS, FGB_REAL, FGB_LOCK, FGB_LEVELS, FGB_FLAG };

#define FGB_LEVELS_MAX 64
struct fgb_levels { /* a list of whole numbers, such as nice levels */
	uint32_t count;
	int level[FGB_LEVELS_MAX];
};

struct fgb_option {
	const char *name;  /* "--threads"; NULL ends the table */
	const char *value; /* what --help calls its value; NULL: it takes none */
	const char *brief;
	enum fgb_option_kind kind;
	double min, max; /* inclusive; numbers, seconds, reals, levels */
	union {
		uint64_t *number;
		double *real; /* of seconds too */
		const struct fgb_lock **lock;
		struct fgb_levels *levels;
		bool *flag; /* NULL: accepted, changes nothing */
	} to;
};

#define FGB_OPTION_NUMBER(name, brief, min, max, to)                                                                   \
	{                                                                                                              \
		name, "N", brief, FGB_NUMBER, min, max,                                                                \
		{                                                                                                      \
			.number = to                                                                                   \
		}                                                                                                      \
	}
#define FGB_OPTION_SECONDS(name, brief, min, max, to)                                                                  \
	{                                                                                                              \
		name, "S", brief, FGB_SECONDS, min, max,                                                               \
		{                                                                                                      \
			.real = to                                                                                     \
		}                                                                                                      \
	}
#define FGB_OPTION_REAL(name, brief, min, max, to)                                                                     \
	{                                                                                                              \
		name, "X", brief, FGB_REAL, min, max,                                                                  \
		{                                                                                                      \
			.real = to                                                                                     \
		}                                                                                                      \
	}
#define FGB_OPTION_FLAG(name, brief, to)                                                                               \
	{                                                                                                              \
		name, NULL, brief, FGB_FLAG, 0, 0,                                                                     \
		{                                                                                                      \
			.flag = to                                                                                     \
		}                                                                                                      \
	}
#define FGB_OPTIONS_END FGB_OPTION_FLAG(NULL, NULL, NULL)

extern const struct fgb_option fgb_uncontended_options[];

/* Parses argv[1..] by several tables; a NULL ends them. 0, or FGB_USAGE after a message on stderr. */
int fgb_parse(int argc, char **argv, const struct fgb_option *const *tables);

/* One line an option, with its default in parentheses; before the options are parsed. */
void fgb_print_options(const struct fgb_option *options);

/* Elements of an array: one JSON object an option. Left out: the lock, and flags that change nothing. The default is
 * the value that the option has now: before the options are parsed. */
void fgb_print_options_json(const struct fgb_option *options);

#ifdef __cplusplus
}
#endif
#endif
