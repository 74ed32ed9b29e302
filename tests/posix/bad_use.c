/* SPDX-License-Identifier: MIT */
/* What a faulty program does to one object: it unlocks what is not held, destroys what is, overwrites it. The calls
 * return what glibc's return, and other objects, held meanwhile or not, go on as before. */
#include "abi/flexguard_abi.h"
#include "tests/posix/posix.h"

#define OTHERS 16

static struct {
	pthread_mutex_t mutex, recursive;
	pthread_cond_t cond;
	pthread_rwlock_t rwlock;
	pthread_spinlock_t spin;
	long counter, written;
} others[OTHERS];
static pthread_barrier_t barrier;
static int passed;

static void begin(void)
{
	for (int i = 0; i < OTHERS; i++) {
		ok(pthread_mutex_init(&others[i].mutex, NULL));
		init_kind(&others[i].recursive, PTHREAD_MUTEX_RECURSIVE);
		ok(pthread_cond_init(&others[i].cond, NULL));
		ok(pthread_rwlock_init(&others[i].rwlock, NULL));
		ok(pthread_spin_init(&others[i].spin, PTHREAD_PROCESS_PRIVATE));
	}
	ok(pthread_barrier_init(&barrier, NULL, 2));
}

/* One of two threads that use all of the others, each with every primitive. */
static void *use(void *unused)
{
	for (int round = 0; round < 20; round++) {
		int error = pthread_barrier_wait(&barrier);

		CHECK(error == 0 || error == PTHREAD_BARRIER_SERIAL_THREAD);
		for (int i = 0; i < OTHERS; i++) {
			ok(pthread_mutex_lock(&others[i].mutex));
			ok(pthread_mutex_lock(&others[i].recursive));
			ok(pthread_mutex_lock(&others[i].recursive));
			ok(pthread_spin_lock(&others[i].spin));
			others[i].counter++;
			ok(pthread_spin_unlock(&others[i].spin));
			ok(pthread_mutex_unlock(&others[i].recursive));
			ok(pthread_mutex_unlock(&others[i].recursive));
			ok(pthread_cond_signal(&others[i].cond));
			ok(pthread_mutex_unlock(&others[i].mutex));
			ok(pthread_rwlock_wrlock(&others[i].rwlock));
			others[i].written++;
			ok(pthread_rwlock_unlock(&others[i].rwlock));
			ok(pthread_rwlock_rdlock(&others[i].rwlock));
			ok(pthread_rwlock_unlock(&others[i].rwlock));
		}
	}
	return unused;
}

static void *wait_there(void *unused)
{
	ok(pthread_mutex_lock(&others[0].mutex));
	ok(pthread_cond_wait(&others[0].cond, &others[0].mutex));
	ok(pthread_mutex_unlock(&others[0].mutex));
	tell(&passed, 1);
	return unused;
}

/* For the monitor, of a lock whose word names its owner. */
static void counts(int n)
{
	const char *lock = getenv("FG_TEST_LOCK");
	const struct fg_thread_block *block = dlsym(RTLD_DEFAULT, "fg_thread");

	if (block && lock && strcmp(lock, "flexguard") == 0)
		CHECK_IS(block->held + (block->pending != 0), n);
}

static void others_work(void)
{
	pthread_t waiter, threads[2];

	counts(0);
	tell(&passed, 0);
	waiter = check_thread(wait_there, NULL);
	while (!__atomic_load_n(&passed, __ATOMIC_ACQUIRE)) { /* until it has a signal */
		for (int i = 0; i < OTHERS; i++)
			others[i].counter = others[i].written = 0;
		for (int i = 0; i < 2; i++)
			threads[i] = check_thread(use, NULL);
		for (int i = 0; i < 2; i++)
			check_join(threads[i]);
		for (int i = 0; i < OTHERS; i++) {
			CHECK_IS(others[i].counter, 2 * 20);
			CHECK_IS(others[i].written, 2 * 20);
		}
	}
	check_join(waiter);
	counts(0);
}

/* ---- what is not held is unlocked ---- */

static void *unlock_spin(void *s)
{
	return (void *)(long)pthread_spin_unlock(s);
}

static void *lock_spin(void *s)
{
	return (void *)(long)pthread_spin_lock(s);
}

static void *unlock_rwlock(void *l)
{
	return (void *)(long)pthread_rwlock_unlock(l);
}

static void *lock_to_read(void *l)
{
	return (void *)(long)pthread_rwlock_rdlock(l);
}

static void *try_to_write(void *l)
{
	int error = pthread_rwlock_trywrlock(l);

	if (!error)
		ok(pthread_rwlock_unlock(l));
	return (void *)(long)error;
}

