/* SPDX-License-Identifier: MIT */
/* A fork harms no lock of the parent. The parent's threads hold and wait for process-private mutexes that are in memory
 * which the child shares, does not have, or finds zeroed, and the parent forks a thousand times. A second process does
 * the same beside it. The child uses what is its own. */
#include "tests/posix/posix.h"

enum kind { SHARED, MEMFD, DONTFORK, WIPEONFORK, PRIVATE, KINDS };

/* In memory of that kind: a mutex, and what it protects. */
struct guarded {
	pthread_mutex_t mutex;
	long inside, counter;
};

static struct guarded *in[KINDS];
static int stop;

static void *map(enum kind kind)
{
	int flags = kind == SHARED || kind == MEMFD ? MAP_SHARED : MAP_PRIVATE;
	int fd = kind == MEMFD ? new_shared_page() : -1;
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);

	CHECK(memory != MAP_FAILED);
	if (kind == DONTFORK || kind == WIPEONFORK)
		ok(madvise(memory, 4096, kind == DONTFORK ? MADV_DONTFORK : MADV_WIPEONFORK));
	if (fd >= 0)
		close(fd);
	return memory;
}

static void enter(struct guarded *g)
{
	ok(pthread_mutex_lock(&g->mutex));
	CHECK_IS(g->inside, 0);
	g->inside = 1;
}

static void leave(struct guarded *g)
{
	CHECK_IS(g->inside, 1);
	g->counter++;
	g->inside = 0;
	ok(pthread_mutex_unlock(&g->mutex));
}

/* Counts in `arg` how often it has entered all. */
static void *use(void *arg)
{
	long *rounds = arg;

	for (; !__atomic_load_n(&stop, __ATOMIC_RELAXED); ++*rounds) {
		for (int kind = 0; kind < KINDS; kind++) {
			enter(in[kind]);
			leave(in[kind]);
		}
	}
	return NULL;
}

static void *enter_own(void *arg)
{
	for (int i = 0; i < 10; i++) {
		enter(in[PRIVATE]);
		leave(in[PRIVATE]);
	}
	return arg;
}

/* The thread that forked holds the private mutex, for which threads waited that are not here. */
static void child(void)
{
	pthread_t other;

	leave(in[PRIVATE]);
	other = check_thread(enter_own, NULL);
	enter_own(NULL);
	check_join(other);
	ok(pthread_mutex_lock(&in[WIPEONFORK]->mutex)); /* zeroed memory is an unlocked mutex */
	ok(pthread_mutex_unlock(&in[WIPEONFORK]->mutex));
}

/* At every second fork the parent holds them all, and else the private one. */
static void fork_often(void)
{
	pthread_t threads[3];
	long rounds_of[3] = {0}, expected = 0;
	int users = at_most(3) == 3 ? 3 : 1, forks; /* beside this thread */

	for (int kind = 0; kind < KINDS; kind++)
		in[kind] = map(kind);
	for (int t = 0; t < users; t++)
		threads[t] = check_thread(use, &rounds_of[t]);
	for (forks = 0; goes_on(forks, 1000); forks++) {
		int first = forks % 2 ? 0 : PRIVATE;

		for (int kind = first; kind < KINDS; kind++)
			enter(in[kind]);
		pid_t pid = fork_off(child);

		for (int kind = KINDS - 1; kind >= first; kind--)
			leave(in[kind]);
		reap(pid);
	}
	tell(&stop, 1);
	for (int t = 0; t < users; t++) {
		check_join(threads[t]);
		expected += rounds_of[t];
	}
	for (int kind = 0; kind < KINDS; kind++)
		CHECK_IS(in[kind]->counter, expected + (kind == PRIVATE ? forks : forks / 2));
}

static void once_more(void)
{
	enter(in[SHARED]);
	leave(in[SHARED]);
}

/* Memory that the parent shares with its child, and that only the child uses from the fork on, until it has ended. */
static void take_over(void)
{
	once_more();
	reap(fork_off(once_more));
}

static void lent(void)
{
	once_more();
	reap(fork_off(take_over));
	once_more();
}

int main(void)
{
	pid_t second = fork_off(fork_often);

	fork_often();
	reap(second);
	lent();
	return 0;
}
