/* SPDX-License-Identifier: MIT */
/* exec while other threads hold and wait for locks of every kind, and the caller holds some, too: the new image starts
 * without any. */
#include <fcntl.h>

#include "tests/posix/posix.h"

#define IMAGES 4
#define WAITERS 4

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER, r = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t b;
static char **arguments;
static int began, counter;

static int descriptors(void)
{
	int n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) != -1;
	return n;
}

static void begin(void)
{
	__atomic_fetch_add(&began, 1, __ATOMIC_SEQ_CST);
}

static void *hold(void *unused)
{
	(void)unused;
	ok(pthread_mutex_lock(&m));
	ok(pthread_rwlock_rdlock(&l));
	begin();
	pause();
	return NULL;
}

static void *wait_for_mutex(void *unused)
{
	(void)unused;
	begin();
	ok(pthread_mutex_lock(&m));
	CHECK(!"the holder never unlocks");
	return NULL;
}

static void *wait_for_others(void *unused)
{
	pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

	(void)unused;
	ok(pthread_mutex_lock(&own));
	begin();
	ok(pthread_cond_wait(&c, &own));
	CHECK(!"never signalled");
	return NULL;
}

static void *wait_to_write(void *unused)
{
	(void)unused;
	begin();
	ok(pthread_rwlock_wrlock(&l));
	CHECK(!"the reader never unlocks");
	return NULL;
}

static void *wait_at_barrier(void *unused)
{
	(void)unused;
	begin();
	pthread_barrier_wait(&b);
	CHECK(!"never complete");
	return NULL;
}

static void *next_image(void *image)
{
	char next[24];

	snprintf(next, sizeof(next), "%ld", (long)image + 1);
	ok(pthread_mutex_lock(&r));
	ok(pthread_mutex_lock(&r));
	execl("/proc/self/exe", arguments[0], next, arguments[2], (char *)NULL);
	CHECK(!"no exec");
	return NULL;
}

static void *count(void *argument)
{
	for (int i = 0; i < 1000; i++) {
		ok(pthread_mutex_lock(&m));
		ok(pthread_rwlock_wrlock(&l));
		counter++;
		ok(pthread_cond_signal(&c));
		ok(pthread_rwlock_unlock(&l));
		ok(pthread_mutex_unlock(&m));
	}
	return argument;
}

static void all_is_new(void)
{
	pthread_t other;

	CHECK(!ours() || sections() == 0, "%ld", sections());
	CHECK_IS(descriptors(), atoi(arguments[2]));
	ok(pthread_mutex_lock(&r));
	ok(pthread_mutex_unlock(&r));
	other = check_thread(count, NULL);
	count(NULL);
	check_join(other);
	CHECK_IS(counter, 2000);
	CHECK(!ours() || sections() == 0, "%ld", sections());
}

/* Every second image is started by a thread that is not the first one. */
int main(int argc, char **argv)
{
	void *(*const waits[WAITERS])(void *) = {wait_for_mutex, wait_for_others, wait_to_write, wait_at_barrier};
	char open_files[16];
	long image = 0;

	if (argc == 1) {
		snprintf(open_files, sizeof(open_files), "%d", descriptors());
		execl("/proc/self/exe", argv[0], "0", open_files, (char *)NULL);
		CHECK(!"no exec");
	}
	arguments = argv;
	image = atol(argv[1]);
	all_is_new();
	if (image == IMAGES)
		return 0;
	ok(pthread_barrier_init(&b, NULL, 2));
	check_thread(hold, NULL);
	await(&began, 1);
	for (int i = 0; i < at_most(WAITERS); i++)
		check_thread(waits[i], NULL);
	await(&began, 1 + at_most(WAITERS));
	if (image % 2)
		next_image((void *)image);
	check_join(check_thread(next_image, (void *)image));
	return 0;
}
