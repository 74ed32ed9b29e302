/* SPDX-License-Identifier: MIT */
#include "interpose/glibc_layout.h"

#include <string.h>
#include <time.h>

uint32_t fgi_glibc_find_cond_flags(__typeof__(pthread_cond_init) *init)
{
	uint32_t words[sizeof(pthread_cond_t) / sizeof(uint32_t)], at = 0;
	pthread_condattr_t attr;
	pthread_cond_t cond;

	memset(&cond, 0, sizeof(cond));
	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	if (init(&cond, &attr))
		return 0;
	memcpy(words, &cond, sizeof(words));
	for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (words[i] == 0)
			continue;
		if (at || words[i] != (FGI_GLIBC_COND_SHARED | FGI_GLIBC_COND_MONOTONIC))
			return 0;
		at = i * (uint32_t)sizeof(words[0]);
	}
	return at;
}

/* Of a lock that `init` makes with these attributes: is it zero except the two words, and are they as they should
 * be? */
static bool rwlock_is(__typeof__(pthread_rwlock_init) *init, int shared, int kind)
{
	uint32_t words[sizeof(pthread_rwlock_t) / sizeof(uint32_t)];
	pthread_rwlockattr_t attr;
	pthread_rwlock_t lock;
	bool same = true;

	memset(&lock, 0, sizeof(lock));
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setpshared(&attr, shared);
	pthread_rwlockattr_setkind_np(&attr, kind);
	if (init(&lock, &attr))
		return false;
	memcpy(words, &lock, sizeof(words));
	for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (i == FGI_GLIBC_RWLOCK_SHARED_AT / sizeof(words[0]))
			same &= (words[i] != 0) == (shared == PTHREAD_PROCESS_SHARED);
		else
			same &= words[i] == (i == FGI_GLIBC_RWLOCK_KIND_AT / sizeof(words[0]) ? (uint32_t)kind : 0);
	return same;
}

bool fgi_glibc_knows_rwlock(__typeof__(pthread_rwlock_init) *init)
{
	return rwlock_is(init, PTHREAD_PROCESS_PRIVATE, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) &&
	       rwlock_is(init, PTHREAD_PROCESS_SHARED, PTHREAD_RWLOCK_PREFER_READER_NP);
}

bool fgi_glibc_knows_barrier(__typeof__(pthread_barrier_init) *init)
{
	const uint32_t at = FGI_GLIBC_BARRIER_SHARED_AT / sizeof(uint32_t);
	union {
		pthread_barrier_t barrier;
		uint32_t words[sizeof(pthread_barrier_t) / sizeof(uint32_t)];
	} own = {.words = {0}}, shared = {.words = {0}};
	pthread_barrierattr_t attr;

	pthread_barrierattr_init(&attr);
	pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	return init(&own.barrier, NULL, 1) == 0 && init(&shared.barrier, &attr, 1) == 0 && own.words[at] == 0 &&
	       shared.words[at] != 0;
}

/* sem_wait is a cancellation point, and the call that comes here first may be none. */
bool fgi_glibc_knows_sem(__typeof__(sem_wait) *wait)
{
	union {
		sem_t sem;
		uint64_t tokens;
	} two = {.tokens = 0};
	int state;
	bool known;

	if (sem_init(&two.sem, 0, 2) || two.tokens != 2)
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	known = wait(&two.sem) == 0 && two.tokens == 1;
	pthread_setcancelstate(state, NULL);
	return known;
}

bool fgi_glibc_knows_spin(__typeof__(pthread_spin_lock) *lock)
{
	pthread_spinlock_t word;
	bool free_known;

	pthread_spin_init(&word, PTHREAD_PROCESS_PRIVATE);
	free_known = (uint32_t)word == FGI_GLIBC_SPIN_FREE;
	return lock(&word) == 0 && free_known && (uint32_t)word == FGI_GLIBC_SPIN_HELD;
}
