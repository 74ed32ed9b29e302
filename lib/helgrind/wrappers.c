/* SPDX-License-Identifier: MIT */
/* Tells Helgrind what the calls of the C API mean, so that it finds the races of a program that uses them, and reports
 * none that the locks prevent. The program is run with this object preloaded (docs/guide/c-api.md). Valgrind then calls
 * a wrapper in place of the library's function, which is in libflexguard.so or in the program itself; CALL_FN calls the
 * library's. Without Valgrind no wrapper is ever called.
 *
 * The library's own memory accesses are ordered by instructions that Helgrind does not know: helgrind.supp. */
#include <errno.h>
#include <stdbool.h>
#include <time.h>
#include <valgrind/helgrind.h>
#include <valgrind/valgrind.h>

#include "flexguard/flexguard.h"

/* Za: in any object. */
#define WRAPPER(name) I_WRAP_SONAME_FNNAME_ZU(Za, name)

/* ---- mutexes ---------------------------------------------------------------------------------------------------- */

void WRAPPER(fg_mutex_lock)(struct fg_mutex *m)
{
	OrigFn library;

	VALGRIND_GET_ORIG_FN(library);
	VALGRIND_HG_MUTEX_LOCK_PRE(m, 0);
	CALL_FN_v_W(library, m);
	VALGRIND_HG_MUTEX_LOCK_POST(m);
}

int WRAPPER(fg_mutex_trylock)(struct fg_mutex *m)
{
	OrigFn library;
	int error;

	VALGRIND_GET_ORIG_FN(library);
	VALGRIND_HG_MUTEX_LOCK_PRE(m, 1);
	CALL_FN_W_W(error, library, m);
	if (!error)
		VALGRIND_HG_MUTEX_LOCK_POST(m);
	return error;
}

/* As a try: a thread may wait with a deadline for a mutex that it holds. */
int WRAPPER(fg_mutex_timedlock)(struct fg_mutex *m, clockid_t clock, const struct timespec *abs)
{
	OrigFn library;
	int error;

	VALGRIND_GET_ORIG_FN(library);
	VALGRIND_HG_MUTEX_LOCK_PRE(m, 1);
	CALL_FN_W_WWW(error, library, m, clock, abs);
	if (!error)
		VALGRIND_HG_MUTEX_LOCK_POST(m);
	return error;
}

void WRAPPER(fg_mutex_unlock)(struct fg_mutex *m)
{
	OrigFn library;

	VALGRIND_GET_ORIG_FN(library);
	VALGRIND_HG_MUTEX_UNLOCK_PRE(m);
	CALL_FN_v_W(library, m);
	VALGRIND_HG_MUTEX_UNLOCK_POST(m);
}

/* ---- condition variables: what happens before a signal happens before the return from the wait ------------------ */

/* The waits call fg_mutex_unlock and fg_mutex_lock, whose wrappers say the rest. */
void WRAPPER(fg_cond_wait)(struct fg_cond *c, struct fg_mutex *m)
{
	OrigFn library;

	VALGRIND_GET_ORIG_FN(library);
	CALL_FN_v_WW(library, c, m);
	ANNOTATE_HAPPENS_AFTER(c);
}

int WRAPPER(fg_cond_timedwait)(struct fg_cond *c, struct fg_mutex *m, clockid_t clock, const struct timespec *abs)
{
	OrigFn library;
	int error;

	VALGRIND_GET_ORIG_FN(library);
	CALL_FN_W_WWWW(error, library, c, m, clock, abs);
	if (!error)
		ANNOTATE_HAPPENS_AFTER(c);
	return error;
}

void WRAPPER(fg_cond_signal)(struct fg_cond *c)
{
	OrigFn library;

	VALGRIND_GET_ORIG_FN(library);
	ANNOTATE_HAPPENS_BEFORE(c);
	CALL_FN_v_W(library, c);
}

void WRAPPER(fg_cond_broadcast)(struct fg_cond *c)
{
	OrigFn library;

	VALGRIND_GET_ORIG_FN(library);
	ANNOTATE_HAPPENS_BEFORE(c);
	CALL_FN_v_W(library, c);
}

/* ---- read-write locks ------------------------------------------------------------------------------------------- */

#define RWLOCK_WRAPPER(name, writes)                                                                                   \
	int WRAPPER(name)(struct fg_rwlock * l)                                                                        \
	{                                                                                                              \
		OrigFn library;                                                                                        \
		int error;                                                                                             \
                                                                                                                       \
		VALGRIND_GET_ORIG_FN(library);                                                                         \
		CALL_FN_W_W(error, library, l);                                                                        \
		if (!error)                                                                                            \
			ANNOTATE_RWLOCK_ACQUIRED(l, writes);                                                           \
		return error;                                                                                          \
	}

#define TIMED_RWLOCK_WRAPPER(name, writes)                                                                             \
	int WRAPPER(name)(struct fg_rwlock * l, clockid_t clock, const struct timespec *abs)                           \
	{                                                                                                              \
		OrigFn library;                                                                                        \
		int error;                                                                                             \
                                                                                                                       \
		VALGRIND_GET_ORIG_FN(library);                                                                         \
		CALL_FN_W_WWW(error, library, l, clock, abs);                                                          \
		if (!error)                                                                                            \
			ANNOTATE_RWLOCK_ACQUIRED(l, writes);                                                           \
		return error;                                                                                          \
	}

RWLOCK_WRAPPER(fg_rwlock_rdlock, 0)
RWLOCK_WRAPPER(fg_rwlock_wrlock, 1)
RWLOCK_WRAPPER(fg_rwlock_tryrdlock, 0)
RWLOCK_WRAPPER(fg_rwlock_trywrlock, 1)
TIMED_RWLOCK_WRAPPER(fg_rwlock_timedrdlock, 0)
TIMED_RWLOCK_WRAPPER(fg_rwlock_timedwrlock, 1)

void WRAPPER(fg_rwlock_unlock)(struct fg_rwlock *l)
{
	OrigFn library;

	VALGRIND_GET_ORIG_FN(library);
	ANNOTATE_RWLOCK_RELEASED(l, 0);
	CALL_FN_v_W(library, l);
}

/* ---- barriers: what happens before an arrival happens before each return of its phase --------------------------- */

/* A thread that is slow to leave may also be ordered after arrivals of the next phase, so a race between these two can
 * go unseen. */
bool WRAPPER(fg_barrier_wait)(struct fg_barrier *b)
{
	OrigFn library;
	unsigned long last;

	VALGRIND_GET_ORIG_FN(library);
	ANNOTATE_HAPPENS_BEFORE(b);
	CALL_FN_W_W(last, library, b);
	ANNOTATE_HAPPENS_AFTER(b);
	return (last & 0xff) != 0; /* what a bool is in its register */
}

int WRAPPER(fg_barrier_destroy)(struct fg_barrier *b)
{
	OrigFn library;
	int error;

	VALGRIND_GET_ORIG_FN(library);
	CALL_FN_W_W(error, library, b);
	if (!error)
		ANNOTATE_HAPPENS_BEFORE_FORGET_ALL(b);
	return error;
}
