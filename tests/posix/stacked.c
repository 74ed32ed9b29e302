/* SPDX-License-Identifier: MIT */
/* Of several preloaded libraries that answer for a function, one has the mutex: it is counted once for the monitor, and
 * a library that wraps the function sees the calls if it comes first. */
#include "tests/posix/posix.h"

static int counter;

static int wrapper_calls(void)
{
	const int *calls = dlsym(RTLD_DEFAULT, "wrapper_calls");

	return calls ? *calls : -1;
}

static bool wrapper_is_first(void)
{
	Dl_info wrapper, function;
	void *calls = dlsym(RTLD_DEFAULT, "wrapper_calls");

	return calls && dladdr(calls, &wrapper) && dladdr(dlsym(RTLD_DEFAULT, "pthread_mutex_lock"), &function) &&
	       wrapper.dli_fbase == function.dli_fbase;
}

static void *count(void *m)
{
	for (int i = 0; i < 10000; i++) {
		ok(pthread_mutex_lock(m));
		counter++;
		ok(pthread_mutex_unlock(m));
	}
	return NULL;
}

static void kind(int kind)
{
	int before, threads = at_most(3);
	pthread_t others[3];
	pthread_mutex_t m;

	init_kind(&m, kind);
	before = wrapper_calls();
	ok(pthread_mutex_lock(&m));
	CHECK(!ours() || sections() == 1, "%ld", sections());
	CHECK_IS(elsewhere(try_it, &m), EBUSY);
	ok(pthread_mutex_unlock(&m));
	CHECK(!ours() || sections() == 0, "%ld", sections());
	CHECK_IS(wrapper_calls() - before, wrapper_is_first() ? 3 : 0);
	counter = 0;
	for (int i = 0; i < threads; i++)
		others[i] = check_thread(count, &m);
	for (int i = 0; i < threads; i++)
		check_join(others[i]);
	CHECK_IS(counter, threads * 10000);
	ok(pthread_mutex_destroy(&m));
}

int main(void)
{
	kind(PTHREAD_MUTEX_NORMAL);
	kind(PTHREAD_MUTEX_RECURSIVE);
	kind(PTHREAD_MUTEX_ERRORCHECK);
	kind(PTHREAD_MUTEX_ADAPTIVE_NP);
	return 0;
}
