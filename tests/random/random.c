/* SPDX-License-Identifier: MIT */
/* Threads do at random what POSIX lets them do with mutexes and condition variables: lock, try, wait with deadlines,
 * nest, sleep in their sections, signal, broadcast, interrupt one another, cancel, fork, change their priorities. The
 * seed is printed and fixes what each thread draws, though not how threads interleave.
 *
 *   random SECONDS [SEED]
 *
 * Checked all the time: sections exclude one another, tokens are neither lost nor made, no operation ends before its
 * deadline, and nobody sleeps through MOST_TICKS.
 *
 * The main thread ticks when it has had each CPU once, between sleeps of TICK_MS in all. So an operation has more
 * time where the machine, or one CPU of it, lets threads wait, or stands still. Under a lock that bounds no bypass a
 * thread that is woken, and finds the lock taken again, has not slept through. Operations beside a thread of
 * SCHED_IDLE are not judged: that thread may be off its CPU for seconds while it holds a lock. */
#include <errno.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/posix/posix.h"

#define THREADS 12
#define MUTEXES 6
#define TOKENS 9
#define TICK_MS 10
#define MOST_TICKS 100l
#define FEW_SLEEPS 20
#define CHILD_SECONDS 20

static struct {
	pthread_mutex_t mutex;
	long a, b; /* equal outside of sections */
} guarded[MUTEXES];

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t filled;
	int tokens;
} pools[2];

/* For threads that are to be cancelled. */
static pthread_mutex_t doomed_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

enum what { SECTION, NEST, TRY, TIMED, PASS, INTERRUPT, CANCEL, FORK, PRIORITY, KINDS };
static const char *const names[KINDS] = {"section",   "nest",   "try",  "timed",   "pass",
					 "interrupt", "cancel", "fork", "priority"};
/* Of 1,000 draws so many are one. */
static const int weights[KINDS] = {500, 60, 100, 150, 178, 5, 3, 1, 3};

static struct thread {
	pthread_t id;
	uint32_t random;
	int idle; /* it has SCHED_IDLE */
	long done[KINDS];
	long longest_ns;
} threads[THREADS];

static bool bounds_bypass; /* the lock does */
static int stop, interrupts;
static int idlers, idle_phases; /* threads that have SCHED_IDLE, and how often one began to have it */
static long ticks;

static long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000l + t.tv_nsec;
}

static int draw(struct thread *t, int n)
{
	return (int)(random_from(&t->random) % (uint32_t)n);
}

static void work(struct thread *t)
{
	const struct timespec moment = {0, draw(t, 100000)};
	int kind = draw(t, 64);

	if (kind == 0)
		nanosleep(&moment, NULL);
	else if (kind == 1)
		sched_yield();
	else
		for (volatile int i = draw(t, 200); i > 0; i--)
			;
}

/* The mutex is held. */
static void section(struct thread *t, int i)
{
	CHECK_IS(guarded[i].a, guarded[i].b);
	guarded[i].a++;
	work(t);
	guarded[i].b++;
}

static void lock(int i)
{
	ok(pthread_mutex_lock(&guarded[i].mutex));
}

static void unlock(int i)
{
	ok(pthread_mutex_unlock(&guarded[i].mutex));
}

/* In the order of the array, so that nobody waits in a circle. */
static void nest(struct thread *t)
{
	int low = draw(t, MUTEXES - 1), high = low + 1 + draw(t, MUTEXES - low - 1);

	lock(low);
	lock(high);
	section(t, high);
	section(t, low);
	unlock(t->random % 2 ? low : high);
	unlock(t->random % 2 ? high : low);
}

static void try(struct thread *t)
{
	int i = draw(t, MUTEXES), error = pthread_mutex_trylock(&guarded[i].mutex);

	if (error) {
		CHECK_IS(error, EBUSY);
		return;
	}
	section(t, i);
	unlock(i);
}

static void timed(struct thread *t)
{
	clockid_t clock = draw(t, 2) ? CLOCK_REALTIME : CLOCK_MONOTONIC;
	struct timespec until = from_now(clock, draw(t, 3000) * 1000l);
	int i = draw(t, MUTEXES), error = pthread_mutex_clocklock(&guarded[i].mutex, clock, &until);

	if (error) {
		CHECK_IS(error, ETIMEDOUT);
		CHECK(reached(clock, &until));
		return;
	}
	section(t, i);
	unlock(i);
}

