/* SPDX-License-Identifier: MIT */
#include "simulator/calls.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simulator/futex.h"
#include "simulator/host.h"

#define FIRST_TID 1000
#define MOST_KEYS 32u

/* __wrap_NAME answers a call of NAME; __real_NAME is the host's. */
#define WRAP(type, name, ...)                                                                                          \
	type __real_##name(__VA_ARGS__);                                                                               \
	type __wrap_##name(__VA_ARGS__);                                                                               \
	type __wrap_##name(__VA_ARGS__)

uint32_t fgs_tid_stride = 1;

static int tid_of(const struct fgs_thread *t)
{
	return FIRST_TID + (int)(t->id * fgs_tid_stride);
}

/* 0: the calling thread. */
static struct fgs_thread *thread_of(int tid)
{
	if (tid == 0)
		return fgs_self();
	tid = (tid - FIRST_TID) / (int)fgs_tid_stride;
	return tid >= 0 && (uint32_t)tid < fgs_thread_count ? fgs_threads[tid] : NULL;
}

static void system_call(void)
{
	fgs_here->paused = false;
	fgs_here->now += fgs_takes(fgs_here, FGS_syscall);
	fgs_settle();
}

static int failed(int error)
{
	errno = error;
	return -1;
}

/* ---- time ------------------------------------------------------------------------------------------------------- */

WRAP(int, clock_gettime, clockid_t clock, struct timespec *t)
{
	uint64_t ns;

	if (!fgs_here)
		return __real_clock_gettime(clock, t);
	fgs_compute(fgs_cost(FGS_clock));
	ns = fgs_now_ns();
	if (clock == CLOCK_THREAD_CPUTIME_ID)
		ns = (fgs_self()->ran + fgs_here->now - fgs_here->began) / FGS_NS;
	t->tv_sec = (time_t)(ns / 1000000000u);
	t->tv_nsec = (long)(ns % 1000000000u);
	return 0;
}

void fgs_sleep_until(fgs_ps when)
{
	struct fgs_thread *t = fgs_self();

	system_call();
	if (when + t->slack <= fgs_here->now)
		return;
	t->timed_out = false;
	t->generation++;
	fgs_timer_set(when);
	fgs_sleep();
	fgs_here->now += fgs_cost(FGS_syscall);
}

WRAP(int, clock_nanosleep, clockid_t clock, int flags, const struct timespec *t, struct timespec *left)
{
	if (!fgs_here)
		return __real_clock_nanosleep(clock, flags, t, left);
	if (flags & TIMER_ABSTIME)
		fgs_sleep_until(fgs_time_of(t));
	else
		fgs_sleep_until(fgs_here->now + ((fgs_ps)t->tv_sec * 1000000000u + (fgs_ps)t->tv_nsec) * FGS_NS);
	return 0;
}

WRAP(int, nanosleep, const struct timespec *t, struct timespec *left)
{
	if (!fgs_here)
		return __real_nanosleep(t, left);
	return __wrap_clock_nanosleep(CLOCK_MONOTONIC, 0, t, left);
}

WRAP(int, usleep, useconds_t us)
{
	if (!fgs_here)
		return __real_usleep(us);
	fgs_sleep_until(fgs_here->now + us * FGS_US);
	return 0;
}

WRAP(int, pause, void)
{
	if (!fgs_here)
		return __real_pause();
	for (;;)
		fgs_sleep();
}

/* ---- the scheduler ---------------------------------------------------------------------------------------------- */

WRAP(int, sched_yield, void)
{
	if (!fgs_here)
		return __real_sched_yield();
	system_call();
	fgs_here->now += fgs_takes(fgs_here, FGS_yield);
	fgs_settle();
	if (fgs_here->queued)
		fgs_yield();
	return 0;
}

WRAP(int, sched_getcpu, void)
{
	if (!fgs_here)
		return __real_sched_getcpu();
	fgs_here->now += fgs_cost(FGS_counter);
	return (int)fgs_here->id;
}

WRAP(int, getcpu, unsigned int *cpu, unsigned int *node)
{
	if (!fgs_here)
		return __real_getcpu(cpu, node);
	fgs_here->now += fgs_cost(FGS_counter);
	if (cpu)
		*cpu = fgs_here->id;
	if (node)
		*node = fgs_places[fgs_here->id].socket;
	return 0;
}