/* The mutex still excludes. */
static void still_works(pthread_mutex_t *m)
{
	for (int i = 0; i < 3; i++) {
		ok(pthread_mutex_lock(m));
		counts(1);
		CHECK_IS(elsewhere(try_it, m), EBUSY);
		ok(pthread_mutex_unlock(m));
		ok(elsewhere(try_it, m));
	}
}

static void unlocked(int kind, int error)
{
	pthread_mutex_t m;

	init_kind(&m, kind);
	for (int i = 0; i < 3; i++)
		CHECK_IS(pthread_mutex_unlock(&m), error);
	still_works(&m);
	ok(pthread_mutex_lock(&others[1].mutex)); /* while another is held, by this thread and by none */
	CHECK_IS(pthread_mutex_unlock(&m), error);
	CHECK_IS(elsewhere(unlock_it, &m), error);
	counts(1);
	CHECK_IS(elsewhere(try_it, &others[1].mutex), EBUSY);
	ok(pthread_mutex_unlock(&others[1].mutex));
	still_works(&m);
	others_work();
}

/* glibc's own is of no use afterwards. */
static void rwlock_unlocked(void)
{
	pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER, read = PTHREAD_RWLOCK_INITIALIZER;

	ok(elsewhere(lock_to_read, &read)); /* what another thread reads may be unlocked here */
	ok(pthread_rwlock_unlock(&read));
	counts(0);
	ok(pthread_rwlock_rdlock(&read)); /* what this thread reads stays counted */
	ok(pthread_rwlock_unlock(&l));
	counts(1);
	CHECK_IS(elsewhere(try_to_write, &read), EBUSY);
	ok(pthread_rwlock_unlock(&read));
	ok(elsewhere(try_to_write, &read));
	ok(pthread_rwlock_init(&l, NULL));

	ok(pthread_mutex_lock(&others[1].mutex));
	ok(pthread_rwlock_unlock(&l));
	ok(elsewhere(unlock_rwlock, &l));
	CHECK_IS(elsewhere(try_it, &others[1].mutex), EBUSY);
	ok(pthread_mutex_unlock(&others[1].mutex));
	ok(pthread_rwlock_destroy(&l));
	others_work();
}

static void spin_unlocked(void)
{
	pthread_spinlock_t s;

	ok(pthread_spin_init(&s, PTHREAD_PROCESS_PRIVATE));
	ok(pthread_mutex_lock(&others[1].mutex));
	ok(pthread_spin_unlock(&s));
	ok(elsewhere(unlock_spin, (void *)(uintptr_t)&s));
	CHECK_IS(elsewhere(try_it, &others[1].mutex), EBUSY);
	ok(pthread_mutex_unlock(&others[1].mutex));
	ok(pthread_spin_lock(&s));
	counts(1);
	CHECK_IS(pthread_spin_trylock(&s), EBUSY);
	ok(pthread_spin_unlock(&s));
	ok(elsewhere(lock_spin, (void *)(uintptr_t)&s));
	ok(pthread_spin_unlock(&s));
	others_work();
}

/* A wait with a mutex that nobody holds unlocks it, waits, and holds it then. */
static void waited_without(void)
{
	const struct timespec past = {.tv_sec = 1};
	pthread_cond_t c = PTHREAD_COND_INITIALIZER;
	pthread_mutex_t m;

	init_kind(&m, PTHREAD_MUTEX_NORMAL);
	CHECK_IS(pthread_cond_timedwait(&c, &m, &past), ETIMEDOUT);
	CHECK_IS(elsewhere(try_it, &m), EBUSY);
	ok(pthread_mutex_unlock(&m));
	init_kind(&m, PTHREAD_MUTEX_ERRORCHECK);
	CHECK_IS(pthread_cond_timedwait(&c, &m, &past), EPERM);
	ok(elsewhere(try_it, &m));
	init_kind(&m, PTHREAD_MUTEX_RECURSIVE);
	CHECK_IS(pthread_cond_timedwait(&c, &m, &past), EPERM);
	ok(elsewhere(try_it, &m));
	others_work();
}

/* ---- what is held is destroyed ---- */

