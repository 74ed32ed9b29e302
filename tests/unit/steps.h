/* SPDX-License-Identifier: MIT */
/* For tests that include a source, to do between two steps of a function what another thread could do there: `other`
 * runs once, before the next compare-and-swap, addition, subtraction or seq_cst load of the variable `watched`. */
#ifndef FG_TESTS_STEPS_H
#define FG_TESTS_STEPS_H

#include <stddef.h>

#include "runtime/atomic.h"

static const void *watched;
static void (*other)(void);

static void before(const void *variable)
{
	void (*once)(void) = other;

	if (variable != watched || !once)
		return;
	other = NULL;
	once();
}

#define STEP_CAS(p, e, d, order, fail)                                                                                 \
	({                                                                                                             \
		before(p);                                                                                             \
		FGI_CAS(p, e, d, order, fail);                                                                         \
	})
#undef fg_cas_relaxed
#undef fg_cas_acquire
#undef fg_cas_release
#undef fg_cas_acq_rel
#undef fg_load_seq_cst
#undef fg_fetch_add_relaxed
#undef fg_fetch_add_acquire
#undef fg_fetch_sub_release
#define fg_cas_relaxed(p, e, d) STEP_CAS(p, e, d, __ATOMIC_RELAXED, __ATOMIC_RELAXED)
#define fg_cas_acquire(p, e, d) STEP_CAS(p, e, d, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)
#define fg_cas_release(p, e, d) STEP_CAS(p, e, d, __ATOMIC_RELEASE, __ATOMIC_RELAXED)
#define fg_cas_acq_rel(p, e, d) STEP_CAS(p, e, d, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
#define fg_load_seq_cst(p)                                                                                             \
	({                                                                                                             \
		before(p);                                                                                             \
		__atomic_load_n(p, __ATOMIC_SEQ_CST);                                                                  \
	})
#define fg_fetch_add_relaxed(p, v)                                                                                     \
	({                                                                                                             \
		before(p);                                                                                             \
		__atomic_fetch_add((p), (v), __ATOMIC_RELAXED);                                                        \
	})
#define fg_fetch_add_acquire(p, v)                                                                                     \
	({                                                                                                             \
		before(p);                                                                                             \
		__atomic_fetch_add((p), (v), __ATOMIC_ACQUIRE);                                                        \
	})
#define fg_fetch_sub_release(p, v)                                                                                     \
	({                                                                                                             \
		before(p);                                                                                             \
		__atomic_fetch_sub((p), (v), __ATOMIC_RELEASE);                                                        \
	})

#endif
