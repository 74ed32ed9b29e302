/* SPDX-License-Identifier: MIT */
/* A bounded queue between two threads: a mutex and two condition variables. */
#include <flexguard/cond.h>
#include <flexguard/mutex.h>
#include <pthread.h>
#include <stdio.h>

#define ITEMS 100000

static struct fg_mutex mutex = FG_MUTEX_INIT;
static struct fg_cond filled = FG_COND_INIT, emptied = FG_COND_INIT;
static long queue[8];
static unsigned int first, items; /* protected by the mutex, as the queue is */

static void put(long item)
{
	fg_mutex_lock(&mutex);
	while (items == 8)
		fg_cond_wait(&emptied, &mutex);
	queue[(first + items++) % 8] = item;
	fg_mutex_unlock(&mutex);
	fg_cond_signal(&filled);
}

static long take(void)
{
	long item;

	fg_mutex_lock(&mutex);
	while (items == 0)
		fg_cond_wait(&filled, &mutex);
	item = queue[first++ % 8];
	items--;
	fg_mutex_unlock(&mutex);
	fg_cond_signal(&emptied);
	return item;
}

static void *produce(void *unused)
{
	for (long i = 1; i <= ITEMS; i++)
		put(i);
	return unused;
}

int main(void)
{
	pthread_t producer;
	long sum = 0;

	if (pthread_create(&producer, NULL, produce, NULL))
		return 1;
	for (int i = 0; i < ITEMS; i++)
		sum += take();
	pthread_join(producer, NULL);
	printf("the sum of 1 to %d is %ld\n", ITEMS, sum);
	return sum != ITEMS * (ITEMS + 1l) / 2;
}
