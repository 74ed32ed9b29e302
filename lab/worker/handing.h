/* SPDX-License-Identifier: MIT */
/* For the workloads of workloads/pthread/: threads that wait for one another by pthread calls. The worker of the
 * lock `posix` alone carries them; an interposer in LD_PRELOAD brings other locks.
 *
 * The wait of an operation lasts from the event (the turn is passed, the task is queued, the deadline is reached) until
 * the thread that waits for it runs: the event's time is written beside the event, by another thread. The cycle
 * counters of the CPUs agree to less than a hand-over takes; a difference below 0 counts as 0. */
#ifndef FGB_HANDING_H
#define FGB_HANDING_H

#include <pthread.h>
#include <stdlib.h>

#include "worker/json.h"
#include "worker/work.h"

/* An event counts in the phase in which the thread sees it: it may have waited since long before. What is seen after
 * the measurement counts as what is seen before it. */
static inline uint32_t fgb_event_phase(const struct fgb_run *run)
{
	return fg_load_relaxed(&run->phase) == FGB_MEASURE ? FGB_MEASURE : FGB_WARMUP;
}

static inline void fgb_count_event_in(uint32_t phase, struct fgb_thread *self, uint64_t event, uint64_t seen,
				      uint64_t done)
{
	fgb_count(&self->counts[phase], event < seen ? event : seen, seen, done);
}

static inline void fgb_count_event(const struct fgb_run *run, struct fgb_thread *self, uint64_t event, uint64_t seen,
				   uint64_t done)
{
	fgb_count_event_in(fgb_event_phase(run), self, event, seen, done);
}

/* A signal or broadcast is given with the mutex held, or after it is released: --after-unlock. */
struct fgb_manner {
	bool after_unlock;
};

#define FGB_MANNER_OPTION(manner)                                                                                      \
	FGB_OPTION_FLAG("--after-unlock", "signal after the unlock, instead of with the mutex held",                   \
			&(manner)->after_unlock)

static inline void fgb_manner_describe(const struct fgb_manner *manner)
{
	fgb_json_flag("after_unlock", manner->after_unlock);
}

static inline void fgb_signal_and_unlock(const struct fgb_manner *manner, pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	if (!manner->after_unlock)
		pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
	if (manner->after_unlock)
		pthread_cond_signal(cond);
}

static inline void fgb_broadcast_and_unlock(const struct fgb_manner *manner, pthread_cond_t *cond,
					    pthread_mutex_t *mutex)
{
	if (!manner->after_unlock)
		pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
	if (manner->after_unlock)
		pthread_cond_broadcast(cond);
}

#endif
