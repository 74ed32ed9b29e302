/* SPDX-License-Identifier: MIT */
/* Threads hand one another memory, and the program forks meanwhile, on an allocator that is preloaded: it locks before
 * any constructor runs, and repairs or initialises its locks in the children.
 *
 *   allocate FUNCTION     one that only the allocator has */

#include "abi/flexguard_abi.h"
#include "tests/posix/posix.h"

#define THREADS 6
#define BLOCKS 3000
#define FORKS 20
#define PLACES 64

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t not_empty = PTHREAD_COND_INITIALIZER, not_full = PTHREAD_COND_INITIALIZER;
static struct block {
	size_t size;
	unsigned char *bytes;
} places[PLACES];
static unsigned int filled;
static int running;

static struct block make(uint32_t *random)
{
	uint32_t number = random_from(random);
	struct block b = {.size = 1 + number % (number % 50 == 0 ? 300000 : 700)};

	b.bytes = malloc(b.size);
	CHECK(b.bytes);
	memset(b.bytes, (int)(b.size & 0xff), b.size);
	return b;
}

static void check_and_free(struct block b)
{
	for (size_t i = 0; i < b.size; i += 61)
		CHECK_IS(b.bytes[i], b.size & 0xff);
	free(b.bytes);
}

static void *give(void *seed)
{
	uint32_t random = (uint32_t)(uintptr_t)seed;

	for (int i = 0; i < BLOCKS; i++) {
		struct block b = make(&random);

		ok(pthread_mutex_lock(&m));
		while (filled == PLACES)
			ok(pthread_cond_wait(&not_full, &m));
		places[filled++] = b;
		ok(pthread_cond_signal(&not_empty));
		ok(pthread_mutex_unlock(&m));
	}
	__atomic_fetch_sub(&running, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void *take(void *unused)
{
	for (int i = 0; i < BLOCKS; i++) {
		struct block b;

		ok(pthread_mutex_lock(&m));
		while (filled == 0)
			ok(pthread_cond_wait(&not_empty, &m));
		b = places[--filled];
		ok(pthread_cond_signal(&not_full));
		ok(pthread_mutex_unlock(&m));
		check_and_free(b);
	}
	__atomic_fetch_sub(&running, 1, __ATOMIC_RELEASE);
	return unused;
}

static void *churn(void *seed)
{
	uint32_t random = (uint32_t)(uintptr_t)seed;
	static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;

	for (int i = 0; i < 200; i++) {
		struct block b = make(&random);

		ok(pthread_mutex_lock(&own));
		check_and_free(b);
		ok(pthread_mutex_unlock(&own));
	}
	return NULL;
}

/* For the monitor, by locks whose words name their owner. */
static void holds_nothing(void)
{
	const struct fg_thread_block *block = dlsym(RTLD_DEFAULT, "fg_thread");

	if (block)
		CHECK_IS(block->held + (block->pending != 0), 0);
}

static void child(int generation)
{
	pthread_t threads[2];
	pid_t pid;

	check_watchdog(WATCHDOG_SECONDS);
	holds_nothing();
	churn((void *)7);
	for (int i = 0; i < 2; i++)
		threads[i] = check_thread(churn, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < 2; i++)
		check_join(threads[i]);
	holds_nothing();
	if (generation == 2)
		return;
	pid = fork();
	if (pid == 0) {
		child(generation + 1);
		_exit(0);
	}
	reap(pid);
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	int forks = 0;

	CHECK(argc == 2 && dlsym(RTLD_DEFAULT, argv[1]), "the allocator is not loaded");
	running = THREADS;
	for (int i = 0; i < THREADS; i++)
		threads[i] = check_thread(i % 2 ? give : take, (void *)(uintptr_t)(i + 1));
	while (forks < FORKS || __atomic_load_n(&running, __ATOMIC_ACQUIRE)) {
		pid_t pid = fork();

		if (pid == 0) {
			child(1);
			_exit(0);
		}
		reap(pid);
		forks++;
	}
	for (int i = 0; i < THREADS; i++)
		check_join(threads[i]);
	CHECK_IS(filled, 0);
	holds_nothing();
	return 0;
}
