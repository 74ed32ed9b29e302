/* SPDX-License-Identifier: MIT */
/* Releases by other threads that were counted, not noted, are settled once, also if a signal handler settles them just
 * after the thread has seen that there are some. Notes for threads that have ended are dropped, and no others. In the
 * child of a fork the locks that its thread brought along are told from those of its other threads. */
#include "runtime/thread.h"

#include <sys/wait.h>

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

static void *stay(void *end)
{
	uint32_t self = fgi_self();

	fg_store_release((uint32_t *)end, self);
	while (fg_load_acquire((uint32_t *)end) == self)
		usleep(1000);
	return NULL;
}

static uint32_t lock;

static pthread_t start(uint32_t *stays)
{
	pthread_t thread = check_thread(stay, stays);

	while (!fg_load_acquire(stays))
		usleep(1000);
	return thread;
}

static void end(pthread_t thread, uint32_t *stays)
{
	fg_store_release(stays, 0);
	check_join(thread);
}

static void settle(int times)
{
	for (int i = 0; i < times; i++)
		fgi_foreign_settle();
}

/* The kernel forgets a thread a moment after it has been joined. The watchdog ends what does not come. */
static void drops_notes_of_the_dead(void)
{
	uint32_t stays[2] = {0, 0}, living;
	pthread_t threads[2];

	for (int i = 0; i < 2; i++) {
		threads[i] = start(&stays[i]);
		fgi_foreign_note(stays[i], &lock);
	}
	living = stays[0];
	settle(2 * NOTES * CALLS_PER_LOOK);
	CHECK_IS(fgi_foreign_notes, 2);
	end(threads[1], &stays[1]);
	while (fgi_foreign_notes > 1)
		settle(CALLS_PER_LOOK);
	settle(2 * NOTES * CALLS_PER_LOOK);
	CHECK_IS(fgi_foreign_notes, 1);
	CHECK(has_note(living, (uint64_t)(uintptr_t)&lock));
	end(threads[0], &stays[0]);
	while (fgi_foreign_notes)
		settle(CALLS_PER_LOOK);
}

/* ---- forks ------------------------------------------------------------------------------------------------------ */

static void take(uint32_t *word)
{
	fgi_intent_set(word);
	fg_store_relaxed(word, fgi_self());
}

static void release(uint32_t *word)
{
	fgi_intent_restore(word);
	fg_store_relaxed(word, 0);
	fgi_intent_clear(word);
}

static void in_a_child(void (*run)(void))
{
	pid_t child = fork();
	int status;

	CHECK(child >= 0, "%m");
	if (child == 0) {
		check_watchdog(500);
		run();
		_exit(0);
	}
	CHECK_IS(waitpid(child, &status, 0), child);
	CHECK_IS(status, 0);
}

static uint32_t others, mine, parents[2];

static void *release_beside_mine(void *word)
{
	take(&mine);
	fgi_pending_into_held(0);
	release(word);
	CHECK_IS(fgi_sections(), 1);
	release(&mine);
	CHECK_IS(fgi_sections(), 0);
	return NULL;
}

/* The thread that took it counts it no longer. */
static void tells_others_locks(void)
{
	take(&others);
	check_join(check_thread(release_beside_mine, &others));
	fgi_foreign_settle();
	CHECK_IS(fgi_sections(), 0);
	CHECK_IS(fgi_foreign_notes, 0);
}

static void in_the_grandchild(void)
{
	CHECK_IS(fgi_sections(), 2);
	check_join(check_thread(release_beside_mine, &parents[1])); /* of one name, by a thread */
	fgi_foreign_settle();
	CHECK_IS(fgi_sections(), 1);
	release(&parents[0]); /* of another, by the thread that brought it along */
	CHECK_IS(fgi_sections(), 0);
	CHECK_IS(fgi_foreign_notes, 0);
	tells_others_locks();
}

static void forks_again(void)
{
	take(&parents[1]);
	in_a_child(in_the_grandchild);
	release(&parents[1]);
	release(&parents[0]);
	CHECK_IS(fgi_sections(), 0);
	tells_others_locks();
}

int main(void)
{
	check_watchdog(500);
	drops_notes_of_the_dead();
	in_a_child(tells_others_locks);
	take(&parents[0]);
	in_a_child(forks_again);
	release(&parents[0]);
	CHECK_IS(fgi_sections(), 0);
	settle_two_of_three(false);
	settle_two_of_three(true);
	return 0;
}