WRAP(int, sched_getscheduler, pid_t tid)
{
	const struct fgs_thread *t;

	if (!fgs_here)
		return __real_sched_getscheduler(tid);
	system_call();
	t = thread_of(tid);
	return t ? t->policy : failed(ESRCH);
}

WRAP(int, sched_getparam, pid_t tid, struct sched_param *param)
{
	const struct fgs_thread *t;

	if (!fgs_here)
		return __real_sched_getparam(tid, param);
	system_call();
	t = thread_of(tid);
	if (!t)
		return failed(ESRCH);
	param->sched_priority = t->priority;
	return 0;
}

WRAP(int, sched_setscheduler, pid_t tid, int policy, const struct sched_param *param)
{
	struct fgs_thread *t;

	if (!fgs_here)
		return __real_sched_setscheduler(tid, policy, param);
	system_call();
	t = thread_of(tid);
	if (!t)
		return failed(ESRCH);
	t->policy = policy;
	t->priority = param->sched_priority;
	fgs_set_nice(t, t->nice);
	return 0;
}

WRAP(int, sched_getaffinity, pid_t tid, size_t size, cpu_set_t *set)
{
	const struct fgs_thread *t;

	if (!fgs_here)
		return __real_sched_getaffinity(tid, size, set);
	system_call();
	t = thread_of(tid);
	if (!t)
		return failed(ESRCH);
	CPU_ZERO_S(size, set);
	for (uint32_t i = 0; i < fgs_cpu_count; i++)
		if (t->allowed.word[i / 64] >> i % 64 & 1)
			CPU_SET_S(i, size, set);
	return 0;
}

WRAP(int, sched_setaffinity, pid_t tid, size_t size, const cpu_set_t *set)
{
	struct fgs_set allowed = {{0}};
	struct fgs_thread *t;
	uint64_t any = 0;

	if (!fgs_here)
		return __real_sched_setaffinity(tid, size, set);
	system_call();
	t = thread_of(tid);
	if (!t)
		return failed(ESRCH);
	for (uint32_t i = 0; i < fgs_cpu_count; i++)
		if (CPU_ISSET_S(i, size, set))
			allowed.word[i / 64] |= 1ull << i % 64;
	for (uint32_t i = 0; i < FGS_WORDS; i++)
		any |= allowed.word[i];
	if (!any)
		return failed(EINVAL);
	t->allowed = allowed;
	if (t == fgs_self() && !(allowed.word[fgs_here->word] & fgs_here->bit))
		fgs_move();
	return 0;
}

WRAP(int, getpriority, __priority_which_t which, id_t id)
{
	const struct fgs_thread *t;

	if (!fgs_here)
		return __real_getpriority(which, id);
	system_call();
	t = thread_of((int)id);
	return t ? t->nice : failed(ESRCH);
}

WRAP(int, setpriority, __priority_which_t which, id_t id, int nice)
{
	struct fgs_thread *t;

	if (!fgs_here)
		return __real_setpriority(which, id, nice);
	system_call();
	t = thread_of((int)id);
	if (!t)
		return failed(ESRCH);
	fgs_set_nice(t, nice);
	return 0;
}

