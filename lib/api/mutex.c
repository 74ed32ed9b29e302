/* SPDX-License-Identifier: MIT */
#include "flexguard/inline.h"

#include <errno.h>

#include FGI_LOCK_FILE /* the default lock, by the build */

_Static_assert(sizeof(struct fg_lock) == sizeof(struct fg_mutex), "fg_mutex is the lock");
_Static_assert(_Alignof(struct fg_lock) <= _Alignof(struct fg_mutex), "fg_mutex is the lock");

static inline struct fg_lock *lock_of(struct fg_mutex *m)
{
	return (struct fg_lock *)(void *)m->opaque;
}

void fg_mutex_lock(struct fg_mutex *m)
{
	fgi_lock(lock_of(m));
}

int fg_mutex_trylock(struct fg_mutex *m)
{
	return fgi_trylock(lock_of(m)) ? 0 : EBUSY;
}

int fg_mutex_timedlock(struct fg_mutex *m, clockid_t clock, const struct timespec *abs)
{
	struct fgi_deadline until = FGI_DEADLINE(clock, abs);

	return fgi_is_deadline(until) ? fgi_timedlock(lock_of(m), until) : EINVAL;
}

void fg_mutex_unlock(struct fg_mutex *m)
{
	fgi_unlock(lock_of(m));
}

#ifdef FG_INLINE_VERSION
/* What <flexguard/inline.h> has compiled into programs. A change of any of these, of what `ops` and `pending` tell, or
 * of the flag that asks for a wake-up, must raise FG_INLINE_VERSION there and, with it, the names of these
 * functions. */
_Static_assert(FG_INLINE_VERSION == 4, "the versions of the names below");
_Static_assert(offsetof(struct fg_lock, word) == offsetof(struct fg_inline_word, owner), "inlined");
_Static_assert(offsetof(struct fg_lock, ops) == offsetof(struct fg_inline_word, ops), "inlined");
_Static_assert(FG_INLINE_FLAGS == FLAGS && FG_INLINE_ASLEEP == (PARKED | NEEDY) && NEEDY == 1u << 31, "inlined");
FG_ABI_AT(fg_inline_thread, held, offsetof(struct fg_thread_block, held));
FG_ABI_AT(fg_inline_thread, self, offsetof(struct fg_thread_block, self));
FG_ABI_AT(fg_inline_thread, pending, offsetof(struct fg_thread_block, pending));

void fg_mutex_slow_lock_4(struct fg_mutex *m, int attempted)
{
	struct fg_lock *l = lock_of(m);

	if (attempted) {
		fgi_intent_clear(&l->word);
		contended(l, &FGI_NEVER);
	} else {
		fgi_lock(l);
	}
}

void fg_mutex_slow_unlock_4(struct fg_mutex *m)
{
	fgi_unlock(lock_of(m));
}

void fg_mutex_released_4(struct fg_mutex *m, int ours, int sleeper)
{
	struct fg_lock *l = lock_of(m);

	if (!ours)
		fgi_intent_clear_held((uint64_t)(uintptr_t)&l->word);
	if (sleeper)
		wake(l);
}
#endif
