/* SPDX-License-Identifier: MIT */
/* Parent and child both go on after a fork: with mutexes held, contended, and waited for. */
#include <sys/mman.h>

#include "abi/flexguard_abi.h"
#include "tests/posix/posix.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;

static long counter;

static void *count(void *arg)
{
	for (int i = 0; i < 2000; i++) {
		ok(pthread_mutex_lock(&m));
		counter++;
		ok(pthread_mutex_unlock(&m));
	}
	return arg;
}

/* Two threads of this process contend, so that waiters are queued and parked. */
static void contend(void)
{
	pthread_t other;

	counter = 0;
	other = check_thread(count, NULL);
	count(NULL);
	check_join(other);
	CHECK_IS(counter, 4000);
}

static void unlock_and_go_on(void)
{
	CHECK_IS(pthread_mutex_trylock(&m), EBUSY);
	ok(pthread_mutex_unlock(&m));
	contend();
	reap(fork_off(contend)); /* and a grandchild */
	contend();
}

static void held(void)
{
	pid_t child;

	for (int i = 0; i < 10; i++) {
		contend();
		ok(pthread_mutex_lock(&m));
		child = fork_off(unlock_and_go_on);
		CHECK_IS(pthread_mutex_trylock(&m), EBUSY); /* the child's is another */
		ok(pthread_mutex_unlock(&m));
		contend();
		reap(child);
	}
}

/* Owners are tids, and the child's only thread has a new one: as in glibc it owns what it locks, not what it inherits.
 */
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP,
		       free_one = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

static void not_the_owner(void)
{
	CHECK_IS(pthread_mutex_unlock(&recursive), EPERM);
	CHECK_IS(pthread_mutex_trylock(&recursive), EBUSY);
	ok(pthread_mutex_lock(&free_one));
	CHECK_IS(pthread_mutex_lock(&free_one), EDEADLK);
	ok(pthread_mutex_unlock(&free_one));
	init_kind(&recursive, PTHREAD_MUTEX_RECURSIVE); /* the usual way out */
	ok(pthread_mutex_lock(&recursive));
	ok(pthread_mutex_unlock(&recursive));
}

static void owned(void)
{
	ok(pthread_mutex_lock(&recursive));
	reap(fork_off(not_the_owner));
	ok(pthread_mutex_unlock(&recursive));
}

/* Handlers take the mutex around the fork, while another thread uses it all the time. */
static int stop;

static void before(void)
{
	ok(pthread_mutex_lock(&m));
}

static void after(void)
{
	ok(pthread_mutex_unlock(&m));
}

static void *use(void *arg)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		ok(pthread_mutex_lock(&m));
		counter++;
		ok(pthread_cond_signal(&c));
		ok(pthread_mutex_unlock(&m));
	}
	return arg;
}

static void once(void)
{
	ok(pthread_mutex_lock(&m));
	ok(pthread_cond_signal(&c));
	ok(pthread_mutex_unlock(&m));
}

static void handlers(void)
{
	pthread_t other;

	ok(pthread_atfork(before, after, after));
	other = check_thread(use, NULL);
	for (int i = 0; i < 100; i++)
		reap(fork_off(once));
	tell(&stop, 1);
	check_join(other);
}

/* Threads of the parent wait. In the child they do not exist: a new waiter gets the only signal, and nobody writes to
 * the stacks of the others, which the child has unmapped. */
#define STACK (256 << 10)
static char *stacks;
static int waiting, woken;

static void *wait_once(void *arg)
{
	ok(pthread_mutex_lock(&m));
	tell(&waiting, waiting + 1);
	ok(pthread_cond_wait(&c, &m));
	tell(&woken, woken + 1);
	ok(pthread_mutex_unlock(&m));
	return arg;
}

static void new_waiters(void)
{
	pthread_t waiter;

	for (int i = 0; i < 10; i++) {
		waiting = woken = 0;
		waiter = check_thread(wait_once, NULL);
		await(&waiting, 1);
		ok(pthread_mutex_lock(&m));
		CHECK_IS(pthread_cond_destroy(&c), EBUSY);
		ok(pthread_cond_signal(&c));
		ok(pthread_mutex_unlock(&m));
		check_join(waiter);
	}
	ok(pthread_cond_destroy(&c));
}

static void signal_the_living(void)
{
	ok(munmap(stacks, 2 * STACK));
	ok(pthread_cond_signal(&c));
	new_waiters();
}

static void broadcast_to_the_living(void)
{
	ok(munmap(stacks, 2 * STACK));
	ok(pthread_cond_broadcast(&c));
	new_waiters();
}

static void join_the_living(void)
{
	ok(munmap(stacks, 2 * STACK));
	new_waiters();
}

