/* SPDX-License-Identifier: MIT */
/* Fairness in intervals of some seconds: a lock that is fair over a minute may starve threads for a second. */
#ifndef FGB_INTERVALS_H
#define FGB_INTERVALS_H

#include <stdint.h>

struct fgb_intervals {
	uint32_t seconds; /* the length of an interval */
	uint32_t threads;
	uint32_t count; /* intervals that have ended; the following are sums and maxima over them */
	double factor, worst_factor;
	double normalised, worst_normalised;
	uint64_t *before; /* per thread: operations when the interval began */
	uint64_t *inside; /* scratch */
};

/* 0, or FGB_FAILED after a message. */
int fgb_intervals_init(struct fgb_intervals *w, uint32_t seconds, uint32_t threads);
void fgb_intervals_free(struct fgb_intervals *w);

/* A second has passed, `second` in all, and ops_of(argument, i) is what thread i has done in them. */
void fgb_intervals_second(struct fgb_intervals *w, uint64_t second,
			  uint64_t (*ops_of)(const void *argument, uint32_t i), const void *argument);

/* A member "fairness_1s" (and so on) followed by a comma; nothing if no interval has ended. */
void fgb_intervals_print(const struct fgb_intervals *w);

#endif