/* Takes a token out of one pool, if one comes in time, and puts it into the other. */
static void pass(struct thread *t)
{
	int from = draw(t, 2), to = !from, error = 0, held = draw(t, 2), all = draw(t, 4) == 0;
	struct timespec until = from_now(CLOCK_REALTIME, draw(t, 5000) * 1000l);

	ok(pthread_mutex_lock(&pools[from].mutex));
	while (pools[from].tokens == 0 && error == 0)
		error = pthread_cond_timedwait(&pools[from].filled, &pools[from].mutex, &until);
	if (error) {
		CHECK_IS(error, ETIMEDOUT);
		CHECK(reached(CLOCK_REALTIME, &until));
	}
	error = pools[from].tokens == 0;
	pools[from].tokens -= !error;
	CHECK(pools[from].tokens >= 0);
	ok(pthread_mutex_unlock(&pools[from].mutex));
	if (error)
		return;
	work(t);
	ok(pthread_mutex_lock(&pools[to].mutex));
	pools[to].tokens++;
	CHECK(pools[to].tokens <= TOKENS);
	if (held)
		ok(all ? pthread_cond_broadcast(&pools[to].filled) : pthread_cond_signal(&pools[to].filled));
	ok(pthread_mutex_unlock(&pools[to].mutex));
	if (!held)
		ok(all ? pthread_cond_broadcast(&pools[to].filled) : pthread_cond_signal(&pools[to].filled));
}

static void interrupted(int signo)
{
	(void)signo;
	__atomic_fetch_add(&interrupts, 1, __ATOMIC_RELAXED);
}

static void drop(void *mutex)
{
	ok(pthread_mutex_unlock(mutex));
}

static void *doomed(void *arg)
{
	ok(pthread_mutex_lock(&doomed_mutex));
	pthread_cleanup_push(drop, &doomed_mutex);
	for (;;)
		pthread_cond_wait(&never, &doomed_mutex);
	pthread_cleanup_pop(1);
	return arg;
}

static void cancel(struct thread *t)
{
	pthread_t victim = check_thread(doomed, NULL);

	work(t);
	if (draw(t, 4) == 0)
		ok(pthread_cond_broadcast(&never));
	ok(pthread_cancel(victim));
	CHECK(check_join(victim) == PTHREAD_CANCELED);
}

/* The child has the mutex that its thread holds. Of glibc's kinds only a normal one can be unlocked there. */
static void fork_once(struct thread *t)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t silent = PTHREAD_COND_INITIALIZER;
	int i = draw(t, 2), status;
	struct timespec until;
	pid_t child;

	lock(i);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		alarm(CHILD_SECONDS);
		section(t, i);
		unlock(i);
		lock(i);
		unlock(i);
		ok(pthread_mutex_trylock(&guarded[i].mutex));
		unlock(i);
		until = from_now(CLOCK_REALTIME, 1000);
		ok(pthread_mutex_lock(&own));
		_exit(pthread_cond_timedwait(&silent, &own, &until) == ETIMEDOUT ? 0 : 1);
	}
	section(t, i);
	unlock(i);
	while (waitpid(child, &status, 0) < 0)
		CHECK_IS(errno, EINTR);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with status %#x", status);
}

/* Of the calling thread, for its next operations. Without the privilege it stays as it is. */
static void set_priority(struct thread *t, int policy, int priority)
{
	struct sched_param param = {.sched_priority = priority};

	if (pthread_setschedparam(pthread_self(), policy, &param) == 0 && t->idle != (policy == SCHED_IDLE)) {
		t->idle = policy == SCHED_IDLE;
		__atomic_fetch_add(&idle_phases, t->idle, __ATOMIC_SEQ_CST);
		__atomic_fetch_add(&idlers, t->idle ? 1 : -1, __ATOMIC_SEQ_CST);
	}
}

static void change_priority(struct thread *t)
{
	static const int policies[] = {SCHED_FIFO, SCHED_RR, SCHED_BATCH, SCHED_IDLE};
	int policy = policies[draw(t, 4)];

	set_priority(t, policy, policy == SCHED_FIFO || policy == SCHED_RR ? 1 + draw(t, 3) : 0);
	for (int n = 1 + draw(t, 20); n > 0; n--) {
		int i = draw(t, MUTEXES);

		lock(i);
		section(t, i);
		unlock(i);
	}
	set_priority(t, SCHED_OTHER, 0);
}

static void operate(struct thread *t, enum what what)
{
	int i = draw(t, MUTEXES);

	switch (what) {
	case SECTION:
		lock(i);
		section(t, i);
		unlock(i);
		break;
	case NEST:
		nest(t);
		break;
	case TRY:
		try(t);
		break;
	case TIMED:
		timed(t);
		break;
	case PASS:
		pass(t);
		break;
	case INTERRUPT:
		ok(pthread_kill(threads[draw(t, THREADS)].id, SIGUSR1));
		break;
	case CANCEL:
		cancel(t);
		break;
	case FORK:
		fork_once(t);
		break;
	case PRIORITY:
		change_priority(t);
		break;
	case KINDS:
		break;
	}
}

/* How often the calling thread has slept. */
static long sleeps_so_far(void)
{
	struct rusage usage;

	ok(getrusage(RUSAGE_THREAD, &usage));
	return usage.ru_nvcsw;
}

/* Is a thread beside one of SCHED_IDLE, or has it been since idle_phases was `phase`? */
static bool beside_idle(int phase)
{
	return __atomic_load_n(&idlers, __ATOMIC_SEQ_CST) > 0 ||
	       __atomic_load_n(&idle_phases, __ATOMIC_SEQ_CST) != phase;
}