/* What the kernel calls struct sched_attr, as far as it matters here. */
struct attributes {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

static long attributes(long number, int tid, struct attributes *a)
{
	struct fgs_thread *t = thread_of(tid);

	system_call();
	if (!t)
		return failed(ESRCH);
	if (number == SYS_sched_getattr) {
		*a = (struct attributes){.size = sizeof(*a), .policy = (uint32_t)t->policy, .nice = t->nice};
		a->runtime = t->slice / FGS_NS;
		return 0;
	}
	t->policy = (int)a->policy;
	if (a->runtime)
		t->slice = a->runtime * FGS_NS;
	fgs_set_nice(t, a->nice);
	return 0;
}

/* ---- system calls by number ------------------------------------------------------------------------------------- */

static long membarrier(long command)
{
	struct fgs_cpu *here;

	if (command != MEMBARRIER_CMD_PRIVATE_EXPEDITED)
		return 0;
	system_call();
	here = fgs_here;
	here->now += fgs_cost(FGS_membarrier);
	for (uint32_t i = 0; i < fgs_cpu_count; i++) {
		struct fgs_cpu *c = &fgs_cpus[i];

		if (c == here || !c->thread || c->thread->process != fgs_self()->process)
			continue;
		here->now += fgs_cost(FGS_membarrier_cpu);
		c->debt += fgs_cost(FGS_interrupt);
	}
	return 0;
}

static long futex(uint32_t *word, int operation, uint32_t value, const struct timespec *timeout, uint32_t bits)
{
	fgs_ps until;
	int error;

	switch (operation & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
		if (timeout)
			until = fgs_here->now +
				((fgs_ps)timeout->tv_sec * 1000000000u + (fgs_ps)timeout->tv_nsec) * FGS_NS;
		error = fgs_futex_wait(word, value, timeout ? &until : NULL, FUTEX_BITSET_MATCH_ANY);
		return error ? failed(error) : 0;
	case FUTEX_WAIT_BITSET:
		if (timeout)
			until = fgs_time_of(timeout);
		error = fgs_futex_wait(word, value, timeout ? &until : NULL, bits);
		return error ? failed(error) : 0;
	case FUTEX_WAKE:
		return fgs_futex_wake(word, (int)value, FUTEX_BITSET_MATCH_ANY);
	case FUTEX_WAKE_BITSET:
		return fgs_futex_wake(word, (int)value, bits);
	default:
		fgs_fail("the simulator does not know futex operation %d", operation & FUTEX_CMD_MASK);
	}
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	(void)e;
	if (!fgs_here)
		return __real_syscall(number, a, b, c, d, e, f);
	switch (number) {
	case SYS_gettid:
		system_call();
		return tid_of(fgs_self());
	case SYS_futex:
		return futex((uint32_t *)a, (int)b, (uint32_t)c, (const struct timespec *)d, (uint32_t)f);
	case SYS_membarrier:
		return membarrier(a);
	case SYS_tkill:
		system_call();
		return thread_of((int)a) && thread_of((int)a)->state != FGS_ENDED ? 0 : failed(ESRCH);
	case SYS_sched_getaffinity:
		return __wrap_sched_getaffinity((pid_t)a, (size_t)b, (cpu_set_t *)c) == 0 ? b : -1;
	case SYS_sched_setattr:
	case SYS_sched_getattr:
		return attributes(number, (int)a, (struct attributes *)b);
	default:
		system_call();
		return failed(ENOSYS);
	}
}

WRAP(pid_t, gettid, void)
{
	return fgs_here ? tid_of(fgs_self()) : __real_gettid();
}

WRAP(pid_t, getpid, void)
{
	return fgs_here ? FIRST_TID + (int)FGS_THREADS * (int)fgs_self()->process : __real_getpid();
}

int __real_prctl(int option, ...);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
	if (!fgs_here)
		return __real_prctl(option, a, b, c, d);
	system_call();
	if (option == PR_SET_TIMERSLACK)
		fgs_self()->slack = a * FGS_NS;
	else if (option != PR_SET_NAME)
		return failed(EINVAL);
	return 0;
}

WRAP(int, getrusage, __rusage_who_t who, struct rusage *use)
{
	fgs_ps ran = 0;

	if (!fgs_here)
		return __real_getrusage(who, use);
	system_call();
	if (fgs_self()->id == 0) /* the worker does so at the ends of its measurement */
		fgs_mark();
	memset(use, 0, sizeof(*use));
	for (uint32_t i = 0; i < fgs_thread_count; i++) {
		const struct fgs_thread *t = fgs_threads[i];
		const struct fgs_cpu *c = &fgs_cpus[t->cpu];

		if (t->process != fgs_self()->process || (who == (__rusage_who_t)RUSAGE_THREAD && t != fgs_self()))
			continue;
		ran += t->ran + (c->thread == t && c->now > c->began ? c->now - c->began : 0);
		use->ru_nvcsw += (long)t->voluntary;
		use->ru_nivcsw += (long)t->involuntary;
	}
	use->ru_utime.tv_sec = (time_t)(ran / (1000 * FGS_MS));
	use->ru_utime.tv_usec = (suseconds_t)(ran % (1000 * FGS_MS) / FGS_US);
	return 0;
}

/* ---- threads ---------------------------------------------------------------------------------------------------- */

static struct {
	void (*destroy)(void *);
	bool used;
} keys[MOST_KEYS];

WRAP(int, pthread_key_create, pthread_key_t *key, void (*destroy)(void *))
{
	for (uint32_t i = 0; i < MOST_KEYS; i++) {
		if (keys[i].used)
			continue;
		keys[i].used = true;
		keys[i].destroy = destroy;
		*key = i;
		return 0;
	}
	return EAGAIN;
}

