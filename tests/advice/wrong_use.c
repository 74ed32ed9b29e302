/* SPDX-License-Identifier: MIT */
/* Wrong use beside a monitor: sections that are not ended, that end twice, and that a process dies in, the handle of a
 * word that was freed, and a thread of another user. Nothing of it may stay, and no other user may feel it. */
#include <flexguard/advice.h>
#include <flexguard/monitor.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/check.h"
#include "tests/one_cpu.h"

#define ANOTHER_USER 65534

static struct shared {
	fg_handle handle; /* of the thread that is waited for */
	uint32_t unregistered, saw_it_preempted;
} * s; /* of all processes */
static int memory;

static void spin(void)
{
	for (;;)
		__asm__ volatile("");
}

static void spin_in_a_section(void)
{
	fg_section_begin();
	__atomic_store_n(&s->handle, fg_thread_handle(), __ATOMIC_RELEASE);
	spin();
}

/* On the one CPU where all of them are. */
static pid_t start(void (*play)(void))
{
	pid_t child = fork();

	CHECK(child >= 0, "%m");
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin_to_first_cpu();
	play();
	_exit(0);
}

static enum fg_wait_reason reason(void)
{
	struct fg_wait w = {.whom = __atomic_load_n(&s->handle, __ATOMIC_ACQUIRE)};

	return (enum fg_wait_reason)fg_wait_advice(&w).reason;
}

/* The watchdog ends what does not come. */
static void await(enum fg_wait_reason wanted)
{
	const struct timespec moment = {.tv_nsec = 50000};

	while (reason() != wanted)
		nanosleep(&moment, NULL);
}

static void await_quiet(void)
{
	const struct timespec moment = {.tv_nsec = 50000};

	while (fg_critical_section_preempted())
		nanosleep(&moment, NULL);
}

static void await_handle(void)
{
	while (!__atomic_load_n(&s->handle, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void end(pid_t child)
{
	CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
}

/* Killed while it waits for its CPU: the monitor forgets its name and its count. */
static void dies_in_a_section(void)
{
	pid_t busy = start(spin);

	for (int i = 0; check_goes_on(i, 10); i++) {
		pid_t child = start(spin_in_a_section);

		await_handle();
		await(FG_WHY_PREEMPTED);
		end(child);
		CHECK_IS(reason(), FG_WHY_RUNS); /* of which nothing is known */
		await_quiet();
		__atomic_store_n(&s->handle, 0, __ATOMIC_RELEASE);
	}
	end(busy);
}

/* A wait goes on, by the handle that the word had, when its memory is gone: the advice reads none of the program's. */
static void word_is_freed(void)
{
	fg_handle *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t busy = start(spin), owner = start(spin_in_a_section);
	struct fg_wait w = {0};

	CHECK(word != MAP_FAILED);
	await_handle();
	w.whom = *word = __atomic_load_n(&s->handle, __ATOMIC_ACQUIRE);
	CHECK(munmap(word, 4096) == 0);
	await(FG_WHY_PREEMPTED);
	for (int i = 0; i < 100; i++)
		fg_wait_once(&w);
	end(owner);
	CHECK_IS(fg_wait_advice(&w).reason, FG_WHY_RUNS);
	end(busy);
	__atomic_store_n(&s->handle, 0, __ATOMIC_RELEASE);
	await_quiet();
}

/* This program again, as that user, who registers anew. */
static void as_another_user(const char *role)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", memory);
	setenv("FLEXGUARD_REQUIRE", "1", 1); /* it may wait for long until the monitor has it */
	if (setgid(ANOTHER_USER) == 0 && setuid(ANOTHER_USER) == 0)
		execl("/proc/self/exe", "wrong_use", role, number, NULL);
	_exit(1);
}

static void be_an_owner(void)
{
	as_another_user("owner");
}

static void be_a_waiter(void)
{
	as_another_user("waiter");
}

static int play_another_user(const char *role)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!fg_monitor_attached())
		__atomic_store_n(&s->unregistered, 1, __ATOMIC_RELEASE);
	else if (strcmp(role, "owner") == 0)
		spin_in_a_section();
	await_handle();
	await(FG_WHY_PREEMPTED);
	__atomic_store_n(&s->saw_it_preempted, 1, __ATOMIC_RELEASE);
	return 0;
}

/* Its page names the thread to its own waiter. This user's does not, and counts nothing. */
static void another_users_thread(void)
{
	pid_t busy, owner, waiter, ended = 0;

	if (geteuid() != 0)
		return; /* no other user to become */
	busy = start(spin);
	owner = start(be_an_owner);
	waiter = start(be_a_waiter);
	while (!__atomic_load_n(&s->saw_it_preempted, __ATOMIC_ACQUIRE)) {
		CHECK(!__atomic_load_n(&s->unregistered, __ATOMIC_ACQUIRE));
		CHECK(waitpid(owner, NULL, WNOHANG) == 0, "the owner has ended");
		ended = ended ? ended : waitpid(waiter, NULL, WNOHANG);
		CHECK(!ended || __atomic_load_n(&s->saw_it_preempted, __ATOMIC_ACQUIRE), "the waiter has seen nothing");
		CHECK_IS(reason(), FG_WHY_RUNS);
		CHECK(!fg_critical_section_preempted());
		sched_yield();
	}
	CHECK(ended || waitpid(waiter, NULL, 0) == waiter);
	end(owner);
	end(busy);
}

static void *forget_to_end(void *unused)
{
	for (int i = 0; i < 3; i++)
		fg_section_begin();
	sched_yield();
	return unused;
}

static void *end_twice(void *unused)
{
	fg_section_begin();
	for (int i = 0; i < 3; i++)
		fg_section_end();
	fg_section_begin(); /* is not seen */
	sched_yield();
	fg_section_end();
	return unused;
}

static void threads_that_end(void)
{
	for (int i = 0; check_goes_on(i, 200); i++)
		check_join(check_thread(i % 2 ? forget_to_end : end_twice, NULL));
	await_quiet();
}

int main(int argc, char **argv)
{
	check_watchdog(500);
	memory = argc > 2 ? atoi(argv[2]) : memfd_create("wrong_use", 0);
	CHECK(memory >= 0 && ftruncate(memory, 4096) == 0, "%m");
	s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	CHECK(s != MAP_FAILED, "%m");
	if (argc > 2)
		return play_another_user(argv[1]);
	CHECK(fg_monitor_attached(), "%s", fg_strerror(fg_monitor_error()));
	threads_that_end();
	dies_in_a_section();
	word_is_freed();
	another_users_thread();
	return 0;
}
