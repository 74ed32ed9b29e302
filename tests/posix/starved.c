/* SPDX-License-Identifier: MIT */
/* A program with little address space (ulimit -v), and then with none: locks that want memory do without. */
#include <sys/mman.h>
#include <sys/resource.h>

#include "tests/posix/posix.h"

/* Less than a pool of nodes would like to reserve; the program, its libraries and two small stacks fit. */
#define LIMIT (12l << 20)
#define STACK (128 << 10)
#define HELD 500 /* at once, by one thread, with no address space left */
#define MANY 3000

static pthread_mutex_t contended = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t held[MANY]; /* zero is the static initializer */
static int starved;
static long counter;

static void hold(int n)
{
	for (int i = 0; i < n; i++)
		ok(pthread_mutex_lock(&held[i]));
	for (int i = 0; i < n; i++)
		ok(pthread_mutex_unlock(&held[i]));
}

static void *count(void *arg)
{
	await(&starved, 1);
	for (int i = 0; i < rounds(20000); i++) {
		ok(pthread_mutex_lock(&contended));
		counter++;
		ok(pthread_mutex_unlock(&contended));
	}
	return arg;
}

static struct hole {
	void *start;
	size_t size;
} holes[4096];

/* Takes all address space there is, to the last page. */
static int starve(void)
{
	int n = 0;

	for (size_t size = LIMIT; size >= 4096; size /= 2) {
		void *start;

		while (n < 4096 &&
		       (start = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED)
			holes[n++] = (struct hole){start, size};
	}
	CHECK(n < 4096);
	return n;
}

static void live_on_little(void)
{
	pthread_attr_t attr;
	pthread_t other;
	int n;

	ok(pthread_attr_init(&attr));
	ok(pthread_attr_setstacksize(&attr, STACK));
	ok(pthread_create(&other, &attr, count, NULL));
	n = starve();
	tell(&starved, 1);
	count(NULL);
	hold(HELD);
	check_join(other);
	CHECK_IS(counter, 2 * rounds(20000));
	while (n--)
		ok(munmap(holes[n].start, holes[n].size));
	hold(MANY);
}

int main(int argc, char **argv)
{
	const struct rlimit limit = {LIMIT, LIMIT};
	char *again[] = {argv[0], (char *)"on little", NULL};

	if (argc > 1) {
		live_on_little();
		return 0;
	}
	ok(setrlimit(RLIMIT_AS, &limit));
	execv("/proc/self/exe", again);
	return 1;
}