static void *run(void *arg)
{
	struct thread *t = arg;
	long slept = sleeps_so_far();

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		int n = draw(t, 1000), phase = __atomic_load_n(&idle_phases, __ATOMIC_SEQ_CST);
		bool idle = beside_idle(phase);
		enum what what = SECTION;
		long began = now_ns(), first = __atomic_load_n(&ticks, __ATOMIC_RELAXED), before = slept, took;

		while (n >= weights[what])
			n -= weights[what++];
		operate(t, what);
		__atomic_store_n(&t->done[what], t->done[what] + 1, __ATOMIC_RELAXED);
		took = now_ns() - began;
		slept = sleeps_so_far();
		if (idle || beside_idle(phase) || what >= CANCEL)
			continue;
		if (took > t->longest_ns)
			t->longest_ns = took;
		CHECK(__atomic_load_n(&ticks, __ATOMIC_RELAXED) - first < MOST_TICKS ||
			      (!bounds_bypass && slept - before > FEW_SLEEPS),
		      "%s took %ld ms, in which its thread slept %ld times", names[what], took / 1000000,
		      slept - before);
	}
	return NULL;
}

static void init(void)
{
	static const int kinds[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE,
				    PTHREAD_MUTEX_ERRORCHECK};
	struct sigaction act = {.sa_handler = interrupted};
	const char *lock = getenv("FG_TEST_LOCK");

	bounds_bypass = lock && strcmp(lock, "flexguard") == 0;
	for (int i = 0; i < MUTEXES; i++)
		init_kind(&guarded[i].mutex, kinds[i % 4]);
	for (int i = 0; i < 2; i++) {
		ok(pthread_mutex_init(&pools[i].mutex, NULL));
		ok(pthread_cond_init(&pools[i].filled, NULL));
	}
	pools[0].tokens = TOKENS;
	ok(sigaction(SIGUSR1, &act, NULL));
}

static long done_of(enum what what)
{
	long done = 0;

	for (int i = 0; i < THREADS; i++)
		done += __atomic_load_n(&threads[i].done[what], __ATOMIC_RELAXED);
	return done;
}

static bool all_have_happened(void)
{
	for (enum what what = 0; what < KINDS; what++)
		if (!done_of(what))
			return false;
	return __atomic_load_n(&interrupts, __ATOMIC_RELAXED) > 0;
}

/* The next CPU after `cpu` that the program may use, `allowed`, in a circle. */
static int next_cpu(const cpu_set_t *allowed, int cpu)
{
	do
		cpu = (cpu + 1) % CPU_SETSIZE;
	while (!CPU_ISSET(cpu, allowed));
	return cpu;
}

/* Until so much time has passed, and all has happened: on a busy machine what is drawn seldom may come later. */
static void tick(unsigned int seconds)
{
	const long end = now_ns() + seconds * 1000000000l;
	cpu_set_t allowed, one;
	int cpu = -1, first;

	ok(sched_getaffinity(0, sizeof(allowed), &allowed));
	first = next_cpu(&allowed, -1);
	while (now_ns() < end || !all_have_happened()) {
		struct timespec left = {0, TICK_MS * 1000000 / CPU_COUNT(&allowed)};

		cpu = next_cpu(&allowed, cpu);
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		(void)sched_setaffinity(0, sizeof(one), &one); /* the CPU may have gone off line */
		while (nanosleep(&left, &left) < 0)
			CHECK_IS(errno, EINTR);
		if (cpu == first)
			__atomic_store_n(&ticks, ticks + 1, __ATOMIC_RELAXED);
	}
	ok(sched_setaffinity(0, sizeof(allowed), &allowed));
}

int main(int argc, char **argv)
{
	unsigned int seconds = argc > 1 ? (unsigned int)atoi(argv[1]) : 2;
	uint32_t seed = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 0) : (uint32_t)now_ns();
	long longest = 0;

	check_watchdog(seconds + 60);
	printf("seed: %u\n", seed);
	fflush(stdout); /* before any fork, and before anything can go wrong */
	init();
	for (int i = 0; i < THREADS; i++) {
		threads[i].random = (seed + (uint32_t)i) * 2654435761u | 1;
		threads[i].id = pthread_self(); /* until it has its own: a signal must reach somebody */
	}
	for (int i = 0; i < THREADS; i++)
		threads[i].id = check_thread(run, &threads[i]);
	tick(seconds);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	for (int i = 0; i < THREADS; i++)
		check_join(threads[i].id);

	CHECK_IS(pools[0].tokens + pools[1].tokens, TOKENS);
	for (int i = 0; i < MUTEXES; i++) {
		CHECK_IS(guarded[i].a, guarded[i].b);
		CHECK(guarded[i].a > 0);
		ok(pthread_mutex_destroy(&guarded[i].mutex));
	}
	for (enum what what = 0; what < KINDS; what++)
		printf("%s: %ld\n", names[what], done_of(what));
	for (int i = 0; i < THREADS; i++)
		longest = threads[i].longest_ns > longest ? threads[i].longest_ns : longest;
	printf("longest-operation-ms: %ld\n", longest / 1000000);
	return 0;
}
