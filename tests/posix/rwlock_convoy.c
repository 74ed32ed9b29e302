/* SPDX-License-Identifier: MIT */
/* Sections so long that every waiter waits for tens of milliseconds: the lock must not be handed from sleeper to
 * sleeper at each turn. On a busy machine every turn would then take as long as a sleeper takes to get a CPU, and since
 * that keeps all of them waiting, it would not end. */
#include "tests/posix/posix.h"

#define THREADS 8
#define TURNS 100

static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
static int turns, repeated;
static long last;

static void *take_turns(void *self)
{
	const struct timespec section = {0, 4000000};

	for (;;) {
		bool over;

		ok(pthread_rwlock_wrlock(&l));
		repeated += last == (long)self;
		last = (long)self;
		over = turns++ >= TURNS;
		if (!over)
			nanosleep(&section, NULL);
		ok(pthread_rwlock_unlock(&l));
		if (over)
			return NULL;
	}
}

static void take_turns_together(void)
{
	pthread_t others[THREADS];

	turns = repeated = 0;
	for (int i = 0; i < THREADS; i++)
		others[i] = check_thread(take_turns, (void *)(long)(i + 1));
	for (int i = 0; i < THREADS; i++)
		check_join(others[i]);
	CHECK(repeated >= TURNS / 4, "only %d of %d turns went to a thread that ran", repeated, TURNS);
}

int main(void)
{
	pthread_rwlock_t preferring = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

	take_turns_together();
	l = preferring;
	take_turns_together();
	return 0;
}