WRAP(int, pthread_setspecific, pthread_key_t key, const void *value)
{
	if (key >= MOST_KEYS)
		return EINVAL;
	if (fgs_here)
		fgs_self()->specific[key] = (void *)(uintptr_t)value;
	return 0;
}

WRAP(void *, pthread_getspecific, pthread_key_t key)
{
	return fgs_here && key < MOST_KEYS ? fgs_self()->specific[key] : NULL;
}

static void destroy_specific(void)
{
	for (int round = 0; round < 4; round++)
		for (uint32_t i = 0; i < MOST_KEYS; i++) {
			void *value = fgs_self()->specific[i];

			fgs_self()->specific[i] = NULL;
			if (value && keys[i].destroy)
				keys[i].destroy(value);
		}
}

struct start {
	void *(*body)(void *);
	void *argument;
};

static void *start(void *argument)
{
	struct start s = *(struct start *)argument;
	void *result;

	fgs_free(argument);
	result = s.body(s.argument);
	destroy_specific();
	system_call();
	return result;
}

static struct fgs_thread *handle(pthread_t thread)
{
	return thread && thread <= fgs_thread_count ? fgs_threads[thread - 1] : NULL;
}

static struct fgs_thread *make(void *(*body)(void *), void *argument, uint32_t process)
{
	struct start *s = fgs_allocate(sizeof(*s), 16);
	struct fgs_thread *t;

	if (!s)
		fgs_fail("not enough memory");
	*s = (struct start){body, argument};
	t = fgs_thread_new(start, s, process);
	if (!t)
		fgs_fail("more threads than the model holds (%u)", FGS_THREADS);
	return t;
}

/* Threads that constructors make: simulated ones, too, once there is something to simulate. They cannot be joined. */
static struct start early[16];
static uint32_t early_count;

static int make_early(pthread_t *thread, void *(*body)(void *), void *argument)
{
	if (early_count == sizeof(early) / sizeof(early[0]))
		return EAGAIN;
	early[early_count++] = (struct start){body, argument};
	*thread = 0;
	return 0;
}

void fgs_start_early_threads(void)
{
	for (uint32_t i = 0; i < early_count; i++) {
		struct fgs_thread *t = make(early[i].body, early[i].argument, 0);

		t->detached = true;
		t->allowed = fgs_threads[0]->allowed;
		fgs_set_nice(t, 0);
		fgs_watch_thread(t);
		fgs_wake_new(t, 0);
	}
	early_count = 0;
}

void fgs_forget_early_threads(void)
{
	early_count = 0;
}

WRAP(int, pthread_create, pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument)
{
	struct fgs_thread *t;
	int detached = PTHREAD_CREATE_JOINABLE;

	if (!fgs_here)
		return make_early(thread, body, argument);
	t = make(body, argument, fgs_self()->process);
	if (attributes)
		pthread_attr_getdetachstate(attributes, &detached);
	t->detached = detached == PTHREAD_CREATE_DETACHED;
	t->allowed = fgs_self()->allowed;
	t->policy = fgs_self()->policy;
	t->priority = fgs_self()->priority;
	fgs_set_nice(t, fgs_self()->nice);
	fgs_watch_thread(t);
	*thread = t->id + 1;
	system_call();
	fgs_here->now += fgs_cost(FGS_clone);
	fgs_wake_new(t, fgs_here->now);
	return 0;
}

static int join(pthread_t thread, void **result, const struct timespec *until)
{
	struct fgs_thread *t = handle(thread), *self = fgs_self();

	if (!t)
		return ESRCH;
	system_call();
	while (t->state != FGS_ENDED) {
		t->joiner = self;
		self->timed_out = false;
		self->generation++;
		if (until)
			fgs_timer_set(fgs_time_of(until));
		fgs_sleep();
		fgs_timer_cancel();
		t->joiner = NULL;
		if (self->timed_out)
			return ETIMEDOUT;
	}
	if (result)
		*result = t->result;
	return 0;
}

WRAP(int, pthread_join, pthread_t thread, void **result)
{
	return fgs_here ? join(thread, result, NULL) : __real_pthread_join(thread, result);
}

