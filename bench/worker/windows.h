/* SPDX-License-Identifier: MIT */
/* Fairness in windows of some seconds: a lock that is fair over a minute may starve threads for a second. */
#ifndef FGB_WINDOWS_H
#define FGB_WINDOWS_H

#include <stdint.h>

struct fgb_windows {
	uint32_t seconds; /* the length of a window */
	uint32_t threads;
	uint32_t count; /* windows that have ended; the following are sums and maxima over them */
	double factor, worst_factor;
	double normalised, worst_normalised;
	uint64_t *before; /* per thread: operations when the window began */
	uint64_t *inside; /* scratch */
};

/* 0, or FGB_FAILED after a message. */
int fgb_windows_init(struct fgb_windows *w, uint32_t seconds, uint32_t threads);
void fgb_windows_free(struct fgb_windows *w);

/* A second has passed, `second` in all, and ops_of(argument, i) is what thread i has done in them. */
void fgb_windows_second(struct fgb_windows *w, uint64_t second, uint64_t (*ops_of)(const void *argument, uint32_t i),
			const void *argument);

/* A member "fairness_1s" (and so on) followed by a comma; nothing if no window has ended. */
void fgb_windows_print(const struct fgb_windows *w);

#endif
