/* SPDX-License-Identifier: MIT */
/* Mutexes in the fork handlers of a library whose handlers were registered before the interposer was there, while other
 * threads queue for them. */
#include <sys/mman.h>

#include "tests/posix/guarded/guarded.h"
#include "tests/posix/posix.h"

static int stop, waiting;

static void *use(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		ok(pthread_mutex_lock(&guarded));
		ok(pthread_mutex_unlock(&guarded));
	}
	return arg;
}

static void *wait_for_change(void *arg)
{
	ok(pthread_mutex_lock(&guarded));
	waiting++;
	while (!stop)
		ok(pthread_cond_wait(&changed, &guarded));
	ok(pthread_mutex_unlock(&guarded));
	return arg;
}

/* Forks with handlers that do `how`; the child runs `then` and must end well. */
static void fork_with(enum guard how, void (*then)(void))
{
	int before = handled;
	pid_t pid;

	guard = how;
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK_IS(handled, before + 1);
		then();
		_exit(0);
	}
	reap(pid);
}

static void *lock_once(void *arg)
{
	ok(pthread_mutex_lock(&guarded));
	ok(pthread_mutex_unlock(&guarded));
	return arg;
}

static void go_on(void)
{
	ok(elsewhere(lock_once, NULL));
	lock_once(NULL);
}

/* The child of a child finds the lock as that one left it: free, though a lock of that place was held before. */
static void renew_again(void)
{
	go_on();
	fork_with(IGNORE, go_on);
	fork_with(UNLOCK, go_on);
	fork_with(RENEW, go_on);
}

static void unlock_and_go_on(void)
{
	ok(pthread_mutex_unlock(&guarded));
	go_on();
}

/* Made anew by assignment: nobody was told. */
static void assign_anew(void)
{
	guarded = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	fork_with(IGNORE, go_on);
	ok(pthread_mutex_lock(&guarded));
	fork_with(IGNORE, unlock_and_go_on);
	unlock_and_go_on();
}

static pthread_mutex_t *mapped;

/* What was held through a fork is made anew, ends, and its memory goes; and then another fork. */
static void unmap(void)
{
	ok(pthread_mutex_init(mapped, NULL));
	ok(pthread_mutex_lock(mapped));
	ok(pthread_mutex_unlock(mapped));
	ok(pthread_mutex_destroy(mapped));
	ok(munmap(mapped, sizeof(*mapped)));
	fork_with(IGNORE, unlock_and_go_on);
}

static void held_and_unmapped(void)
{
	mapped = mmap(NULL, sizeof(*mapped), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(mapped != MAP_FAILED);
	ok(pthread_mutex_init(mapped, NULL));
	ok(pthread_mutex_lock(mapped));
	fork_with(IGNORE, unmap);
	ok(pthread_mutex_unlock(mapped));
}

static void held_and_renewed(void)
{
	fork_with(IGNORE, unlock_and_go_on);
	fork_with(IGNORE, assign_anew);
}

int main(void)
{
	int users = at_most(3) - 1;
	pthread_t user[2], waiter;

	for (int i = 0; i < users; i++)
		user[i] = check_thread(use, NULL);
	for (int i = 0; i < rounds(50); i++) {
		fork_with(UNLOCK, go_on);
		fork_with(UNLOCK_TWICE, go_on);
		fork_with(RENEW, renew_again);
	}
	waiter = check_thread(wait_for_change, NULL);
	await(&waiting, 1);
	if (ours()) /* glibc's condition variable counts the dead */
		for (int i = 0; i < rounds(50); i++)
			fork_with(WAIT, go_on);
	guard = IGNORE;
	tell(&stop, 1);
	for (int i = 0; i < users; i++)
		check_join(user[i]);
	ok(pthread_mutex_lock(&guarded));
	held_and_renewed();
	held_and_unmapped();
	ok(pthread_cond_broadcast(&changed));
	ok(pthread_mutex_unlock(&guarded));
	check_join(waiter);
	return 0;
}
