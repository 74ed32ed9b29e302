/* SPDX-License-Identifier: MIT */
/* FlexGuard as published with optimistic readers, as section 6 of its paper proposes. Readers do not write to the lock:
 * they read its version before and after their section.
 *
 *   val, queue   locks/published/flexguard-sosp25.inc.h, for writers
 *   unused       there; here the version: odd while a writer is in, and each writer adds two
 *
 * Waiting policy: writers as in that file. A reader that finds a writer inside spins while no critical section is
 * preempted, and otherwise sleeps on val: so a preempted writer is waited for asleep. A reader that was disturbed TRIES
 * times takes the lock. With FGB_SPINS_ALWAYS readers spin only.
 *
 * I1  val alone decides which writer is in. A reader's section counts if the version was even before it and is the same
 *     after it. It loads with acquire what writers store with release: a reader that has seen a writer's store sees
 *     that writer's odd version, too. A reader that is away for 2^31 writers may take an old version for the same.
 * I2  A reader sleeps only while val is BLOCKED. One that has slept wakes the next sleeper: the release that ended that
 *     state wakes one.
 * I4  None for readers: writers keep them away, until they take the lock.
 * I5  Writers as in that file, exactly. A reader is not critical: it holds up no other thread.
 * Memory: as in that file. */
#define FGB_LOCK_READS
#include "locks/parts/mcs_queue.h"
#define fgi_lock writer_lock
#define fgi_trylock writer_trylock
#define fgi_timedlock writer_timedlock
#define fgi_unlock writer_unlock
#include "locks/published/flexguard-sosp25.inc.h"
#undef fgi_lock
#undef fgi_trylock
#undef fgi_timedlock
#undef fgi_unlock
#include "sections/must_sleep.h"
#include "sections/section.h"

#define TRIES 16u

static inline uint32_t *version_of(struct fg_lock *l)
{
	return &l->unused;
}

/* The writer's next store is a release, so it is seen after the odd version. */
static inline void begin_update(struct fg_lock *l)
{
	fg_store_relaxed(version_of(l), fg_load_relaxed(version_of(l)) + 1);
}

static inline bool fgi_trylock(struct fg_lock *l)
{
	bool mine = writer_trylock(l);

	if (mine)
		begin_update(l);
	return mine;
}

static inline void fgi_lock(struct fg_lock *l)
{
	writer_lock(l);
	begin_update(l);
}

static inline int fgi_timedlock(struct fg_lock *l, struct fgi_deadline until)
{
	int result = writer_timedlock(l, until);

	if (!result)
		begin_update(l);
	return result;
}

static inline void fgi_unlock(struct fg_lock *l)
{
	fg_store_release(version_of(l), fg_load_relaxed(version_of(l)) + 1); /* pairs with version_without_writer */
	writer_unlock(l);
}

static inline void fgb_execute(struct fg_lock *l, fgb_any_section *section, void *argument)
{
	fgi_lock(l);
	section(argument);
	fgi_unlock(l);
}

__attribute__((noinline)) static void await_writer(struct fg_lock *l, struct fgi_spin_budget *p)
{
	while (fg_load_relaxed(version_of(l)) & 1) {
		uint32_t val = fg_load_relaxed(&l->val);

		if (!must_sleep(p)) {
			fgi_spin_once();
			continue;
		}
		if (val == BLOCKED || (val == LOCKED && fg_cas_relaxed(&l->val, LOCKED, BLOCKED) == LOCKED)) {
			fgi_park(&l->val, BLOCKED, &p->deadline);
			fgi_futex_wake(&l->val, 1);
		}
		fgi_spin_budget_renew(p);
	}
}

static inline void fgb_read(struct fg_lock *l, fgb_any_section *section, void *argument)
{
	struct fgi_spin_budget p = FGI_SPIN_BUDGET(FGI_NEVER);

	for (uint32_t i = 0; i < TRIES; i++) {
		uint32_t before = fg_load_acquire(version_of(l)); /* pairs with fgi_unlock */

		if (before & 1) {
			await_writer(l, &p);
			continue;
		}
		section(argument);
		if (fg_load_relaxed(version_of(l)) == before) /* after the section's loads, which are acquires */
			return;
	}
	fgb_execute(l, section, argument);
}