WRAP(int, pthread_clockjoin_np, pthread_t thread, void **result, clockid_t clock, const struct timespec *until)
{
	return fgs_here ? join(thread, result, until) : __real_pthread_clockjoin_np(thread, result, clock, until);
}

WRAP(int, pthread_detach, pthread_t thread)
{
	if (!fgs_here)
		return __real_pthread_detach(thread);
	return handle(thread) ? 0 : ESRCH;
}

WRAP(pthread_t, pthread_self, void)
{
	return fgs_here ? fgs_self()->id + 1 : __real_pthread_self();
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

WRAP(void *, malloc, size_t bytes)
{
	return fgs_here ? fgs_allocate(bytes, 16) : __real_malloc(bytes);
}

WRAP(void *, aligned_alloc, size_t alignment, size_t bytes)
{
	return fgs_here ? fgs_allocate(bytes, alignment) : __real_aligned_alloc(alignment, bytes);
}

WRAP(int, posix_memalign, void **memory, size_t alignment, size_t bytes)
{
	if (!fgs_here)
		return __real_posix_memalign(memory, alignment, bytes);
	*memory = fgs_allocate(bytes, alignment);
	return *memory ? 0 : ENOMEM;
}

WRAP(void *, calloc, size_t count, size_t bytes)
{
	void *memory;

	if (!fgs_here)
		return __real_calloc(count, bytes);
	memory = bytes && count > SIZE_MAX / bytes ? NULL : fgs_allocate(count * bytes, 16);
	return memory ? memset(memory, 0, count * bytes) : NULL;
}

WRAP(void, free, void *memory)
{
	if (fgs_is_simulated(memory))
		fgs_free(memory);
	else
		__real_free(memory);
}

WRAP(void *, realloc, void *memory, size_t bytes)
{
	void *larger;

	if (!fgs_is_simulated(memory) && (!fgs_here || memory))
		return __real_realloc(memory, bytes);
	larger = fgs_allocate(bytes, 16);
	if (larger && memory) {
		memcpy(larger, memory, bytes < fgs_allocated(memory) ? bytes : fgs_allocated(memory));
		fgs_free(memory);
	}
	return larger;
}

WRAP(void *, mmap, void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	void *memory;

	if (!fgs_here || fd >= 0)
		return __real_mmap(at, bytes, protection, flags, fd, offset);
	memory = fgs_allocate(bytes, 4096);
	return memory ? memset(memory, 0, bytes) : MAP_FAILED;
}

WRAP(int, munmap, void *memory, size_t bytes)
{
	if (!fgs_is_simulated(memory))
		return __real_munmap(memory, bytes);
	fgs_free(memory);
	return 0;
}

/* ---- what would tell of the host -------------------------------------------------------------------------------- */

WRAP(FILE *, fopen, const char *file, const char *mode)
{
	if (fgs_here && strncmp(file, "/proc/", 6) == 0) {
		errno = ENOENT;
		return NULL;
	}
	return __real_fopen(file, mode);
}

/* /proc/loadavg, as a device that nothing else opens. */
int __real_open(const char *file, int flags, ...);
int __wrap_open(const char *file, int flags, unsigned int mode);
int __wrap_open(const char *file, int flags, unsigned int mode)
{
	if (!fgs_here || strncmp(file, "/proc/", 6) != 0)
		return __real_open(file, flags, mode);
	if (strcmp(file, "/proc/loadavg") == 0)
		return __real_open("/dev/null", flags);
	return failed(ENOENT);
}

WRAP(ssize_t, pread, int fd, void *to, size_t bytes, off_t offset)
{
	struct stat s;
	unsigned int runnable = 0;

	if (!fgs_here || fstat(fd, &s) || !S_ISCHR(s.st_mode))
		return __real_pread(fd, to, bytes, offset);
	system_call();
	for (uint32_t i = 0; i < fgs_thread_count; i++)
		runnable += fgs_threads[i]->state == FGS_RUNNABLE || fgs_threads[i]->state == FGS_RUNNING;
	return snprintf(to, bytes, "0.00 0.00 0.00 %u/%u %d\n", runnable, fgs_thread_count, FIRST_TID);
}

/* No monitor of the host is asked: the simulated one is attached (watch.c). */
WRAP(char *, secure_getenv, const char *name)
{
	static char nothing[] = "";

	if (strcmp(name, "FLEXGUARD_SOCKET") == 0)
		return nothing;
	return __real_secure_getenv(name);
}
