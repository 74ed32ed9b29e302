/* SPDX-License-Identifier: MIT */
/* conformance CLAUSES: runs each line of clauses.tsv in a process of its own and prints `ok` or `not ok`, its number,
 * the function and the clause. Ends 0 if all hold. A process mostly sleeps, so some run at the same time.
 *
 * A line is: function, section of the standard, what it says, script; separated by tabs. A script is a list of
 * statements, separated by semicolons:
 *
 *   FUNCTION argument...             calls it, whatever it returns
 *   FUNCTION argument... = A|B       and it returns A or B: a number, a name of errno.h, or another of `names` below
 *   b> FUNCTION argument... = A      the same in the thread b (or c, d); without a prefix the main thread calls
 *   b> FUNCTION argument... blocks   it has not returned when it sleeps. Where waiters may just spin, at a mutex or a
 *                                    spinlock, it may also have been busy for some milliseconds
 *   b> ends = A                      the call that blocked returns A; without a value: it returns
 *   b> cancel                        asks the thread b to end; `b> ends = CANCELED` waits until it has
 *   value = A                        what was last stored through the argument &v
 *   called = A                       so often count_call, or wait_call to its end, was called
 *   late                             the last time that was an argument has been reached
 *
 * Arguments are objects (a letter or two and a number: m0 c1 ma0 …), names, numbers, NULL, &v, and times: rt+5 (five
 * milliseconds from now on CLOCK_REALTIME), mono+5, past, bad (tv_nsec is 10^9), neg (tv_nsec is -1). */
#include <ctype.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>

#include "tests/posix/posix.h"

#define OBJECTS 4
#define WORKERS 3
#define BLOCKS_NS 4000000
#define AT_ONCE 4
#define CANCELED 1000
#define UNSET (-999)

/* Each kind of object: large enough for any of ours, aligned as all are. */
struct object {
	_Alignas(64) unsigned char bytes[64];
};

static int value = UNSET, called;
static sem_t *first_semaphore(void);

static void count_call(void)
{
	called++;
}

/* Waits for a token of e0 first. */
static void wait_call(void)
{
	ok(sem_wait(first_semaphore()));
	called++;
}

static int init_static_mutex(pthread_mutex_t *m, long kind)
{
	const pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER, recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
			      checked = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP,
			      adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;

	*m = kind == PTHREAD_MUTEX_RECURSIVE     ? recursive
	     : kind == PTHREAD_MUTEX_ERRORCHECK  ? checked
	     : kind == PTHREAD_MUTEX_ADAPTIVE_NP ? adaptive
						 : plain;
	return 0;
}

static int init_static_cond(pthread_cond_t *c)
{
	const pthread_cond_t init = PTHREAD_COND_INITIALIZER;

	*c = init;
	return 0;
}

static int init_static_rwlock(pthread_rwlock_t *r, long kind)
{
	const pthread_rwlock_t init = PTHREAD_RWLOCK_INITIALIZER,
			       writers = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

	*r = kind ? writers : init;
	return 0;
}

static int init_static_once(pthread_once_t *o)
{
	const pthread_once_t init = PTHREAD_ONCE_INIT;

	*o = init;
	return 0;
}

#define CALL(name)                                                                                                     \
	{                                                                                                              \
#name, (void *)name                                                                                    \
	}