static void destroyed_held(void)
{
	static const int kinds[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_ERRORCHECK,
				    PTHREAD_MUTEX_RECURSIVE};
	pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
	pthread_spinlock_t s;
	pthread_mutex_t m;

	for (int i = 0; i < 4; i++) {
		init_kind(&m, kinds[i]);
		ok(pthread_mutex_lock(&m));
		CHECK_IS(pthread_mutex_destroy(&m), EBUSY);
		CHECK_IS(elsewhere(try_it, &m), EBUSY);
		ok(pthread_mutex_unlock(&m));
		ok(pthread_mutex_destroy(&m));
	}
	for (int writing = 0; writing < 2; writing++) {
		ok(writing ? pthread_rwlock_wrlock(&l) : pthread_rwlock_rdlock(&l));
		ok(pthread_rwlock_destroy(&l));
		ok(pthread_rwlock_unlock(&l));
		ok(pthread_rwlock_trywrlock(&l));
		ok(pthread_rwlock_unlock(&l));
	}
	ok(pthread_spin_init(&s, PTHREAD_PROCESS_PRIVATE));
	ok(pthread_spin_lock(&s));
	ok(pthread_spin_destroy(&s));
	ok(pthread_spin_unlock(&s));
	others_work();
}

static void *arrive(void *b)
{
	return (void *)(long)pthread_barrier_wait(b);
}

/* glibc's destroy waits for the waiter, ours refuses. How many have arrived is the last of our barrier's words. */
static void destroyed_awaited(void)
{
	union {
		pthread_barrier_t barrier;
		uint64_t words[3];
	} b;
	pthread_t waiter;
	long results;

	ok(pthread_barrier_init(&b.barrier, NULL, 2));
	waiter = check_thread(arrive, &b.barrier);
	if (ours()) {
		while (__atomic_load_n(&b.words[2], __ATOMIC_ACQUIRE) == 0)
			sched_yield();
		CHECK_IS(pthread_barrier_destroy(&b.barrier), EBUSY);
	}
	results = pthread_barrier_wait(&b.barrier);
	results += (long)check_join(waiter);
	CHECK_IS(results, PTHREAD_BARRIER_SERIAL_THREAD);
	ok(pthread_barrier_destroy(&b.barrier));
	others_work();
}

/* Memory that is gone, and comes back as something else, while it is held. */
static void reused_held(void)
{
	union {
		pthread_mutex_t mutex;
		pthread_rwlock_t rwlock;
		pthread_cond_t cond;
	} u;

	memset(&u, 0, sizeof(u));
	for (int i = 0; i < 50; i++) {
		ok(pthread_mutex_init(&u.mutex, NULL));
		ok(pthread_mutex_lock(&u.mutex));
		ok(pthread_rwlock_init(&u.rwlock, NULL));
		ok(pthread_rwlock_wrlock(&u.rwlock));
		ok(pthread_cond_init(&u.cond, NULL));
		ok(pthread_cond_signal(&u.cond));
		ok(pthread_cond_broadcast(&u.cond));
	}
}

/* ---- an object is overwritten ---- */

/* Nothing but bytes of this value: do all operations refuse it? */
static bool all_invalid(int byte)
{
	const struct timespec past = {.tv_sec = 1};
	pthread_mutex_t m;

	memset(&m, byte, sizeof(m));
	return pthread_mutex_trylock(&m) == EINVAL && pthread_mutex_timedlock(&m, &past) == EINVAL &&
	       pthread_mutex_lock(&m) == EINVAL && pthread_mutex_unlock(&m) == EINVAL;
}

static void overwritten(void)
{
	static const int no_kinds[] = {0x0f, 0x6f, 0xa5, 0xff}; /* whatever else the word says */
	pthread_spinlock_t s;
	pthread_cond_t c;

	for (int i = 0; i < 4; i++)
		CHECK_IS(all_invalid(no_kinds[i]), 1);
	memset((void *)(uintptr_t)&s, 0x25, sizeof(s));
	CHECK_IS(pthread_spin_trylock(&s), EBUSY);
	ok(pthread_spin_unlock(&s));
	ok(elsewhere(lock_spin, (void *)(uintptr_t)&s));
	if (ours()) { /* glibc's would wait for itself */
		memset(&c, 0x10, sizeof(c));
		ok(pthread_cond_signal(&c));
		ok(pthread_cond_broadcast(&c));
	}
	others_work();
}

int main(void)
{
	begin();
	others_work();
	unlocked(PTHREAD_MUTEX_ERRORCHECK, EPERM);
	unlocked(PTHREAD_MUTEX_RECURSIVE, EPERM);
	unlocked(PTHREAD_MUTEX_NORMAL, 0);
	unlocked(PTHREAD_MUTEX_ADAPTIVE_NP, 0);
	rwlock_unlocked();
	spin_unlocked();
	waited_without();
	destroyed_held();
	destroyed_awaited();
	overwritten();
	reused_held();
	return 0;
}