static void waited_for(void)
{
	pthread_t threads[2];
	pthread_attr_t attr;

	stacks = mmap(NULL, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(stacks != MAP_FAILED);
	waiting = woken = 0;
	for (int i = 0; i < 2; i++) {
		ok(pthread_attr_init(&attr));
		ok(pthread_attr_setstack(&attr, stacks + i * STACK, STACK));
		ok(pthread_create(&threads[i], &attr, wait_once, NULL));
	}
	await(&waiting, 2);
	ok(pthread_mutex_lock(&m));
	ok(pthread_mutex_unlock(&m));
	if (ours()) { /* glibc's state counts the dead */
		reap(fork_off(signal_the_living));
		reap(fork_off(broadcast_to_the_living));
		reap(fork_off(join_the_living));
	}
	CHECK_IS(woken, 0);
	ok(pthread_cond_broadcast(&c));
	for (int i = 0; i < 2; i++)
		check_join(threads[i]);
}

/* The child does not unlock what its parent held but initialises it, as jemalloc does. It holds nothing then, for the
 * monitor either, and so do its own children. */
#define MANY 20
static pthread_mutex_t many[MANY], others[MANY];

static void holds(int locks)
{
	const struct fg_thread_block *block = dlsym(RTLD_DEFAULT, "fg_thread");

	if (block)
		CHECK_IS(block->held + (block->pending != 0), locks);
}

static void holds_nothing(void)
{
	holds(0);
}

static bool word_names_the_owner(void)
{
	const char *lock = getenv("FG_TEST_LOCK");

	return lock && strcmp(lock, "flexguard") == 0;
}

static void init_again(void)
{
	if (word_names_the_owner())
		for (int i = 0; i < MANY; i++)
			ok(pthread_mutex_init(&others[i], NULL)); /* used before, not held: makes no difference */
	for (int i = 0; i < MANY; i++)
		if (i % 2)
			ok(pthread_mutex_init(&many[i], NULL));
		else
			ok(pthread_mutex_unlock(&many[i]));
	holds_nothing();
	for (int i = 0; i < MANY; i++) {
		ok(pthread_mutex_lock(&many[i]));
		ok(pthread_mutex_unlock(&many[i]));
		ok(pthread_mutex_init(&others[i], NULL));
	}
	holds_nothing();
	reap(fork_off(holds_nothing));
}

static void initialised_again(void)
{
	for (int i = 0; i < MANY; i++) {
		ok(pthread_mutex_lock(&others[i]));
		ok(pthread_mutex_unlock(&others[i]));
		ok(pthread_mutex_lock(&many[i]));
	}
	reap(fork_off(init_again));
	for (int i = 0; i < MANY; i++)
		ok(pthread_mutex_unlock(&many[i]));
	holds_nothing();
}

/* A mutex that another thread of the parent holds was not carried, and its end changes nothing. The thread that forks
 * has unlocked its last mutex, and still holds the one before. */
static int locked, stays_locked;

static void *lock_another(void *arg)
{
	ok(pthread_mutex_lock(&others[0]));
	tell(&locked, 1);
	await(&stays_locked, 0);
	ok(pthread_mutex_unlock(&others[0]));
	return arg;
}

static void init_the_others(void)
{
	if (word_names_the_owner())
		ok(pthread_mutex_init(&others[0], NULL));
	holds(1);
	ok(pthread_mutex_init(&many[0], NULL));
	holds_nothing();
}

static void not_carried(void)
{
	pthread_t other;

	locked = 0;
	stays_locked = -1;
	other = check_thread(lock_another, NULL);
	await(&locked, 1);
	ok(pthread_mutex_lock(&many[0]));
	ok(pthread_mutex_lock(&many[1]));
	ok(pthread_mutex_unlock(&many[1]));
	reap(fork_off(init_the_others));
	ok(pthread_mutex_unlock(&many[0]));
	tell(&stays_locked, 0);
	check_join(other);
}

/* A fork without handlers: in the child locks and lists are as after any other. */
static void in_a_bare_child(void)
{
	not_the_owner();
	CHECK_IS(pthread_mutex_trylock(&m), EBUSY);
	ok(pthread_mutex_unlock(&m));
	ok(pthread_cond_signal(&c));
	once();
	holds_nothing();
	if (ours()) /* glibc's waits for the waiters of the parent */
		ok(pthread_cond_destroy(&c));
}

static void bare(void)
{
	pthread_t waiter;
	pid_t pid;

	waiting = 0;
	waiter = check_thread(wait_once, NULL);
	await(&waiting, 1);
	ok(pthread_mutex_lock(&m)); /* so it waits */
	init_kind(&recursive, PTHREAD_MUTEX_RECURSIVE);
	ok(pthread_mutex_lock(&recursive));
	pid = _Fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		alarm(WATCHDOG_SECONDS);
		in_a_bare_child();
		_exit(0);
	}
	reap(pid);
	ok(pthread_mutex_unlock(&recursive));
	ok(pthread_cond_signal(&c));
	ok(pthread_mutex_unlock(&m));
	check_join(waiter);
}

int main(void)
{
	held();
	initialised_again();
	not_carried();
	owned();
	waited_for();
	bare();
	handlers();
	return 0;
}