static const struct {
	const char *name;
	void *function;
} functions[] = {
	CALL(pthread_mutex_init),
	CALL(pthread_mutex_destroy),
	CALL(pthread_mutex_lock),
	CALL(pthread_mutex_trylock),
	CALL(pthread_mutex_timedlock),
	CALL(pthread_mutex_clocklock),
	CALL(pthread_mutex_unlock),
	CALL(pthread_mutex_consistent),
	CALL(pthread_mutex_getprioceiling),
	CALL(pthread_mutex_setprioceiling),
	CALL(pthread_mutexattr_init),
	CALL(pthread_mutexattr_destroy),
	CALL(pthread_mutexattr_settype),
	CALL(pthread_mutexattr_gettype),
	CALL(pthread_mutexattr_setpshared),
	CALL(pthread_mutexattr_getpshared),
	CALL(pthread_mutexattr_setrobust),
	CALL(pthread_mutexattr_getrobust),
	CALL(pthread_mutexattr_setprotocol),
	CALL(pthread_mutexattr_getprotocol),
	CALL(pthread_cond_init),
	CALL(pthread_cond_destroy),
	CALL(pthread_cond_wait),
	CALL(pthread_cond_timedwait),
	CALL(pthread_cond_clockwait),
	CALL(pthread_cond_signal),
	CALL(pthread_cond_broadcast),
	CALL(pthread_condattr_init),
	CALL(pthread_condattr_destroy),
	CALL(pthread_condattr_setclock),
	CALL(pthread_condattr_getclock),
	CALL(pthread_condattr_setpshared),
	CALL(pthread_condattr_getpshared),
	CALL(pthread_rwlock_init),
	CALL(pthread_rwlock_destroy),
	CALL(pthread_rwlock_rdlock),
	CALL(pthread_rwlock_tryrdlock),
	CALL(pthread_rwlock_timedrdlock),
	CALL(pthread_rwlock_clockrdlock),
	CALL(pthread_rwlock_wrlock),
	CALL(pthread_rwlock_trywrlock),
	CALL(pthread_rwlock_timedwrlock),
	CALL(pthread_rwlock_clockwrlock),
	CALL(pthread_rwlock_unlock),
	CALL(pthread_rwlockattr_init),
	CALL(pthread_rwlockattr_destroy),
	CALL(pthread_rwlockattr_setpshared),
	CALL(pthread_rwlockattr_getpshared),
	CALL(pthread_rwlockattr_setkind_np),
	CALL(pthread_rwlockattr_getkind_np),
	CALL(pthread_barrier_init),
	CALL(pthread_barrier_destroy),
	CALL(pthread_barrier_wait),
	CALL(pthread_barrierattr_init),
	CALL(pthread_barrierattr_destroy),
	CALL(pthread_barrierattr_setpshared),
	CALL(pthread_barrierattr_getpshared),
	CALL(pthread_spin_init),
	CALL(pthread_spin_destroy),
	CALL(pthread_spin_lock),
	CALL(pthread_spin_trylock),
	CALL(pthread_spin_unlock),
	CALL(pthread_once),
	CALL(mtx_init),
	CALL(mtx_destroy),
	CALL(mtx_lock),
	CALL(mtx_trylock),
	CALL(mtx_timedlock),
	CALL(mtx_unlock),
	CALL(cnd_init),
	CALL(cnd_destroy),
	CALL(cnd_wait),
	CALL(cnd_timedwait),
	CALL(cnd_signal),
	CALL(cnd_broadcast),
	CALL(call_once),
	CALL(sem_init),
	CALL(sem_destroy),
	CALL(sem_wait),
	CALL(sem_timedwait),
	CALL(sem_clockwait),
	CALL(sem_trywait),
	CALL(sem_post),
	CALL(sem_getvalue),
	CALL(init_static_mutex),
	CALL(init_static_cond),
	CALL(init_static_rwlock),
	CALL(init_static_once),
};

#define NAME(name)                                                                                                     \
	{                                                                                                              \
#name, (long)name                                                                                      \
	}
