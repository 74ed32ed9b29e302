/* SPDX-License-Identifier: MIT */
/* A spinlock of lab/guest/locks (FGS_GUEST_LOCK), as a lock of ours (lock/lock.h) that runs on virtual CPUs: the
 * guest's preemption is off from the take to the release, as in a kernel. What a virtual CPU publishes for the monitor,
 * the model of the host knows without that (is it off its CPU, when its slice ends). */
#include "lock/lock.h"
#include "runtime/clock.h"

#include <linux/atomic.h>

/* In place of guest/kernel/publish.h: which virtual CPU this is. */
#define FLEXGUARD_PUBLISH_H
static __always_inline void publish_held(void)
{
}
static __always_inline void publish_dropped(void)
{
}
static __always_inline void publish_intent(u32 *word)
{
	(void)word;
}
static __always_inline u32 published_self(void)
{
	return fgs_guest_cpu() + 1;
}

#include "guest/host/flexguard_host.h"

static inline bool is_off(u32 self)
{
	return self && fgs_guest_is_off(self - 1);
}

#define flexguard_halt fgs_guest_halt
#define flexguard_kick fgs_guest_kick
#define flexguard_yield fgs_guest_yield
#define flexguard_now() fgi_now_ns(CLOCK_MONOTONIC)
#define flexguard_knows() 1
#define flexguard_monitored() 1
#define flexguard_is_off is_off
#define flexguard_slice fgs_guest_slice
#define flexguard_slice_end(slice, now) fgs_guest_slice_end()

#include FGS_GUEST_LOCK
#undef max

struct fg_lock {
	struct lock of_guest;
	uint64_t unused;
};

static inline bool fgi_trylock(struct fg_lock *l)
{
	fgs_guest_preemption(false);
	if (lock_try(&l->of_guest))
		return true;
	fgs_guest_preemption(true);
	return false;
}

static inline void fgi_lock(struct fg_lock *l)
{
	fgs_guest_preemption(false);
	lock_take(&l->of_guest);
}

static inline int fgi_timedlock(struct fg_lock *l, struct fgi_deadline until)
{
	return fgi_poll(l, until);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	lock_drop(&l->of_guest);
	fgs_guest_preemption(true);
}
