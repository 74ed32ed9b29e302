/* SPDX-License-Identifier: MIT */
/* Read-write locks that a thread holds while it forks. The child does not unlock them but initialises them again. It
 * holds nothing then, for the monitor either. */
#include "abi/flexguard_abi.h"
#include "tests/posix/posix.h"

static pthread_rwlock_t read_one = PTHREAD_RWLOCK_INITIALIZER, read_twice = PTHREAD_RWLOCK_INITIALIZER,
			written = PTHREAD_RWLOCK_INITIALIZER, last = PTHREAD_RWLOCK_INITIALIZER,
			written_by_another = PTHREAD_RWLOCK_INITIALIZER, read_by_another = PTHREAD_RWLOCK_INITIALIZER;
static int locked, stop = -1;

static void holds(int locks)
{
	const struct fg_thread_block *block = dlsym(RTLD_DEFAULT, "fg_thread");

	if (block)
		CHECK_IS(block->held + (block->pending != 0), locks);
}

static void init_again(pthread_rwlock_t *l, int left)
{
	ok(pthread_rwlock_init(l, NULL));
	holds(left);
	ok(pthread_rwlock_init(l, NULL)); /* which nobody holds */
	holds(left);
	ok(pthread_rwlock_wrlock(l));
	ok(pthread_rwlock_unlock(l));
	ok(pthread_rwlock_rdlock(l));
	ok(pthread_rwlock_unlock(l));
	holds(left);
}

static void all_again(void)
{
	holds(5);
	init_again(&written_by_another, 5);
	init_again(&last, 4);
	init_again(&read_twice, 2);
	init_again(&written, 1);
	init_again(&read_one, 0);
}

static void some_again(void)
{
	init_again(&read_twice, 3);
	ok(pthread_rwlock_unlock(&read_one));
	holds(2);
	if (ours()) /* under glibc the child is not the writer */
		ok(pthread_rwlock_unlock(&written));
	else
		init_again(&written, 0);
	holds(1);
	init_again(&last, 0);
}

/* What others read is not what the thread reads, be it since the fork or no longer. */
static void one_again(void)
{
	holds(1);
	ok(pthread_rwlock_rdlock(&read_one));
	holds(2);
	ok(pthread_rwlock_init(&read_by_another, NULL));
	holds(2);
	ok(pthread_rwlock_unlock(&read_one));
	init_again(&written, 0);
}

static void a_read_again(void)
{
	ok(pthread_rwlock_unlock(&read_one));
	holds(1);
	ok(pthread_rwlock_init(&read_by_another, NULL));
	holds(1);
	init_again(&written, 0);
}

static void *read_it(void *lock)
{
	ok(pthread_rwlock_rdlock(lock));
	return NULL;
}

/* The read that was carried is no longer one: later reads are counted, and what others read is not. */
static void read_no_longer(void)
{
	init_again(&read_one, 1);
	ok(pthread_rwlock_rdlock(&read_twice));
	ok(pthread_rwlock_init(&read_by_another, NULL));
	holds(2);
	ok(pthread_rwlock_unlock(&read_twice));
	check_join(check_thread(read_it, &read_twice));
	ok(pthread_rwlock_unlock(&read_twice));
	holds(1);
	init_again(&written, 0);
}

/* The last that was taken: the thread does not count it in `held` yet. */
static void the_last_again(void)
{
	const struct fg_thread_block *block = dlsym(RTLD_DEFAULT, "fg_thread");

	ok(pthread_rwlock_init(&written, NULL));
	if (block)
		CHECK_IS(block->held, 0);
	ok(pthread_rwlock_wrlock(&written));
	ok(pthread_rwlock_unlock(&written));
	holds(0);
}

static void *lock_both(void *arg)
{
	ok(pthread_rwlock_wrlock(&written_by_another));
	ok(pthread_rwlock_rdlock(&read_by_another));
	tell(&locked, 1);
	await(&stop, 0);
	ok(pthread_rwlock_unlock(&read_by_another));
	ok(pthread_rwlock_unlock(&written_by_another));
	return arg;
}

int main(void)
{
	pthread_t other = check_thread(lock_both, NULL);

	await(&locked, 1);
	ok(pthread_rwlock_wrlock(&written));
	in_child(the_last_again);
	in_child(one_again);
	ok(pthread_rwlock_rdlock(&read_one));
	in_child(a_read_again);
	in_child(read_no_longer);
	ok(pthread_rwlock_rdlock(&read_twice));
	ok(pthread_rwlock_rdlock(&read_twice));
	ok(pthread_rwlock_wrlock(&last));
	in_child(all_again);
	in_child(some_again);
	holds(5);
	ok(pthread_rwlock_unlock(&last));
	ok(pthread_rwlock_unlock(&read_twice));
	ok(pthread_rwlock_unlock(&read_twice));
	ok(pthread_rwlock_unlock(&written));
	ok(pthread_rwlock_unlock(&read_one));
	holds(0);
	tell(&stop, 0);
	check_join(other);
	return 0;
}
