/* SPDX-License-Identifier: MIT */
/* A plugin brings libflexguard and is unloaded, while a thread that has waited for a lock still runs: the thread's end
 * gives its queue node back, by the library's code. Argument: the library. */
#include <dlfcn.h>
#include <errno.h>
#include <flexguard/mutex.h>
#include <pthread.h>
#include <stdio.h>

static struct fg_mutex m = FG_MUTEX_INIT;
static pthread_barrier_t waited, unloaded;
static int (*timedlock)(struct fg_mutex *, clockid_t, const struct timespec *);

static void *wait_in_vain(void *result)
{
	struct timespec past = {0, 0};

	*(int *)result = timedlock(&m, CLOCK_REALTIME, &past);
	pthread_barrier_wait(&waited);
	pthread_barrier_wait(&unloaded);
	return NULL;
}

int main(int argc, char **argv)
{
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void (*lock)(struct fg_mutex *);
	int result = 0;
	pthread_t t;

	if (!library) {
		puts(argc == 2 ? dlerror() : "which library?");
		return 2;
	}
	*(void **)&lock = dlsym(library, "fg_mutex_lock");
	*(void **)&timedlock = dlsym(library, "fg_mutex_timedlock");
	pthread_barrier_init(&waited, NULL, 2);
	pthread_barrier_init(&unloaded, NULL, 2);
	lock(&m);
	if (pthread_create(&t, NULL, wait_in_vain, &result))
		return 3;
	pthread_barrier_wait(&waited);
	dlclose(library);
	pthread_barrier_wait(&unloaded);
	pthread_join(t, NULL);
	return result == ETIMEDOUT ? 0 : 1;
}
