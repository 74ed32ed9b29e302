/* SPDX-License-Identifier: MIT */
/* What a thread has written by streaming (non-temporal) stores, which a lock's plain store may overtake, is there for
 * the next owner of a mutex or a read-write lock, as under glibc: its release is a locked instruction. */
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "tests/posix/posix.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static struct {
	_Alignas(64) volatile int streamed;
	_Alignas(64) volatile int stored;
} shared;
static bool by_rwlock;
static int done;

static void take(void)
{
	ok(by_rwlock ? pthread_rwlock_wrlock(&rwlock) : pthread_mutex_lock(&mutex));
}

static void release(void)
{
	ok(by_rwlock ? pthread_rwlock_unlock(&rwlock) : pthread_mutex_unlock(&mutex));
}

static void stream(int value)
{
#ifdef __SSE2__
	_mm_stream_si32((int *)&shared.streamed, value);
#else
	shared.streamed = value;
#endif
}

static void think(int turns)
{
	for (volatile int i = 0; i < turns; i++)
		;
}

static void *write_both(void *arg)
{
	for (int i = 1, last = rounds(400000); i <= last; i++) {
		take();
		shared.stored = i;
		stream(i);
		release();
		think(50);
	}
	__atomic_store_n(&done, 1, __ATOMIC_RELEASE);
	return arg;
}

static void look(void)
{
	pthread_t writer;

	shared.streamed = shared.stored = done = 0;
	writer = check_thread(write_both, NULL);
	while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
		take();
		CHECK_IS(shared.streamed, shared.stored);
		release();
		think(20);
	}
	check_join(writer);
}

int main(void)
{
	look();
	by_rwlock = true;
	look();
	return 0;
}
