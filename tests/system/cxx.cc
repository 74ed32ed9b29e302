// SPDX-License-Identifier: MIT
// <flexguard/flexguard.hpp> and the C calls behind it: the standard's named requirements, by type and at work.
#include <flexguard/barrier.h>
#include <flexguard/flexguard.hpp>

#include <condition_variable>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "tests/check.h"

using namespace std::chrono_literals;

// Lockable, TimedLockable, SharedLockable, SharedTimedLockable; MutexType: default constructible, neither copied nor
// moved.
template <class M> constexpr bool is_mutex_type()
{
	constexpr std::chrono::system_clock::time_point some_time;

	static_assert(std::is_default_constructible_v<M> && std::is_nothrow_default_constructible_v<M>);
	static_assert(!std::is_copy_constructible_v<M> && !std::is_move_constructible_v<M>);
	static_assert(!std::is_copy_assignable_v<M> && !std::is_move_assignable_v<M>);
	static_assert(std::is_same_v<decltype(std::declval<M &>().lock()), void>);
	static_assert(std::is_same_v<decltype(std::declval<M &>().unlock()), void>);
	static_assert(std::is_same_v<decltype(std::declval<M &>().try_lock()), bool>);
	static_assert(std::is_same_v<decltype(std::declval<M &>().try_lock_for(1s)), bool>);
	static_assert(std::is_same_v<decltype(std::declval<M &>().try_lock_until(some_time)), bool>);
	return true;
}
template <class M> constexpr bool is_shared_mutex_type()
{
	static_assert(std::is_same_v<decltype(std::declval<M &>().lock_shared()), void>);
	static_assert(std::is_same_v<decltype(std::declval<M &>().unlock_shared()), void>);
	static_assert(std::is_same_v<decltype(std::declval<M &>().try_lock_shared()), bool>);
	static_assert(std::is_same_v<decltype(std::declval<M &>().try_lock_shared_for(1s)), bool>);
	return is_mutex_type<M>();
}
static_assert(is_mutex_type<flexguard::mutex>() && is_shared_mutex_type<flexguard::shared_mutex>());
static_assert(sizeof(flexguard::mutex) == 16 && sizeof(flexguard::shared_mutex) == 16);

static flexguard::mutex constant_initialised; // no constructor runs
static long counter;

// A clock of a program's own, half as fast.
struct slow_clock {
	using duration = std::chrono::nanoseconds;
	using rep = duration::rep;
	using period = duration::period;
	using time_point = std::chrono::time_point<slow_clock>;
	static constexpr bool is_steady = true;
	static time_point now()
	{
		return time_point(std::chrono::steady_clock::now().time_since_epoch() / 2);
	}
};

template <class M> static void excludes()
{
	std::vector<std::thread> threads;
	M m;

	counter = 0;
	for (int i = 0; i < 4; i++)
		threads.emplace_back([&] {
			for (int k = 0; k < 10000; k++) {
				std::scoped_lock lock(m, constant_initialised);
				counter++;
			}
		});
	for (auto &thread : threads)
		thread.join();
	CHECK_IS(counter, 40000);
	std::unique_lock held(m);
	std::thread([&] {
		auto begin = std::chrono::steady_clock::now();

		CHECK(!m.try_lock());
		CHECK(!m.try_lock_for(5ms));
		CHECK(std::chrono::steady_clock::now() - begin >= 5ms);
		CHECK(!m.try_lock_until(std::chrono::system_clock::now() + 5ms));
		auto slow = slow_clock::now() + 3ms;
		CHECK(!m.try_lock_until(slow));
		CHECK(slow_clock::now() >= slow);
		CHECK(!std::unique_lock(m, 2ms).owns_lock());
	}).join();
	std::thread waiter([&] {
		CHECK(m.try_lock_for(std::chrono::hours::max()));
		m.unlock();
	});
	std::this_thread::sleep_for(5ms);
	held.unlock();
	waiter.join();
	CHECK(m.try_lock_for(1s));
	m.unlock();
}

static void shares()
{
	flexguard::shared_mutex m;
	std::shared_lock reader(m);

	std::thread([&] {
		std::shared_lock other(m, std::try_to_lock);

		CHECK(other.owns_lock());
		CHECK(!m.try_lock_for(2ms));
	}).join();
	CHECK(m.try_lock_shared_for(1s));
	m.unlock_shared();
	reader.unlock();
	m.lock();
	std::thread([&] { CHECK(!m.try_lock_shared_for(2ms)); }).join();
	try {
		m.lock_shared();
		CHECK(false, "a writer could read");
	} catch (const std::system_error &error) {
		CHECK(error.code() == std::errc::resource_deadlock_would_occur);
	}
	m.unlock();
}

