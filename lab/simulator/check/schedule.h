/* SPDX-License-Identifier: MIT */
/* One schedule. All that happens follows from the seed. */
#ifndef FGS_CHECK_SCHEDULE_H
#define FGS_CHECK_SCHEDULE_H

#include "simulator/engine.h"

/* `stall_ns`: all threads may sleep for so long until a timeout of their own wakes one. */
void fgs_schedule_start(uint64_t seed, uint64_t stall_ns);

/* Until the thread has ended. */
void fgs_schedule_run(const struct fgs_thread *last);

#endif