static const struct {
	const char *name;
	long value;
} names[] = {
	NAME(EINVAL),
	NAME(EBUSY),
	NAME(EDEADLK),
	NAME(EPERM),
	NAME(ETIMEDOUT),
	NAME(EAGAIN),
	NAME(EOWNERDEAD),
	NAME(ENOTRECOVERABLE),
	NAME(CANCELED),
	NAME(UNSET),
	{"SERIAL", PTHREAD_BARRIER_SERIAL_THREAD},
	{"NULL", 0},
	{"NORMAL", PTHREAD_MUTEX_NORMAL},
	{"DEFAULT", PTHREAD_MUTEX_DEFAULT},
	{"RECURSIVE", PTHREAD_MUTEX_RECURSIVE},
	{"ERRORCHECK", PTHREAD_MUTEX_ERRORCHECK},
	{"ADAPTIVE", PTHREAD_MUTEX_ADAPTIVE_NP},
	{"PRIVATE", PTHREAD_PROCESS_PRIVATE},
	{"SHARED", PTHREAD_PROCESS_SHARED},
	{"ROBUST", PTHREAD_MUTEX_ROBUST},
	{"STALLED", PTHREAD_MUTEX_STALLED},
	{"PRIO_NONE", PTHREAD_PRIO_NONE},
	{"PRIO_INHERIT", PTHREAD_PRIO_INHERIT},
	{"READERS", PTHREAD_RWLOCK_PREFER_READER_NP},
	{"WRITERS_NP", PTHREAD_RWLOCK_PREFER_WRITER_NP},
	{"WRITERS", PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP},
	{"REALTIME", CLOCK_REALTIME},
	{"MONOTONIC", CLOCK_MONOTONIC},
	{"CPUTIME", CLOCK_PROCESS_CPUTIME_ID},
	NAME(mtx_plain),
	NAME(mtx_timed),
	NAME(mtx_recursive),
	NAME(thrd_success),
	NAME(thrd_busy),
	NAME(thrd_error),
	NAME(thrd_timedout),
	{"count_call", (long)(void *)count_call},
	{"wait_call", (long)(void *)wait_call},
	{"&v", (long)(void *)&value},
};

/* The kinds of object, by the letters of their names. */
static const char *const kinds[] = {"m", "c", "r", "b", "s", "x", "d", "o", "e", "ma", "ca", "ra", "ba"};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))
#define SEMAPHORES 8 /* "e" */
static struct object objects[KINDS][OBJECTS];

static sem_t *first_semaphore(void)
{
	return (sem_t *)(void *)&objects[SEMAPHORES][0];
}

static struct timespec last_time;
static clockid_t last_clock;
static const char *statement; /* for messages */

/* ---- arguments --------------------------------------------------------------------------------------------------- */

static bool time_of(const char *word, struct timespec *t)
{
	if (strncmp(word, "rt+", 3) == 0 || strncmp(word, "mono+", 5) == 0) {
		last_clock = word[0] == 'r' ? CLOCK_REALTIME : CLOCK_MONOTONIC;
		last_time = *t = from_now(last_clock, atol(strchr(word, '+')) * 1000000);
		return true;
	}
	*t = (struct timespec){0, strcmp(word, "bad") == 0 ? 1000000000 : strcmp(word, "neg") == 0 ? -1 : 0};
	return strcmp(word, "past") == 0 || strcmp(word, "bad") == 0 || strcmp(word, "neg") == 0;
}

static long number_of(const char *word)
{
	size_t letters = strspn(word, "abcdefghijklmnopqrstuvwxyz");
	char *end;
	long number;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(names[i].name, word) == 0)
			return names[i].value;
	for (size_t i = 0; i < KINDS; i++)
		if (strlen(kinds[i]) == letters && strncmp(kinds[i], word, letters) == 0 && isdigit(word[letters]))
			return (long)(void *)&objects[i][word[letters] - '0'];
	number = strtol(word, &end, 0);
	CHECK(*word && !*end, "%s: no such argument: %s", statement, word);
	return number;
}

/* ---- calls and threads ------------------------------------------------------------------------------------------- */

struct call {
	int (*function)(long, long, long, long);
	long arguments[4];
	struct timespec times[4];
	long result;
};

static struct worker {
	pthread_t thread;
	struct call call;
	int step;     /* even: waits for a call; odd: is in it */
	pid_t inside; /* its name while it is in the call; 0: not yet */
	bool started;
} workers[WORKERS];

static void run(struct call *call)
{
	long *a = call->arguments;

	call->result = call->function(a[0], a[1], a[2], a[3]);
}

