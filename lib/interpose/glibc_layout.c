/* SPDX-License-Identifier: MIT */
#include "interpose/glibc_layout.h"

#include <string.h>
#include <time.h>

#include "runtime/system.h"

/* Calls libc's own function, by whatever library its name is taken: such a library's constructor may run later. Not
 * found, as in a static program: what the name leads to. */
#define LIBC(version, function, ...)                                                                                   \
	__extension__({                                                                                                \
		void *found_ = fgi_libc_function(#function, version);                                                  \
		(found_ ? (__typeof__(function) *)found_ : function)(__VA_ARGS__);                                     \
	})

uint32_t fgi_glibc_find_cond_flags(__typeof__(pthread_cond_init) *init)
{
	uint32_t words[sizeof(pthread_cond_t) / sizeof(uint32_t)], at = 0;
	pthread_condattr_t attr;
	pthread_cond_t cond;

	memset(&cond, 0, sizeof(cond));
	if (LIBC(FGI_GLIBC_BASE, pthread_condattr_init, &attr) ||
	    LIBC(FGI_GLIBC_BASE, pthread_condattr_setpshared, &attr, PTHREAD_PROCESS_SHARED) ||
	    LIBC(FGI_GLIBC_CONDATTR_CLOCK, pthread_condattr_setclock, &attr, CLOCK_MONOTONIC) || init(&cond, &attr))
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
	if (LIBC(FGI_GLIBC_BASE, pthread_rwlockattr_init, &attr) ||
	    LIBC(FGI_GLIBC_BASE, pthread_rwlockattr_setpshared, &attr, shared) ||
	    LIBC(FGI_GLIBC_BASE, pthread_rwlockattr_setkind_np, &attr, kind) || init(&lock, &attr))
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

	return LIBC(FGI_GLIBC_BASE, pthread_barrierattr_init, &attr) == 0 &&
	       LIBC(FGI_GLIBC_BASE, pthread_barrierattr_setpshared, &attr, PTHREAD_PROCESS_SHARED) == 0 &&
	       init(&own.barrier, NULL, 1) == 0 && init(&shared.barrier, &attr, 1) == 0 && own.words[at] == 0 &&
	       shared.words[at] != 0;
}

/* sem_trywait takes a token as `wait` does. It is no cancellation point: the call that comes here first may be none. */
bool fgi_glibc_knows_sem(__typeof__(sem_wait) *wait)
{
	union {
		sem_t sem;
		uint64_t tokens;
	} two = {.tokens = 0};

	(void)wait;
	return LIBC(FGI_GLIBC_BASE, sem_init, &two.sem, 0, 2) == 0 && two.tokens == 2 &&
	       LIBC(FGI_GLIBC_BASE, sem_trywait, &two.sem) == 0 && two.tokens == 1;
}

bool fgi_glibc_knows_spin(__typeof__(pthread_spin_lock) *lock)
{
	pthread_spinlock_t word;

	return LIBC(FGI_GLIBC_BASE, pthread_spin_init, &word, PTHREAD_PROCESS_PRIVATE) == 0 &&
	       (uint32_t)word == FGI_GLIBC_SPIN_FREE && lock(&word) == 0 && (uint32_t)word == FGI_GLIBC_SPIN_HELD;
}
