// SPDX-License-Identifier: MIT
// The ends of threads and of programs: destructors of thread-specific data, of thread_local and of static objects, and
// handlers of atexit and at_quick_exit lock and wait, while other threads do.
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>

#include "tests/posix/posix.h"

#define ENDS 3 // runs of a key's destructor, which sets the value again

static std::mutex m;
static std::shared_mutex l;
static std::condition_variable &c = *new std::condition_variable; // never destroyed: a thread waits to the end
static pthread_key_t key;
static int stop, *endings; // shared with the parent

static void ended()
{
	__atomic_fetch_add(endings, 1, __ATOMIC_SEQ_CST);
}

// What a program may do in a destructor or handler.
static void lock_all()
{
	{
		std::lock_guard<std::mutex> guard(m);
		c.notify_all();
	}
	{
		std::unique_lock<std::shared_mutex> guard(l);
		std::unique_lock<std::mutex> inner(m);
		c.wait_for(inner, std::chrono::microseconds(1));
	}
	std::shared_lock<std::shared_mutex> guard(l);
	ended();
}

struct ends {
	~ends()
	{
		lock_all();
	}
};

static thread_local struct ends of_thread;

static void end_again(void *value)
{
	long left = (long)value;

	lock_all();
	if (left > 1)
		ok(pthread_setspecific(key, (void *)(left - 1)));
}

static void *live_and_end(void *)
{
	(void)&of_thread;
	ok(pthread_setspecific(key, (void *)ENDS));
	pthread_exit(nullptr);
}

// Ends with the mutex held, while others wait for it.
static void *end_as_holder(void *)
{
	m.lock();
	ok(pthread_setspecific(key, nullptr));
	return nullptr;
}

static void *wait_for_it(void *began)
{
	__atomic_fetch_add((int *)began, 1, __ATOMIC_SEQ_CST);
	m.lock();
	m.unlock();
	return nullptr;
}

static void *bustle(void *)
{
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		std::shared_lock<std::shared_mutex> outer(l);
		std::unique_lock<std::mutex> guard(m);

		c.notify_one();
	}
	return nullptr;
}

static void *wait_for_ever(void *)
{
	std::unique_lock<std::mutex> guard(m);

	for (;;)
		c.wait(guard);
}

static void threads_end()
{
	const int bystanders = at_most(3) - 1, ends = at_most(4);
	pthread_t others[2], ending[4];
	int began = 0;

	for (int i = 0; i < bystanders; i++)
		others[i] = check_thread(bustle, nullptr);
	for (int round = 0; round < rounds(10); round++) {
		for (int i = 0; i < ends; i++)
			ending[i] = check_thread(live_and_end, nullptr);
		for (int i = 0; i < ends; i++)
			check_join(ending[i]);
	}
	CHECK_IS(*endings, rounds(10) * ends * (ENDS + 1));
	tell(&stop, 1);
	for (int i = 0; i < bystanders; i++)
		check_join(others[i]);
	check_join(check_thread(end_as_holder, nullptr));
	for (int i = 0; i < at_most(4); i++)
		ending[i] = check_thread(wait_for_it, &began);
	await(&began, at_most(4));
	m.unlock();
	for (int i = 0; i < at_most(4); i++)
		check_join(ending[i]);
}

static struct ends of_program;

__attribute__((destructor)) static void end_of_image()
{
	lock_all();
}

static void start_others()
{
	check_thread(wait_for_ever, nullptr);
	for (int i = 0; i < at_most(3) - 1; i++)
		check_thread(bustle, nullptr);
}

// The program ends while threads lock and wait. Runs in a child, which returns through exit or quick_exit.
static void program_ends(void (*end)(int), int expected)
{
	pid_t child;

	*endings = 0;
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		alarm(WATCHDOG_SECONDS);
		(void)&of_thread;
		ok(atexit(lock_all));
		ok(at_quick_exit(lock_all));
		start_others();
		end(0);
	}
	reap(child);
	CHECK_IS(*endings, expected);
}

int main()
{
	endings = (int *)shared_page(new_shared_page());
	ok(pthread_key_create(&key, end_again));
	threads_end();
	for (int i = 0; i < rounds(20); i++) {
		program_ends(exit, 4); // of_thread, atexit, of_program, end_of_image
		program_ends(quick_exit, 1);
	}
	_exit(0);
}