static void ended(void *worker)
{
	struct worker *w = worker;

	w->call.result = CANCELED;
	tell(&w->step, w->step + 1);
}

/* Apart from its caller, so that no variable of the caller's lives across the sigsetjmp in here. */
__attribute__((noinline)) static void run_or_end(struct worker *w)
{
	pthread_cleanup_push(ended, w);
	run(&w->call);
	pthread_cleanup_pop(0);
}

static void *work(void *worker)
{
	struct worker *w = worker;

	for (int step = 1;; step += 2) {
		await(&w->step, step);
		__atomic_store_n(&w->inside, gettid(), __ATOMIC_RELEASE);
		run_or_end(w);
		__atomic_store_n(&w->inside, 0, __ATOMIC_RELEASE);
		tell(&w->step, step + 1);
	}
	return NULL;
}

static void begin(struct worker *w, const struct call *call)
{
	if (!w->started) {
		w->started = true;
		w->thread = check_thread(work, w);
	}
	CHECK(w->step % 2 == 0, "%s: the thread is still in a call", statement);
	w->call = *call;
	for (int i = 0; i < 4; i++) /* a time moves with the call */
		if (call->arguments[i] == (long)(void *)&call->times[i])
			w->call.arguments[i] = (long)(void *)&w->call.times[i];
	tell(&w->step, w->step + 1);
}

static int64_t busy_ns(pthread_t thread)
{
	struct timespec spent;
	clockid_t clock;

	ok(pthread_getcpuclockid(thread, &clock));
	ok(clock_gettime(clock, &spent));
	return spent.tv_sec * 1000000000 + spent.tv_nsec;
}

/* Until the thread sleeps in its call, twice in a row, or has waited there busily. Whether it gets a CPU at once, on a
 * machine with other work, is not its own doing. It may have been busy before it came to the call: so only where a
 * waiter that is not there yet changes nothing. */
static void await_blocked(struct worker *w, const char *function)
{
	const bool may_spin = strncmp(function, "pthread_mutex_", 14) == 0 || strncmp(function, "mtx_", 4) == 0 ||
			      strcmp(function, "pthread_spin_lock") == 0;
	const struct timespec moment = {0, BLOCKS_NS / 8};
	const int64_t before = busy_ns(w->thread);

	for (int asleep = 0; asleep < 2 && !(may_spin && busy_ns(w->thread) - before >= BLOCKS_NS);) {
		pid_t tid = __atomic_load_n(&w->inside, __ATOMIC_ACQUIRE);

		if (__atomic_load_n(&w->step, __ATOMIC_ACQUIRE) % 2 == 0)
			return;
		asleep = tid && sleeps(tid) ? asleep + 1 : 0;
		nanosleep(&moment, NULL);
	}
}

static long finish(struct worker *w)
{
	await(&w->step, w->step + w->step % 2);
	return w->call.result;
}

static void parse_call(struct call *call, char **words, int n)
{
	*call = (struct call){.result = UNSET};
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (strcmp(functions[i].name, words[0]) == 0)
			call->function = (int (*)(long, long, long, long))functions[i].function;
	CHECK(call->function != NULL, "%s: no such function: %s", statement, words[0]);
	CHECK(n <= 5, "%s: too many arguments", statement);
	for (int i = 1; i < n; i++)
		call->arguments[i - 1] = time_of(words[i], &call->times[i - 1]) ? (long)(void *)&call->times[i - 1]
										: number_of(words[i]);
}

static void expect(long result, char *wanted)
{
	char *rest = wanted, *one;

	while ((one = strsep(&rest, "|")) != NULL)
		if (number_of(one) == result)
			return;
	CHECK(false, "%s: it is %ld", statement, result);
}

