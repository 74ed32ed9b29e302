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

/* The samplers of this image; written by constructors only. */
static struct fgi_load_sampler *samplers;

#define TICKS_PER_SECOND 10000u
_Static_assert((uint64_t)TICKS_PER_SECOND *FGI_LOAD_SAMPLER_PERIOD_NS == 1000000000u, "a tick is a period");
#define STACK_BYTES (128u * 1024)

static uint32_t count_contexts(void)
{
	cpu_set_t set;

	/* Fails where the machine has more than 1024 contexts. */
	return sched_getaffinity(0, sizeof(set), &set) == 0 ? (uint32_t)CPU_COUNT(&set) : CPU_SETSIZE;
}

/* Uses a high descriptor number, which no program expects for one of its own. */
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
 * the descriptor, and another file has its number. */
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

static int sample(const struct fgi_load_sampler *s)
{
	char text[64];
	ssize_t n = pread(s->fd, text, sizeof(text) - 1, 0);
	int runnable;

	if (n <= 0)
		return FGI_LOAD_UNKNOWN;
	text[n] = '\0';
	runnable = runnable_in(text);
	return runnable < 0 ? FGI_LOAD_UNKNOWN : runnable - 1 - (int)s->contexts; /* 1: this thread */
}

static void *sample_for_ever(void *argument)
{
	struct fgi_load_sampler *s = argument;

	prctl(PR_SET_NAME, "fg-sampler");
	prctl(PR_SET_TIMERSLACK, 1000ul); /* the default, 50 us, is half a period */
	for (uint32_t tick = TICKS_PER_SECOND / 2;; tick++) {
		int excess;

		if (tick % TICKS_PER_SECOND == 0) {
			s->contexts = count_contexts();
			fg_store_relaxed(&s->wanted, 0); /* waiters have half a second to set it again */
		} else if (tick % TICKS_PER_SECOND == TICKS_PER_SECOND / 2) {
			while (!fg_load_relaxed(&s->wanted))
				fgi_futex_wait(&s->wanted, 0, CLOCK_MONOTONIC, NULL);
		}
		excess = sample(s);
		s->on_sample(excess);
		fgi_nap(excess == FGI_LOAD_UNKNOWN ? TICKS_PER_SECOND * FGI_LOAD_SAMPLER_PERIOD_NS
						   : FGI_LOAD_SAMPLER_PERIOD_NS);
	}
	return NULL;
}

void fgi_load_sampler_wake(struct fgi_load_sampler *s)
{
	if (fg_xchg_relaxed(&s->wanted, 1) == 0)
		fgi_futex_wake(&s->wanted, 1);
}

static void start_thread(struct fgi_load_sampler *s)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	bool started;

	if (pthread_attr_init(&attr) != 0) {
		s->on_sample(FGI_LOAD_UNKNOWN);
		return;
	}
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(&thread, &attr, sample_for_ever, s) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (!started)
		s->on_sample(FGI_LOAD_UNKNOWN);
}

static void fork_child(void)
{
	int saved = errno;

	for (struct fgi_load_sampler *s = samplers; s; s = s->next) {
		s->wanted = 0;
		if (s->fork_child)
			s->fork_child();
		start_thread(s);
	}
	errno = saved;
}

void fgi_load_sampler_after_bare_fork(void)
{
	for (struct fgi_load_sampler *s = samplers; s; s = s->next) {
		s->wanted = 1; /* nobody is to be woken */
		if (s->fork_child)
			s->fork_child();
		s->on_sample(FGI_LOAD_UNKNOWN);
	}
}

void fgi_load_sampler_start(struct fgi_load_sampler *s)
{
	bool first = !samplers;

	s->contexts = count_contexts();
	s->fd = open_loadavg();
	s->next = samplers;
	samplers = s;
	start_thread(s);
	/* After the thread was started: its creation has made the allocator register its own handler, which in a child
	 * then runs before this one, which allocates. */
	if (first)
		pthread_atfork(NULL, NULL, fork_child);
}
