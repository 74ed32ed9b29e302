// SPDX-License-Identifier: MIT
// The C++ library on top: it inlines pthread_mutex_clocklock and pthread_cond_clockwait into the program, and unwinds
// C++ frames when a thread is cancelled.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "tests/posix/posix.h"

using namespace std::chrono_literals;

template <typename Mutex> static void excludes()
{
	Mutex m;
	long counter = 0;
	std::vector<std::thread> threads;

	for (int i = 0; i < at_most(4); i++)
		threads.emplace_back([&] {
			for (int j = 0; j < 10000; j++) {
				std::lock_guard<Mutex> guard(m);
				counter++;
			}
		});
	for (auto &t : threads)
		t.join();
	CHECK_IS(counter, at_most(4) * 10000);
}

template <typename Mutex> static void times_out()
{
	Mutex m;
	std::lock_guard<Mutex> guard(m);

	std::thread([&] {
		auto start = std::chrono::steady_clock::now();

		CHECK(!m.try_lock());
		CHECK(!m.try_lock_for(5ms));
		CHECK(std::chrono::steady_clock::now() - start >= 5ms);
		CHECK(!m.try_lock_until(std::chrono::system_clock::now() + 2ms));
	}).join();
}

static void condition()
{
	std::mutex m;
	std::condition_variable c;
	bool go = false, gone = false;
	std::unique_lock<std::mutex> lock(m);

	CHECK(c.wait_for(lock, 5ms) == std::cv_status::timeout);
	CHECK(c.wait_until(lock, std::chrono::system_clock::now() + 1ms) == std::cv_status::timeout);
	CHECK(!c.wait_for(lock, 1ms, [&] { return go; }));
	std::thread t([&] {
		std::unique_lock<std::mutex> inner(m);
		CHECK(c.wait_for(inner, 60s, [&] { return go; }));
		gone = true;
		c.notify_all();
	});
	go = true;
	c.notify_one();
	CHECK(c.wait_until(lock, std::chrono::steady_clock::now() + 60s, [&] { return gone; }));
	CHECK(lock.owns_lock());
	lock.unlock();
	t.join();
}

static void any_condition()
{
	std::recursive_timed_mutex m;
	std::condition_variable_any c;
	bool go = false;
	std::thread t([&] {
		std::unique_lock<std::recursive_timed_mutex> lock(m);
		CHECK(c.wait_for(lock, 60s, [&] { return go; }));
	});
	{
		std::lock_guard<std::recursive_timed_mutex> outer(m), inner(m);
		go = true;
	}
	c.notify_all();
	t.join();
}

static void library()
{
	std::shared_timed_mutex rw;
	std::once_flag once;
	int calls = 0;

	std::shared_lock<std::shared_timed_mutex> reader(rw);
	std::thread([&] {
		CHECK(rw.try_lock_shared()); // readers share
		rw.unlock_shared();
		CHECK(!rw.try_lock_for(1ms));
	}).join();
	std::call_once(once, [&] { calls++; });
	std::call_once(once, [&] { calls++; });
	CHECK_IS(calls, 1);
	CHECK_IS(std::async(std::launch::async, [] { return 42; }).get(), 42);
	std::promise<int> p;
	CHECK(p.get_future().wait_for(1ms) == std::future_status::timeout);
}

// Forced unwinding: destructors run, innermost first, with the mutex held; catch (...) sees it and must rethrow.
static pthread_mutex_t m = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static int waiting, destroyed, caught;

struct Guard {
	Guard()
	{
		ok(pthread_mutex_lock(&m));
	}
	~Guard()
	{
		destroyed++;
		ok(pthread_mutex_unlock(&m)); // errorcheck: refused unless this thread holds it
	}
};

static void *wait_in_cxx(void *)
{
	Guard guard;

	try {
		tell(&waiting, 1);
		for (;;)
			ok(pthread_cond_wait(&c, &m));
	} catch (...) {
		CHECK_IS(pthread_mutex_lock(&m), EDEADLK);
		caught++;
		throw;
	}
	return nullptr;
}

static void unwinding()
{
	for (int i = 1; i <= 100; i++) {
		waiting = 0;
		pthread_t thread = check_thread(wait_in_cxx, nullptr);
		await(&waiting, 1);
		ok(pthread_cancel(thread));
		CHECK(check_join(thread) == PTHREAD_CANCELED);
		CHECK_IS(destroyed, i);
		CHECK_IS(caught, i);
	}
}

int main()
{
	excludes<std::mutex>();
	excludes<std::recursive_mutex>();
	excludes<std::timed_mutex>();
	times_out<std::timed_mutex>();
	times_out<std::recursive_timed_mutex>();
	condition();
	any_condition();
	library();
	unwinding();
	return 0;
}
