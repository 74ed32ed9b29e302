/* SPDX-License-Identifier: MIT */
/* 25,000 threads (a tenth of them under most locks) that live for one critical section and one signal each: nothing of
 * a thread is ever used up. */
#include "tests/posix/posix.h"

#define THREADS 25000

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static long lived;

static void *live(void *arg)
{
	(void)arg;
	ok(pthread_mutex_lock(&m));
	lived++;
	ok(pthread_cond_signal(&c));
	ok(pthread_mutex_unlock(&m));
	return NULL;
}

int main(void)
{
	int threads = (sliced() ? THREADS / 50 : rounds(THREADS)) & ~1;

	for (int i = 0; i < threads / 2; i++) {
		pthread_t a = check_thread(live, NULL), b = check_thread(live, NULL);

		if (i % 100 == 0) {
			ok(pthread_mutex_lock(&m));
			while (lived < 2 * (i + 1))
				ok(pthread_cond_wait(&c, &m));
			ok(pthread_mutex_unlock(&m));
		}
		check_join(a);
		check_join(b);
	}
	CHECK_IS(lived, threads);
	return 0;
}
