/* SPDX-License-Identifier: MIT */
/* A wait loop of a program's own that asks the monitor: while a thread is preempted in a critical section, it gets out
 * of the way. Without a monitor the answer is always no, so the loop is bounded. */
#include <flexguard/monitor.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

static atomic_bool ready;

static void *prepare(void *unused)
{
	atomic_store_explicit(&ready, true, memory_order_release);
	return unused;
}

int main(void)
{
	pthread_t other;

	if (pthread_create(&other, NULL, prepare, NULL))
		return 1;
	for (int looks = 0; !atomic_load_explicit(&ready, memory_order_acquire); looks++)
		if (looks > 1000 || fg_critical_section_preempted())
			sched_yield();
	pthread_join(other, NULL);
	printf("ready; %s\n", fg_monitor_attached() ? "a monitor watches" : "there is no monitor");
	return 0;
}