/* Where the statement says so. */
static void expect_if(long result, char *wanted)
{
	if (wanted)
		expect(result, wanted);
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static void execute(char *text)
{
	char *words[12], *rest = text, *wanted = NULL;
	struct worker *w = NULL;
	struct call call;
	bool blocks = false;
	int n = 0;

	for (char *word; (word = strsep(&rest, " ")) != NULL && n < 12;)
		if (*word)
			words[n++] = word;
	CHECK(n > 0, "%s: an empty statement", text);
	if (n > 2 && strcmp(words[n - 2], "=") == 0) {
		wanted = words[n - 1];
		n -= 2;
	} else if (strcmp(words[n - 1], "blocks") == 0) {
		blocks = true;
		n--;
	}
	if (strlen(words[0]) == 2 && words[0][1] == '>') {
		w = &workers[words[0][0] - 'b'];
		memmove(words, words + 1, sizeof(words[0]) * (size_t)--n);
	}
	if (strcmp(words[0], "value") == 0) {
		expect(value, wanted);
		return;
	}
	if (strcmp(words[0], "called") == 0) {
		expect(called, wanted);
		return;
	}
	if (strcmp(words[0], "late") == 0) {
		CHECK(reached(last_clock, &last_time), "%s: it returned before the time", statement);
		return;
	}
	if (strcmp(words[0], "cancel") == 0) {
		CHECK(w != NULL, "%s: whose?", statement);
		ok(pthread_cancel(w->thread));
		return;
	}
	if (strcmp(words[0], "ends") == 0) {
		CHECK(w != NULL, "%s: whose?", statement);
		expect_if(finish(w), wanted);
		return;
	}
	parse_call(&call, words, n);
	if (!w) {
		run(&call);
	} else {
		begin(w, &call);
		if (blocks) {
			await_blocked(w, words[0]);
			CHECK(__atomic_load_n(&w->step, __ATOMIC_ACQUIRE) % 2 == 1, "%s: it returned %ld", statement,
			      w->call.result);
			return;
		}
		call.result = finish(w);
	}
	expect_if(call.result, wanted);
}

static void run_script(int number, char *script)
{
	for (char *one; (one = strsep(&script, ";")) != NULL;) {
		char *copy;

		CHECK(asprintf(&copy, "%d: %s", number, one) > 0);
		statement = copy;
		execute(one);
	}
	_exit(0);
}

/* ---- clauses ----------------------------------------------------------------------------------------------------- */

struct clause {
	pid_t pid; /* of the process that runs it; 0: there is none */
	int number;
	char *line; /* the strings below are in it */
	const char *function, *section, *text;
};

static void clause_begin(struct clause *c, int number, const char *line)
{
	char *rest = strdup(line), *script;

	c->number = number;
	c->line = rest;
	c->function = strsep(&rest, "\t");
	c->section = strsep(&rest, "\t");
	c->text = strsep(&rest, "\t");
	script = strsep(&rest, "\n");
	CHECK(script != NULL, "%s: not four fields", c->function);
	c->pid = fork();
	if (c->pid == 0) {
		check_watchdog(WATCHDOG_SECONDS);
		run_script(number, script);
	}
	CHECK(c->pid > 0);
}

/* Whether the clause does not hold; false also where there is none. */
static bool clause_fails(struct clause *c)
{
	int status;

	if (!c->pid)
		return false;
	CHECK(waitpid(c->pid, &status, 0) == c->pid);
	printf("%s %d %s: %s: %s\n", status ? "not ok" : "ok", c->number, c->function, c->section, c->text);
	free(c->line);
	c->pid = 0;
	return status != 0;
}

int main(int argc, char **argv)
{
	FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
	struct clause running[AT_ONCE] = {0};
	char *line = NULL;
	size_t size = 0;
	int failed = 0, all = 0;

	CHECK(file != NULL, "usage: conformance CLAUSES");
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (getline(&line, &size, file) > 0) {
		struct clause *c = &running[all % AT_ONCE];

		if (line[0] == '#')
			continue;
		failed += clause_fails(c);
		clause_begin(c, ++all, line);
	}
	for (int i = 0; i < AT_ONCE; i++)
		failed += clause_fails(&running[(all + i) % AT_ONCE]);
	printf("%d of %d clauses hold\n", all - failed, all);
	return failed != 0;
}
