/* SPDX-License-Identifier: MIT */
/* PostgreSQL's spinlocks as sections. storage/s_lock.h includes this at its end.
 *
 * A backend is in a section from before its attempt to take a spinlock until after the store that releases it. It is
 * in none while it waits; after a wait the section begins when it has the lock. The word of a spinlock is a byte, and
 * names no owner: a waiter learns whether some backend of this user is preempted with a lock. */
#ifndef FG_ADVISED_LOCK_H
#define FG_ADVISED_LOCK_H

#include <flexguard/advice_optional.h>

#undef S_LOCK
#define S_LOCK(lock)                                                                                                   \
	(fg_section_begin(),                                                                                           \
	 TAS(lock) ? (fg_section_end(), s_lock((lock), __FILE__, __LINE__, __func__), fg_section_begin(), 0) : 0)

#undef S_UNLOCK
#define S_UNLOCK(lock)                                                                                                 \
	do {                                                                                                           \
		__asm__ __volatile__("" : : : "memory");                                                               \
		*(lock) = 0;                                                                                           \
		fg_section_end();                                                                                      \
	} while (0)

#endif
