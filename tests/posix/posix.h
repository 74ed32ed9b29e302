/* SPDX-License-Identifier: MIT */
/* What the POSIX tests share. Each program runs on glibc and on every interposer. Threads wait for one another's state,
 * never for time to pass. */
#ifndef FG_TESTS_POSIX_H
#define FG_TESTS_POSIX_H

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "abi/flexguard_abi.h"
#include "tests/check.h"

#define WATCHDOG_SECONDS 500
#define WRONG_LIBRARY 3 /* exit status */

/* Is an interposer of ours loaded? Its exported thread block tells. */
static inline bool ours(void)
{
	return dlsym(RTLD_DEFAULT, "fg_thread") != NULL;
}

/* So many critical sections the monitor counts for this thread; under ours. What `pending` leads to counts while it
 * names it. */
static inline long sections(void)
{
	const struct fg_thread_block *block = (const struct fg_thread_block *)dlsym(RTLD_DEFAULT, "fg_thread");
	const uint32_t *word = (const uint32_t *)(uintptr_t)block->pending;

	return block->held + (word && (*word & FG_OWNER_MASK) == block->self);
}

/* Two for locks that only spin: they are not made for more threads than hardware contexts. */
static inline int at_most(int threads)
{
	return getenv("FG_TEST_SPIN") && threads > 2 ? 2 : threads;
}

/* Races take many rounds to be seen. They are in what all interposers have in common, so most run a FG_TEST_SHORTth. */
static inline int rounds(int n)
{
	const char *divisor = getenv("FG_TEST_SHORT");

	return divisor ? n / atoi(divisor) + 1 : n;
}

/* The same for a loop whose rounds wait for threads: for (int i = 0; goes_on(i, n); i++). */
static inline bool goes_on(int i, int n)
{
	return check_goes_on(i, rounds(n));
}

/* For locks that pass on a slice of time, not the lock: each short thread costs them a slice. */
static inline bool sliced(void)
{
	return getenv("FG_TEST_SLICED") != NULL;
}

/* Runs before main: a test of the wrong library is no test. */
__attribute__((constructor)) static inline void test_start(void)
{
	const char *under_test = getenv("FG_TEST_LOCK");

	check_watchdog(WATCHDOG_SECONDS);
	if (ours() != (under_test && strcmp(under_test, "glibc") != 0)) {
		fprintf(stderr, "FG_TEST_LOCK is %s, but %s interposer is loaded\n", under_test ? under_test : "unset",
			ours() ? "an" : "no");
		_exit(WRONG_LIBRARY);
	}
}

/* What run(arg) returns in another thread. */
static inline long elsewhere(void *(*run)(void *), void *arg)
{
	return (long)check_join(check_thread(run, arg));
}

/* Waits until *word is at least `value`. Without the functions under test; tests/asleep.c knows a thread that naps. */
static inline void await(int *word, int value)
{
	struct timespec moment = {0, 20000};

	for (int naps = 0; __atomic_load_n(word, __ATOMIC_ACQUIRE) < value; naps++) {
		if (naps == 1000)
			moment.tv_nsec = 5000000;
		nanosleep(&moment, NULL); /* NOLINT(bugprone-signal-handler): nothing but a system call */
	}
}

static inline void tell(int *word, int value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline struct timespec from_now(clockid_t clock, long ns)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += (t.tv_nsec + ns) / 1000000000;
	t.tv_nsec = (t.tv_nsec + ns) % 1000000000;
	return t;
}

static inline bool reached(clockid_t clock, const struct timespec *t)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

/* Does the thread sleep? */
static inline bool sleeps(pid_t tid)
{
	char path[64], text[256] = "";
	const char *state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "re");
	if (!file)
		return false;
	state = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
	fclose(file);
	return state && state[1] == ' ' && state[2] == 'S';
}

/* Memory that another process can map, too. */
static inline void *shared_page(int fd)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

static inline int new_shared_page(void)
{
	int fd = memfd_create("shared page", 0);

	CHECK(fd >= 0);
	ok(ftruncate(fd, 4096));
	return fd;
}

/* Starts the program itself, on glibc alone, with the number of the descriptor as its argument. */
static inline pid_t start_on_glibc(char *self, int fd)
{
	char text[16];
	pid_t pid;

	snprintf(text, sizeof(text), "%d", fd);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		unsetenv("LD_PRELOAD");
		setenv("FG_TEST_LOCK", "glibc", 1);
		execl(self, self, text, (char *)NULL);
		_exit(1);
	}
	return pid;
}

/* Waits for the end of a child, which must be a good one. */
static inline void reap(pid_t pid)
{
	int status;

	CHECK(pid > 0);
	CHECK_IS(waitpid(pid, &status, 0), pid);
	CHECK_IS(status, 0);
}

/* Runs `child` in a child, which must end well; the parent goes on at once, and reaps it later. */
static inline pid_t fork_off(void (*child)(void))
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		alarm(WATCHDOG_SECONDS);
		child();
		_exit(0);
	}
	return pid;
}

/* The same; the parent waits for its end. */
static inline void in_child(void (*child)(void))
{
	reap(fork_off(child));
}

#define LONG_WAIT (1000 * 1000000000l) /* longer than the watchdog: no wait ends by it */

static inline void init_kind(pthread_mutex_t *m, int kind)
{
	pthread_mutexattr_t attr;

	ok(pthread_mutexattr_init(&attr));
	ok(pthread_mutexattr_settype(&attr, kind));
	ok(pthread_mutex_init(m, &attr));
	ok(pthread_mutexattr_destroy(&attr));
}

/* The operations of a thread that does not hold the mutex, for elsewhere(). They leave it as it is. */
static inline void *try_it(void *m)
{
	int error = pthread_mutex_trylock((pthread_mutex_t *)m);

	if (!error)
		ok(pthread_mutex_unlock((pthread_mutex_t *)m));
	return (void *)(long)error;
}

static inline void *unlock_it(void *m)
{
	return (void *)(long)pthread_mutex_unlock((pthread_mutex_t *)m);
}

#endif
