/* SPDX-License-Identifier: MIT */
#include "locks/parts/load_sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/futex.h"

/* Observers of this image; written by constructors only. */
static struct fgi_load_sampler *observers;

#define TICKS_PER_SECOND 10000u
#define STACK_BYTES (128u * 1024)

static uint32_t count_contexts(void)
{
	cpu_set_t set;

	/* Fails where the machine has more than 1024 contexts. */
	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (uint32_t)CPU_COUNT(&set) : CPU_SETSIZE;
}

/* High up among the descriptors, where no program expects one of its own. */
static int open_loadavg(void)
{
	struct rlimit limit = {0};
	int low = open("/proc/loadavg", O_RDONLY | O_CLOEXEC), high = -1;

	if (low < 0)
		return -1;
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur > 64)
		high = fcntl(low, F_DUPFD_CLOEXEC, limit.rlim_cur > 65536 ? 65000 : (int)limit.rlim_cur - 32);
	if (high < 0)
		return low;
	close(low);
	return high;
}

/* "0.42 0.31 0.20 4/143 2512\n": the number before the slash, or -1 if the text is something else: the program closed
 * our descriptor, and another file has its number. */
static int runnable_in(const char *text)
{
	unsigned int runnable = 0;

	for (int i = 0; i < 3; i++) {
		size_t n = strspn(text, "0123456789.");

		if (n == 0 || text[n] != ' ')
			return -1;
		text += n + 1;
	}
	for (; *text >= '0' && *text <= '9' && runnable < 1000000; text++)
		runnable = runnable * 10 + (unsigned int)(*text - '0');
	return *text == '/' ? (int)runnable : -1;
}

static int look(const struct fgi_load_sampler *o)
{
	char text[64];
	ssize_t n = pread(o->fd, text, sizeof(text) - 1, 0);
	int runnable;

	if (n <= 0)
		return FGI_LOAD_UNKNOWN;
	text[n] = '\0';
	runnable = runnable_in(text);
	return runnable < 0 ? FGI_LOAD_UNKNOWN : runnable - 1 - (int)o->contexts; /* 1: this thread */
}

static void *observe_for_ever(void *argument)
{
	struct fgi_load_sampler *o = argument;

	prctl(PR_SET_NAME, "fg-observer");
	prctl(PR_SET_TIMERSLACK, 1000ul); /* the default, 50 us, is half a period */
	for (uint32_t tick = TICKS_PER_SECOND / 2;; tick++) {
		int excess;

		if (tick % TICKS_PER_SECOND == 0) {
			o->contexts = count_contexts();
			fg_store_relaxed(&o->wanted, 0); /* waiters have half a second to object */
		} else if (tick % TICKS_PER_SECOND == TICKS_PER_SECOND / 2) {
			while (!fg_load_relaxed(&o->wanted))
				fgi_futex_wait(&o->wanted, 0, CLOCK_MONOTONIC, NULL);
		}
		excess = look(o);
		o->observe(excess);
		fgi_nap(excess == FGI_LOAD_UNKNOWN ? TICKS_PER_SECOND * FGI_LOAD_SAMPLER_PERIOD_NS
						   : FGI_LOAD_SAMPLER_PERIOD_NS);
	}
	return NULL;
}

void fgi_load_sampler_wake(struct fgi_load_sampler *o)
{
	if (fg_xchg_relaxed(&o->wanted, 1) == 0)
		fgi_futex_wake(&o->wanted, 1);
}

static void start_thread(struct fgi_load_sampler *o)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	bool started;

	if (pthread_attr_init(&attr) != 0) {
		o->observe(FGI_LOAD_UNKNOWN);
		return;
	}
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(&thread, &attr, observe_for_ever, o) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (!started)
		o->observe(FGI_LOAD_UNKNOWN);
}

static void fork_child(void)
{
	int saved = errno;

	for (struct fgi_load_sampler *o = observers; o; o = o->next) {
		o->wanted = 0;
		if (o->fork_child)
			o->fork_child();
		start_thread(o);
	}
	errno = saved;
}

void fgi_load_sampler_start(struct fgi_load_sampler *o)
{
	bool first = !observers;

	o->contexts = count_contexts();
	o->fd = open_loadavg();
	o->next = observers;
	observers = o;
	start_thread(o);
	/* After the thread, which had the allocator set itself up: so that in a child the allocator's handler runs
	 * before ours, which allocates. */
	if (first)
		pthread_atfork(NULL, NULL, fork_child);
}
