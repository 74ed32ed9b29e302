/* SPDX-License-Identifier: MIT */
/* One schedule. All that happens follows from the seed. */
#ifndef FGS_CHECK_SCHEDULE_H
#define FGS_CHECK_SCHEDULE_H

#include "simulator/engine.h"

void fgs_schedule_start(uint64_t seed);

/* Until the thread has ended. */
void fgs_schedule_run(const struct fgs_thread *last);

/* The thread comes to its next step: what has it written to the nodes that are watched (nodes.c)? */
void fgs_nodes_step(const struct fgs_thread *writer);

#endif
