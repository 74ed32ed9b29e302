/* SPDX-License-Identifier: MIT */
/* Load control in the child of _Fork, which has no controller: none of its threads sleeps in a slot, whatever the
 * parent's controller wanted, because no thread would wake it. */
#include FGI_LOCK_FILE

#include <sys/wait.h>

#include "tests/check.h"

#define THREADS 4
#define TURNS 2000

static struct fg_lock lock;
static long counter;

static void *take_turns(void *unused)
{
	for (int i = 0; i < TURNS; i++) {
		fgi_lock(&lock);
		counter++;
		fgi_unlock(&lock);
		CHECK(!has_slot());
	}
	return unused;
}

static void in_the_child(void)
{
	pthread_t threads[THREADS];

	check_watchdog(500);
	/* As they may be at the fork: three threads of the parent sleep, and five more should. */
	sleep_buffer.target = 8;
	sleep_buffer.sleepers = 3;
	for (int i = 0; i < 3; i++)
		sleep_buffer.slot[i] = TAKEN;
	fgi_thread_after_fork();
	fgi_lock_after_bare_fork();
	CHECK(!has_slot());
	for (uint32_t i = 0; i < SLOTS; i++)
		CHECK_IS(sleep_buffer.slot[i], EMPTY);
	for (int i = 0; i < THREADS; i++)
		threads[i] = check_thread(take_turns, NULL);
	for (int i = 0; i < THREADS; i++)
		check_join(threads[i]);
	CHECK_IS(counter, THREADS * TURNS);
	CHECK_IS(sleep_buffer.sleepers, 0);
}

int main(void)
{
	int status;
	pid_t pid;

	check_watchdog(500);
	pid = _Fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		in_the_child();
		_exit(0);
	}
	CHECK_IS(waitpid(pid, &status, 0), pid);
	CHECK_IS(status, 0);
	return 0;
}
