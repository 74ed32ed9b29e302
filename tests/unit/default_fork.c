/* SPDX-License-Identifier: MIT */
/* The child of a fork beside waiters: of all that stands in a default lock about threads that stayed in the parent,
 * nothing keeps the child's threads waiting. */
#include "tests/unit/crowd.h"

#include <sys/wait.h>

static struct fg_lock lock;

static void *waits(void *unused)
{
	(void)unused;
	fgi_lock(&lock);
	fgi_unlock(&lock);
	return NULL;
}

static void run_child(void (*child)(void))
{
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		check_watchdog(60);
		child();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed: %x", (unsigned int)status);
}

static void works(void)
{
	check_lock_works(&lock);
}

/* The child of a child: another generation. */
static void grandchild(void)
{
	struct fg_lock of_parent = lock;

	run_child(works);
	check_lock_works(&lock);
	lock = of_parent;
	run_child(works);
}

static void releases(void)
{
	CHECK(fgi_self() == (uint32_t)getpid());
	CHECK_SECTIONS(1);
	fgi_unlock(&lock);
	CHECK(is_free(lock.word));
	CHECK_SECTIONS(0);
	check_lock_works(&lock);
}

/* Parked threads stay parked while the child looks at the room that they are in. */
static void test_with_waiters(void)
{
	const uint64_t usual = fgi_tune.lease_ns;
	pthread_t thread[3];

	for (int number = 1; number <= 3; number++) {
		fgi_lock(&lock);
		thread[0] = check_thread(waits, NULL);
		await_bits(&lock.room.seats, FGI_SEAT);
		for (int i = 1; i < number; i++)
			thread[i] = check_thread(waits, NULL);
		await_parked(&lock, (uint32_t)number - 1);
		await_bits(&lock.word, WAKE);
		run_child(releases);
		CHECK(fgi_tune.lease_ns == usual);
		fgi_unlock(&lock);
		for (int i = 0; i < number; i++)
			check_join(thread[i]);
		check_lock_works(&lock);
	}
}

/* Every state in which a fork can find a free lock, without the threads that the state is about. */
static void test_states(void)
{
	const uint32_t words[] = {0, WAKE, DEMAND, WAKE | DEMAND};
	const uint32_t seats[] = {0,
				  FGI_SEAT,
				  FGI_SEAT | FGI_CALLED | FGI_ONE,
				  FGI_SEAT | 3 * FGI_ONE,
				  FGI_SEAT | FGI_KNOCK | 2 * FGI_ONE,
				  FGI_SEAT | FGI_CALLED | FGI_KNOCK | 1000 * FGI_ONE,
				  5 * FGI_ONE};

	for (size_t w = 0; w < sizeof(words) / sizeof(words[0]); w++) {
		for (size_t s = 0; s < sizeof(seats) / sizeof(seats[0]); s++) {
			lock = (struct fg_lock){.word = words[w], .room.seats = fgi_room_now(0) | seats[s]};
			run_child(works);
		}
	}
	run_child(grandchild);
}

int main(void)
{
	check_watchdog(200);
	fgi_self();
	test_with_waiters();
	test_states();
	return 0;
}
