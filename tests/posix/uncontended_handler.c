/* SPDX-License-Identifier: MIT */
/* Calls that find nobody in their way take at most half as many instructions again as glibc's, and some for the way to
 * them: gcc's code takes 15 to 25 % more at most, clang's 48 %. The CPU traps after each, and a handler counts. A
 * pthread_spin_trylock that finds the lock held takes the cache line from the holder once: one locked instruction. */
#include <semaphore.h>
#include <signal.h>
#include <ucontext.h>

#include "tests/posix/posix.h"

#define TRAP_FLAG 0x100
#define LOCK_PREFIX 0xf0
#define WAY 6 /* what is understood of glibc, and the jump to a part of its own */

typedef int call_of(void *object);

static long trapped, locked;
static bool counting;

static void on_trap(int number, siginfo_t *info, void *context)
{
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)number, (void)info;
	trapped++;
	locked += *(const unsigned char *)registers[REG_RIP] == LOCK_PREFIX;
	if (!counting)
		registers[REG_EFL] &= ~(greg_t)TRAP_FLAG;
}

/* Of one call, or of two. */
static long instructions(void *library, const char *first, const char *second, void *object)
{
	call_of *one = (call_of *)dlsym(library, first), *other = second ? (call_of *)dlsym(library, second) : NULL;

	trapped = 0;
	locked = 0;
	counting = true;
	__asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
	one(object);
	if (other)
		other(object);
	counting = false;
	return trapped;
}

/* Both objects are as new. */
static void compare(const char *first, const char *second, void *object, void *glibcs)
{
	void *glibc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
	long ours = 0, theirs = 0;

	CHECK(glibc, "%s", dlerror());
	for (int i = 0; i < 2; i++) { /* the first call may have to look for functions */
		ours = instructions(RTLD_DEFAULT, first, second, object);
		theirs = instructions(glibc, first, second, glibcs);
	}
	CHECK(ours > 2 && theirs > 2, "%s: %ld, %ld", first, ours, theirs);
	CHECK(ours <= theirs + theirs / 2 + WAY, "%s: %ld instructions, glibc's %ld", first, ours, theirs);
}

static void compare_mutexes(int kind)
{
	pthread_mutexattr_t attr;
	pthread_mutex_t mutexes[2];

	ok(pthread_mutexattr_init(&attr));
	ok(pthread_mutexattr_settype(&attr, kind));
	for (int i = 0; i < 2; i++)
		ok(pthread_mutex_init(&mutexes[i], &attr));
	compare("pthread_mutex_lock", "pthread_mutex_unlock", &mutexes[0], &mutexes[1]);
}

static void try_held_spinlock(void)
{
	static pthread_spinlock_t spinlock;

	ok(pthread_spin_init(&spinlock, PTHREAD_PROCESS_PRIVATE));
	ok(pthread_spin_lock(&spinlock));
	CHECK(instructions(RTLD_DEFAULT, "pthread_spin_trylock", NULL, (void *)&spinlock) > 2);
	CHECK(locked <= 1, "pthread_spin_trylock: %ld locked instructions", locked);
	ok(pthread_spin_unlock(&spinlock));
}

static void *wait_for_end(void *end)
{
	await(end, 1);
	return NULL;
}

int main(void)
{
	static pthread_cond_t conds[2] = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	pthread_t second; /* glibc locks without atomic instructions in a process of one thread */
	const char *lock = getenv("FG_TEST_LOCK");
	int end = 0;
	sem_t sems[2];

	check_watchdog(WATCHDOG_SECONDS);
	second = check_thread(wait_for_end, &end);
	ok(sigaction(SIGTRAP, &action, NULL));
	for (int i = 0; i < 2; i++)
		ok(sem_init(&sems[i], 0, 100));
	compare("pthread_cond_signal", NULL, &conds[0], &conds[1]);
	compare("pthread_cond_broadcast", NULL, &conds[0], &conds[1]);
	compare("sem_wait", NULL, &sems[0], &sems[1]);
	try_held_spinlock();
	if (lock && strcmp(lock, "flexguard") == 0) { /* other locks have queues, windows or pools */
		compare_mutexes(PTHREAD_MUTEX_NORMAL);
		compare_mutexes(PTHREAD_MUTEX_RECURSIVE);
		compare_mutexes(PTHREAD_MUTEX_ERRORCHECK);
		compare_mutexes(PTHREAD_MUTEX_ADAPTIVE_NP);
	}
	tell(&end, 1);
	check_join(second);
	return 0;
}
