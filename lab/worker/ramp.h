/* SPDX-License-Identifier: MIT */
/* A ramp: the number of threads goes up and down again within one round (figures 1 and 2; the poster's figure 1). The
 * measurement has steps of equal length. A step has the first so many threads of the round run; the others sleep
 * between two operations, hold no lock and wait for none. */
#ifndef FGB_RAMP_H
#define FGB_RAMP_H

#include <stdint.h>

#define FGB_RAMP_UP 16 /* steps up at most; one less down */
#define FGB_STEPS (2 * FGB_RAMP_UP - 1)

struct fgb_step {
	uint64_t threads;
	double seconds;
	uint64_t ops;         /* of all threads within the step */
	uint64_t transitions; /* the monitor's mode transitions */
};

struct fgb_ramp {
	uint32_t count; /* of steps */
	struct fgb_step step[FGB_STEPS];
};

struct fgb_round;
struct fgb_worker;

/* The steps from one thread to all and back. */
void fgb_ramp_plan(struct fgb_ramp *ramp, uint64_t threads);

/* Before the threads start: one of them warms up. */
void fgb_ramp_begin(struct fgb_round *round);
/* What a thread does in its round. */
void fgb_ramp_work(struct fgb_worker *w);
/* The measurement. */
void fgb_ramp_measure(struct fgb_round *round);
/* All threads end after their operation. */
void fgb_ramp_stop(struct fgb_round *round);

/* A member "ramp" followed by a comma. */
void fgb_ramp_print(const struct fgb_ramp *ramp);

#endif
