/* SPDX-License-Identifier: MIT */
/* Programs with one race each, which Helgrind must find: two threads add to `shared` under what does not protect it. */
#include <flexguard/mutex.h>
#include <flexguard/rwlock.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct fg_mutex mutexes[2] = {FG_MUTEX_INIT, FG_MUTEX_INIT};
static struct fg_rwlock rwlock = FG_RWLOCK_INIT;
static long shared;

typedef void add_fn(int thread);

static void after_unlock(int thread)
{
	(void)thread;
	fg_mutex_lock(&mutexes[0]);
	fg_mutex_unlock(&mutexes[0]);
	shared++;
}

static void other_mutex(int thread)
{
	fg_mutex_lock(&mutexes[thread]);
	shared++;
	fg_mutex_unlock(&mutexes[thread]);
}

static void read_lock(int thread)
{
	(void)thread;
	fg_rwlock_rdlock(&rwlock);
	shared++;
	fg_rwlock_unlock(&rwlock);
}

static add_fn *add;

static void *other_thread(void *unused)
{
	add(1);
	return unused;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		add_fn *add;
	} races[] = {
		{"after-unlock", after_unlock},
		{"other-mutex", other_mutex},
		{"read-lock", read_lock},
	};
	pthread_t thread;

	for (size_t i = 0; argc == 2 && i < sizeof(races) / sizeof(races[0]); i++)
		if (strcmp(argv[1], races[i].name) == 0)
			add = races[i].add;
	if (!add || pthread_create(&thread, NULL, other_thread, NULL))
		return 2;
	add(0);
	pthread_join(thread, NULL);
	printf("%ld\n", shared);
	return 0;
}