// With std::condition_variable_any, which needs a BasicLockable only.
static void waits()
{
	std::condition_variable_any changed;
	flexguard::mutex m;
	int turn = 0;

	std::thread other([&] {
		for (int i = 0; i < 1000; i++) {
			std::unique_lock lock(m);
			changed.wait(lock, [&] { return turn == 1; });
			turn = 0;
			changed.notify_one();
		}
	});
	for (int i = 0; i < 1000; i++) {
		std::unique_lock lock(m);
		changed.wait(lock, [&] { return turn == 0; });
		turn = 1;
		changed.notify_one();
	}
	other.join();
}

// The same with flexguard::condition_variable: its requirements are those of std::condition_variable.
using condition = flexguard::condition_variable;
static_assert(std::is_nothrow_default_constructible_v<condition> && !std::is_copy_constructible_v<condition>);
static_assert(!std::is_copy_assignable_v<condition> && sizeof(condition) == 8);
static_assert(std::is_same_v<condition::native_handle_type, fg_cond *>);

static void waits_with_our_own()
{
	static condition changed; // no constructor runs
	flexguard::mutex m;
	std::unique_lock lock(m);
	int turn = 0;

	std::thread other([&] {
		for (int i = 0; i < 1000; i++) {
			std::unique_lock mine(m);
			changed.wait(mine, [&] { return turn == 1; });
			turn = 0;
			changed.notify_one();
		}
	});
	for (int i = 0; i < 1000; i++) {
		turn = 1;
		changed.notify_all();
		if (i % 2)
			changed.wait(lock, [&] { return turn == 0; });
		else
			CHECK(changed.wait_for(lock, 60s, [&] { return turn == 0; }));
	}
	other.join();
	CHECK(lock.owns_lock() && !m.try_lock());

	auto steady = std::chrono::steady_clock::now() + 3ms;
	CHECK(changed.wait_until(lock, steady) == std::cv_status::timeout);
	CHECK(std::chrono::steady_clock::now() >= steady);
	auto system = std::chrono::system_clock::now() + 3ms;
	CHECK(!changed.wait_until(lock, system, [] { return false; }));
	CHECK(std::chrono::system_clock::now() >= system);
	auto slow = slow_clock::now() + 2ms;
	CHECK(changed.wait_until(lock, slow) == std::cv_status::timeout);
	CHECK(slow_clock::now() >= slow);
	CHECK(changed.wait_for(lock, 1ms) == std::cv_status::timeout);
	CHECK(changed.wait_for(lock, -1s, [] { return true; }));
}

static void meets()
{
	static struct fg_barrier barrier = FG_BARRIER_INIT(3);
	std::vector<std::thread> threads;
	int told = 0;

	for (int i = 0; i < 3; i++)
		threads.emplace_back([&] {
			for (int k = 0; k < 1000; k++)
				if (fg_barrier_wait(&barrier))
					__atomic_add_fetch(&told, 1, __ATOMIC_RELAXED);
		});
	for (auto &thread : threads)
		thread.join();
	CHECK_IS(told, 1000);
	ok(fg_barrier_destroy(&barrier));
}

static void c_calls()
{
	struct fg_rwlock l = FG_RWLOCK_INIT;
	struct timespec past = {0, 0}, invalid = {0, -1};

	ok(fg_rwlock_rdlock(&l));
	CHECK_IS(fg_rwlock_trywrlock(&l), EBUSY);
	CHECK_IS(fg_rwlock_timedwrlock(&l, CLOCK_REALTIME, &past), ETIMEDOUT);
	CHECK_IS(fg_rwlock_timedrdlock(&l, CLOCK_REALTIME, &invalid), EINVAL);
	CHECK_IS(fg_rwlock_timedrdlock(&l, CLOCK_PROCESS_CPUTIME_ID, &past), EINVAL);
	ok(fg_rwlock_tryrdlock(&l));
	fg_rwlock_unlock(&l);
	fg_rwlock_unlock(&l);
	ok(fg_rwlock_wrlock(&l));
	CHECK_IS(fg_rwlock_tryrdlock(&l), EBUSY);
	CHECK_IS(fg_rwlock_wrlock(&l), EDEADLK);
	fg_rwlock_unlock(&l);
	ok(fg_rwlock_timedwrlock(&l, CLOCK_MONOTONIC, &past));
	fg_rwlock_unlock(&l);
}

int main() // NOLINT(bugprone-exception-escape): then the test fails
{
	check_watchdog(500);
	excludes<flexguard::mutex>();
	excludes<flexguard::shared_mutex>();
	shares();
	waits();
	waits_with_our_own();
	meets();
	c_calls();
	return 0;
}
