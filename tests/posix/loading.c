/* SPDX-License-Identifier: MIT */
/* Threads that load and unload a library whose constructor and destructor lock and wait (plugin/loaded.c), while others
 * lock: each load finds its static mutexes as new. */
#include "tests/posix/posix.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static const char *path;
static int stop;

static void *load(void *argument)
{
	for (int i = 0; i < rounds(20); i++) {
		void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		int (*work)(void);

		CHECK(handle != NULL);
		*(void **)&work = dlsym(handle, "loaded_rounds");
		CHECK(work != NULL && work() > 0);
		ok(pthread_mutex_lock(&m));
		ok(pthread_mutex_unlock(&m));
		ok(dlclose(handle));
	}
	return argument;
}

static void *lock(void *argument)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		ok(pthread_mutex_lock(&m));
		ok(pthread_mutex_unlock(&m));
		sched_yield();
	}
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t loader, locker;

	CHECK_IS(argc, 2);
	path = argv[1];
	load(NULL);
	CHECK(!dlopen(path, RTLD_NOW | RTLD_NOLOAD), "never unloaded");
	loader = check_thread(load, NULL);
	locker = check_thread(lock, NULL);
	load(NULL);
	check_join(loader);
	tell(&stop, 1);
	check_join(locker);
	CHECK(!ours() || sections() == 0);
	return 0;
}
