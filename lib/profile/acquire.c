/* SPDX-License-Identifier: MIT */
/* A lock is first tried: an acquisition is contended if that fails. This costs one failed attempt on a lock that is
 * held, and does not overtake the waiters of a queue, since the trylock of a queue lock fails while there are any.
 *
 * What is timed is remembered when the lock is taken, and added to the sums after it is released. */
#include "profile/acquire.h"

static struct fgp_timed *find_timed(const void *lock)
{
	for (uint32_t i = fgp_thread.timed; i-- > 0;)
		if (fgp_thread.held[i].mutex == (uintptr_t)lock)
			return &fgp_thread.held[i];
	return NULL;
}

static void forget(const struct fgp_timed *timed)
{
	fgp_thread.held[timed - fgp_thread.held] = fgp_thread.held[--fgp_thread.timed];
}

/* Another level of a recursive mutex that this thread holds. Of another mutex it says that a different thread has
 * unlocked it. */
static bool is_another_level(const void *lock, const struct fgp_kind *of)
{
	struct fgp_timed *timed = find_timed(lock);

	if (!timed)
		return false;
	if (of->nests(lock)) {
		timed->again++;
		return true;
	}
	forget(timed);
	return false;
}

void fgp_remember(const struct fgp_timed *timed)
{
	if (fgp_thread.timed < FGP_TIMED)
		fgp_thread.held[fgp_thread.timed++] = *timed;
	else if (fgp_profile)
		fg_fetch_add_relaxed(&fgp_profile->lost_holds, 1u);
}

/* A thread without counts of the lock counts in the lock's, and times nothing. */
static int acquire_uncounted(void *lock, const struct fgp_call *call)
{
	int result = call->of->try(lock);
	struct fgp_event event = {.contended = result == EBUSY};

	if (result == EBUSY)
		result = call->of->wait(lock, call);
	event.acquired = fgp_is_acquired(result);
	event.failed = !event.acquired;
	event.contended &= event.acquired;
	fgp_count_shared((uintptr_t)lock, call->of->kind, event);
	return result;
}

/* `result` is that of a trylock. */
static int acquire_timed(void *lock, const struct fgp_call *call, struct fg_profile_counts *counts, int result,
			 struct fgp_timed *timed)
{
	bool contended = result == EBUSY;

	if (contended && call->how != TRYLOCK) {
		timed->wait_weight = fgp_wait_weight(counts);
		if (timed->wait_weight) {
			if (timed->site == FGP_NONE)
				timed->site = fgp_site(counts->lock, call->frame);
			timed->since_ns = fgp_now();
		}
		result = call->of->wait(lock, call);
	}
	if (!fgp_is_acquired(result)) {
		counts->failed++;
		return result;
	}
	counts->acquisitions++;
	if (contended) {
		counts->contended++;
		fgp_wait_passed(counts);
	}
	fgp_hold_passed(counts);
	if (is_another_level(lock, call->of))
		return result;
	if (timed->hold_weight || timed->wait_weight) {
		uint64_t now = fgp_now();

		timed->wait_ns = now - timed->since_ns;
		timed->since_ns = now;
		fgp_remember(timed);
	}
	return result;
}

__attribute__((noinline)) int fgp_acquire_slow(void *lock, const struct fgp_call *call,
					       struct fg_profile_counts *counts)
{
	struct fgp_timed timed = {
		.mutex = (uintptr_t)lock,
		.lock = counts->lock,
		.site = FGP_NONE,
		.hold_weight = fgp_hold_weight(counts),
	};

	if (timed.hold_weight)
		timed.site = fgp_site(counts->lock, call->frame);
	return acquire_timed(lock, call, counts, call->of->try(lock), &timed);
}

__attribute__((noinline)) int fgp_acquire_contended(void *lock, const struct fgp_call *call,
						    struct fg_profile_counts *counts, int result)
{
	struct fgp_timed timed = {.mutex = (uintptr_t)lock, .lock = counts->lock, .site = FGP_NONE};

	return acquire_timed(lock, call, counts, result, &timed);
}

/* The first call for a lock, or one without counts. */
__attribute__((noinline)) int fgp_acquire_first(void *lock, const struct fgp_call *call)
{
	struct fg_profile_counts *counts;

	counts = fgp_counts_slow((uintptr_t)lock, call->of->kind);
	return counts ? fgp_acquire_slow(lock, call, counts) : acquire_uncounted(lock, call);
}

struct fg_profile_counts *fgp_counts_of(const void *object, uint32_t kind)
{
	struct fg_profile_counts *counts = fgp_counts((uintptr_t)object);

	return counts ? counts : fgp_counts_slow((uintptr_t)object, kind);
}

int fgp_unlock_timed(void *lock, int (*unlock)(void *))
{
	struct fgp_timed *found = find_timed(lock), timed;
	uint64_t until;
	int result;

	if (!found)
		return unlock(lock);
	if (found->again) {
		found->again--;
		return unlock(lock);
	}
	timed = *found;
	forget(found);
	until = timed.hold_weight ? fgp_now() : timed.since_ns;
	result = unlock(lock);
	fgp_commit(&timed, until);
	return result;
}

void fgp_hold_ends(const void *lock)
{
	struct fgp_timed *found = fgp_thread.timed ? find_timed(lock) : NULL;

	if (!found)
		return;
	fgp_commit(found, fgp_now());
	forget(found);
}

struct fg_profile_counts *fgp_wait_begins(const void *object, uint32_t kind, const void *frame, struct fgp_timed *timed)
{
	struct fg_profile_counts *counts = fgp_counts_of(object, kind);

	*timed = (struct fgp_timed){.mutex = (uintptr_t)object, .site = FGP_NONE};
	if (!counts)
		return NULL;
	timed->lock = counts->lock;
	timed->wait_weight = fgp_wait_weight(counts);
	if (timed->wait_weight) {
		timed->site = fgp_site(counts->lock, frame);
		timed->since_ns = fgp_now();
	}
	return counts;
}

/* Nothing is held, so each timed wait is also the site's acquisition. */
void fgp_wait_ends(struct fg_profile_counts *counts, struct fgp_timed *timed)
{
	if (!counts)
		return;
	counts->acquisitions++;
	counts->contended++;
	fgp_wait_passed(counts);
	if (!timed->wait_weight)
		return;
	timed->wait_ns = fgp_now() - timed->since_ns;
	fgp_commit(timed, 0);
	fgp_site_used(timed->site, timed->wait_weight);
}
