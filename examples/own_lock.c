/* SPDX-License-Identifier: MIT */
/* A spinlock of a program's own, whose word is its owner's handle: a waiter asks whether the owner runs. */
#include <flexguard/advice.h>
#include <flexguard/monitor.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define THREADS 8
#define TIMES 100000

static _Atomic fg_handle owner; /* 0: free */
static long counter;            /* protected by it */

static void lock(fg_handle me)
{
	struct fg_wait w = {0};
	fg_handle found;

	for (;;) {
		found = 0;
		fg_section_begin();
		if (atomic_compare_exchange_weak_explicit(&owner, &found, me, memory_order_acquire,
							  memory_order_relaxed))
			return; /* in the section, until unlock */
		fg_section_end();
		while ((w.whom = atomic_load_explicit(&owner, memory_order_relaxed)) != 0)
			(void)fg_wait_once(&w);
	}
}

static void unlock(void)
{
	atomic_store_explicit(&owner, 0, memory_order_release);
	fg_section_end();
}

static void *count(void *unused)
{
	fg_handle me = fg_thread_handle();

	for (int i = 0; i < TIMES; i++) {
		lock(me);
		counter++;
		unlock();
	}
	return unused;
}

int main(void)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, count, NULL))
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%ld; %s\n", counter, fg_monitor_attached() ? "a monitor watches" : "there is no monitor");
	return counter != (long)THREADS * TIMES;
}
