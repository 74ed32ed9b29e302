/* SPDX-License-Identifier: MIT */
/* A condition variable that a faulty program initialises again, or frees, while a thread waits on it harms no other
 * condition variable: each of a thousand bystanders, in every static lock's list, still gets its signal. Nor does it
 * harm the new one at its address. */
#include <sys/mman.h>

#include "tests/posix/posix.h"

#define BYSTANDERS 1000
#define PAGE 4096

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t bystanders[BYSTANDERS];
static int waiting, released, go;

static void unlock(void *argument)
{
	ok(pthread_mutex_unlock(argument));
}

static void *wait_on(void *cond)
{
	ok(pthread_mutex_lock(&m));
	pthread_cleanup_push(unlock, &m);
	tell(&waiting, waiting + 1);
	ok(pthread_cond_wait(cond, &m));
	pthread_cleanup_pop(0);
	tell(&released, released + 1);
	ok(pthread_mutex_unlock(&m));
	return NULL;
}

static pthread_t waiter_on(pthread_cond_t *cond)
{
	int before = waiting;
	pthread_t thread = check_thread(wait_on, cond);

	await(&waiting, before + 1);
	ok(pthread_mutex_lock(&m)); /* so it waits */
	ok(pthread_mutex_unlock(&m));
	return thread;
}

static pthread_cond_t *page(void)
{
	void *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

/* The first waiter is left over; the second joins after the initialisation. All can still be released. */
static void initialised_again(pthread_cond_t *c)
{
	pthread_t waiters[2];

	waiters[0] = waiter_on(c);
	ok(pthread_cond_init(c, NULL));
	waiters[1] = waiter_on(c);
	ok(pthread_cond_broadcast(c));
	check_join(waiters[0]);
	check_join(waiters[1]);
	waiters[0] = waiter_on(c);
	memset(c, 0, sizeof(*c));
	waiters[1] = waiter_on(c);
	ok(pthread_cancel(waiters[0]));
	CHECK(check_join(waiters[0]) == PTHREAD_CANCELED);
	ok(pthread_cond_signal(c));
	check_join(waiters[1]);
}

/* A signal is for the thread that waits on the new condition variable, not for the one that is left over. */
static void signalled(pthread_cond_t *c, bool assigned)
{
	pthread_t leftover = waiter_on(c), waiter;

	if (assigned)
		memset(c, 0, sizeof(*c));
	else
		ok(pthread_cond_init(c, NULL));
	ok(pthread_cond_destroy(c));
	waiter = waiter_on(c);
	CHECK_IS(pthread_cond_destroy(c), EBUSY);
	ok(pthread_cond_signal(c));
	check_join(waiter);
	ok(pthread_cancel(leftover));
	CHECK(check_join(leftover) == PTHREAD_CANCELED);
}

/* The memory goes while a thread waits; then the thread is cancelled, and may not look there. */
static void freed(void)
{
	pthread_cond_t *c = page();
	pthread_t waiter;

	waiter = waiter_on(c);
	munmap(c, PAGE);
	ok(pthread_cancel(waiter));
	CHECK(check_join(waiter) == PTHREAD_CANCELED);
}

static void *stand_by(void *cond)
{
	ok(pthread_mutex_lock(&m));
	tell(&waiting, waiting + 1);
	while (!go)
		ok(pthread_cond_wait(cond, &m));
	ok(pthread_mutex_unlock(&m));
	return NULL;
}

int main(void)
{
	static pthread_t threads[BYSTANDERS];
	pthread_attr_t small;
	pthread_cond_t *many;
	int n = at_most(BYSTANDERS);

	if (!ours()) /* glibc leaves it undefined, and hangs */
		return 0;
	ok(pthread_attr_init(&small));
	ok(pthread_attr_setstacksize(&small, 1 << 17));
	/* One after the other: a thousand that want the mutex at once are a collapse under some locks. */
	for (int i = 0; i < n; i++) {
		ok(pthread_create(&threads[i], &small, stand_by, &bystanders[i]));
		await(&waiting, i + 1);
	}
	many = page();
	for (size_t i = 0; i < (size_t)rounds(PAGE / sizeof(*many)); i++) {
		initialised_again(&many[i % (PAGE / sizeof(*many))]);
		signalled(&many[i % (PAGE / sizeof(*many))], i % 2);
	}
	for (int i = 0; i < rounds(50); i++)
		freed();
	ok(pthread_mutex_lock(&m));
	go = 1;
	ok(pthread_mutex_unlock(&m));
	for (int i = 0; i < n; i++) {
		ok(pthread_cond_signal(&bystanders[i]));
		check_join(threads[i]);
	}
	return 0;
}
