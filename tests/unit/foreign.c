/* SPDX-License-Identifier: MIT */
/* Releases by other threads that were counted, not noted, are settled once, also if a signal handler settles them just
 * after the thread has seen that there are some. */
#include "runtime/thread.h"

#include "tests/check.h"

static void *interrupted; /* the word after whose load the handler runs */

static void run_handler(void *word)
{
	if (word == interrupted) {
		interrupted = NULL;
		fgi_foreign_settle();
	}
}

#undef fg_load_relaxed
#define fg_load_relaxed(p)                                                                                             \
	__extension__({                                                                                                \
		__typeof__(*(p)) loaded = __atomic_load_n((p), __ATOMIC_RELAXED);                                      \
		run_handler((void *)(p));                                                                              \
		loaded;                                                                                                \
	})
#include "runtime/foreign.c"

static void settle_two_of_three(bool in_a_handler)
{
	const uint32_t self = fgi_self();

	for (int i = 0; i < 3; i++)
		fgi_held_raise();
	count_release(self);
	count_release(self);
	CHECK_IS(fgi_foreign_notes, 1);
	interrupted = in_a_handler ? &unnoted[self] : NULL;
	fgi_foreign_settle();
	CHECK(!interrupted, "it did not look");
	CHECK_IS(fgi_foreign_notes, 0);
	CHECK_IS(fg_thread.held, 1);
	fgi_held_lower();
}

int main(void)
{
	settle_two_of_three(false);
	settle_two_of_three(true);
	return 0;
}
