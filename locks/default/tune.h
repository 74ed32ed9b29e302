/* SPDX-License-Identifier: MIT */
/* The default lock's constants, for researchers: FLEXGUARD_TUNE=name=value,... in the environment of the program, read
 * once, at the start. Nobody needs it to use the lock. docs/results/default-lock.md has what each default rests
 * on. A name or value that is not understood leaves the default. Not read by programs that run with raised
 * privilege. */
#ifndef FGI_TUNE_H
#define FGI_TUNE_H

#include <stdint.h>

enum fgi_regime { FGI_GREEDY, FGI_LEASED, FGI_REGIMES, FGI_ANY_REGIME = FGI_REGIMES };

struct fgi_tune {
	uint64_t regime;    /* regime=greedy|leased|any: one way of waiting, or the best by measurement */
	uint64_t lease_ns;  /* lease_us: how long a leased owner may come back before the next waiter's turn */
	uint64_t rotate_ns; /* rotate_us: how often an active thread changes places with a parked one */
	uint64_t sample_ns; /* sample_us: how long one regime is tried before it is judged */
	uint64_t yield_ns;  /* yield_us: a waiter for which nothing moves offers its CPU after so long, */
	uint64_t sleep_ns;  /* sleep_us: and sleeps after so long */
};

extern struct fgi_tune fgi_tune;

/* Takes what `text` says into `tune`. For the start and for tests. */
void fgi_tune_parse(struct fgi_tune *tune, const char *text);
void fgi_tune_start(void);

#endif
