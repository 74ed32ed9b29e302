/* SPDX-License-Identifier: MIT */
/* The command line of a subcommand: a table of options, each with its range. */
#ifndef FGB_OPTIONS_H
#define FGB_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/bench.h"

enum fgb_option_kind { FGB_NUMBER, FGB_SECONDS, FGB_LOCK, FGB_FLAG };

struct fgb_option {
	const char *name; /* "--threads"; NULL ends the table */
	enum fgb_option_kind kind;
	double min, max; /* inclusive; numbers and seconds */
	union {
		uint64_t *number;
		double *seconds;
		const struct fgb_lock **lock;
		bool *flag; /* NULL: accepted, changes nothing */
	} to;
};

/* Parses argv[1..]. 0, or FGB_USAGE after a message on stderr. */
int fgb_parse(int argc, char **argv, const struct fgb_option *options);

#endif
