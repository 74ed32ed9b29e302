/* SPDX-License-Identifier: MIT */
/* Mutexes before main: in an allocator that the dynamic linker already calls, and in constructors; and in a plugin that
 * is loaded and unloaded. The allocator's mutexes are of ours and of glibc's kinds, so that the functions behind the
 * interposer are needed before its own constructor has run, and must be found without allocating. */
#include "tests/posix/posix.h"

static char arena[64 << 20] __attribute__((aligned(64)));
static size_t used;
static int allocations, before_main;
static pthread_mutex_t plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t shared;
static bool shared_ready;

/* The first allocation is made by one thread. */
static void prepare(void)
{
	pthread_mutexattr_t attr;

	if (shared_ready)
		return;
	shared_ready = true;
	ok(pthread_mutexattr_init(&attr));
	ok(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
	ok(pthread_mutex_init(&shared, &attr));
}

static void *take(size_t size, size_t align)
{
	size_t *block;

	ok(pthread_mutex_lock(&plain));
	prepare();
	ok(pthread_mutex_lock(&recursive));
	ok(pthread_mutex_lock(&recursive)); /* would be a second level if the call recursed into this function */
	ok(pthread_mutex_lock(&shared));
	used = (used + sizeof(size_t) + align - 1) / align * align;
	block = (size_t *)(void *)(arena + used);
	block[-1] = size;
	used += size;
	CHECK(used < sizeof(arena));
	allocations++;
	ok(pthread_mutex_unlock(&shared));
	ok(pthread_mutex_unlock(&recursive));
	ok(pthread_mutex_unlock(&recursive));
	ok(pthread_mutex_unlock(&plain));
	return block;
}

void *malloc(size_t size)
{
	return take(size, 16);
}

void *calloc(size_t n, size_t size)
{
	return take(n * size, 16); /* fresh static memory is zero */
}

void *realloc(void *old, size_t size)
{
	void *new = take(size, 16);

	if (old)
		memcpy(new, old, ((size_t *)old)[-1] < size ? ((size_t *)old)[-1] : size);
	return new;
}

void *memalign(size_t align, size_t size)
{
	return take(size, align < 16 ? 16 : align);
}

void *aligned_alloc(size_t align, size_t size)
{
	return memalign(align, size);
}

int posix_memalign(void **p, size_t align, size_t size)
{
	*p = memalign(align, size);
	return 0;
}

void free(void *p)
{
	(void)p;
}

__attribute__((constructor(101))) static void as_early_as_it_gets(void)
{
	static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
	pthread_mutex_t errorcheck;
	struct timespec soon = from_now(CLOCK_REALTIME, 1000);

	init_kind(&errorcheck, PTHREAD_MUTEX_ERRORCHECK);
	ok(pthread_mutex_lock(&errorcheck));
	CHECK_IS(pthread_mutex_lock(&errorcheck), EDEADLK);
	CHECK_IS(pthread_cond_timedwait(&c, &errorcheck, &soon), ETIMEDOUT);
	ok(pthread_mutex_unlock(&errorcheck));
	ok(elsewhere(try_it, &errorcheck));
	before_main = allocations;
}

static void plugin(const char *path)
{
	for (int i = 0; i < 3; i++) {
		void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		int (*work)(void);

		CHECK(handle != NULL);
		*(void **)&work = dlsym(handle, "plugin_work");
		CHECK(work != NULL);
		CHECK_IS(work(), 4000);
		ok(dlclose(handle));
	}
}

int main(int argc, char **argv)
{
	CHECK(before_main > 0);
	CHECK_IS(argc, 2);
	plugin(argv[1]);
	return 0;
}
