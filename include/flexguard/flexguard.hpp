// SPDX-License-Identifier: MIT
// flexguard::mutex, shared_mutex and condition_variable for C++17 and later: header only, around the C API.
//
//   flexguard::shared_mutex m;
//   { std::shared_lock lock(m); ... }
//   { std::unique_lock lock(m); ... }
//
//   flexguard::condition_variable changed;
//   { std::unique_lock lock(mutex); changed.wait(lock, [] { return ready; }); }
//
// mutex meets the standard's requirements of Lockable and TimedLockable, shared_mutex also those of SharedTimedMutex.
// As with std::shared_timed_mutex, a lock that the calling thread holds for writing must not be locked again: that throws
// std::system_error (resource_deadlock_would_occur). condition_variable waits with a std::unique_lock of a mutex, as
// std::condition_variable does; std::condition_variable_any waits with either.
#ifndef FLEXGUARD_HPP
#define FLEXGUARD_HPP

#include <flexguard/annotations.h>
#include <flexguard/cond.h>
#include <flexguard/mutex.h>
#include <flexguard/rwlock.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>
#include <shared_mutex>
#include <system_error>
#include <utility>

namespace flexguard {

namespace detail {

/* Rounds up: a wait does not end before its time. */
template <class Clock, class Duration>
timespec to_timespec(const std::chrono::time_point<Clock, Duration> &time)
{
	auto ns = std::chrono::ceil<std::chrono::nanoseconds>(time.time_since_epoch());
	auto s = std::chrono::floor<std::chrono::seconds>(ns);

	return {static_cast<std::time_t>(s.count()), static_cast<long>((ns - s).count())};
}

/* lock(clock, time): an errno value. Clocks other than the two that the kernel waits on are asked again and again. */
template <class Lock, class Clock, class Duration>
bool lock_until(const std::chrono::time_point<Clock, Duration> &time, Lock lock)
{
	using namespace std::chrono;
	timespec until;
	int error;

	if constexpr (std::is_same_v<Clock, system_clock>) {
		until = to_timespec(time);
		error = lock(CLOCK_REALTIME, &until);
	} else if constexpr (std::is_same_v<Clock, steady_clock>) {
		until = to_timespec(time);
		error = lock(CLOCK_MONOTONIC, &until);
	} else {
		do {
			until = to_timespec(steady_clock::now() + ceil<nanoseconds>(time - Clock::now()));
			error = lock(CLOCK_MONOTONIC, &until);
		} while (error == ETIMEDOUT && Clock::now() < time);
	}
	return error == 0;
}

/* At most as far as the clock goes: for some programs "for ever" is the longest duration that there is. */
template <class Rep, class Period>
std::chrono::steady_clock::time_point from_now(const std::chrono::duration<Rep, Period> &duration)
{
	using namespace std::chrono;
	const auto now = steady_clock::now(), last = steady_clock::time_point::max();

	if (duration_cast<std::chrono::duration<double>>(duration) >= std::chrono::duration<double>(last - now))
		return last;
	return now + ceil<steady_clock::duration>(duration);
}

} // namespace detail

class FG_CAPABILITY("mutex") mutex {
public:
	using native_handle_type = fg_mutex *;

	constexpr mutex() noexcept = default;
	mutex(const mutex &) = delete;
	mutex &operator=(const mutex &) = delete;

	void lock() noexcept FG_ACQUIRE() FG_UNCHECKED
	{
		fg_mutex_lock(&mutex_);
	}
	bool try_lock() noexcept FG_TRY_ACQUIRE(true)
	{
		return fg_mutex_trylock(&mutex_) == 0;
	}
	template <class Rep, class Period>
	bool try_lock_for(const std::chrono::duration<Rep, Period> &duration) FG_TRY_ACQUIRE(true)
	{
		return try_lock_until(detail::from_now(duration));
	}
	template <class Clock, class Duration>
	bool try_lock_until(const std::chrono::time_point<Clock, Duration> &time) FG_TRY_ACQUIRE(true)
	{
		return detail::lock_until(
			time, [this](clockid_t c, const timespec *t) { return fg_mutex_timedlock(&mutex_, c, t); });
	}
	void unlock() noexcept FG_RELEASE() FG_UNCHECKED
	{
		fg_mutex_unlock(&mutex_);
	}
	native_handle_type native_handle() noexcept
	{
		return &mutex_;
	}

private:
	fg_mutex mutex_ = FG_MUTEX_INIT;
};

class FG_CAPABILITY("shared_mutex") shared_mutex {
public:
	using native_handle_type = fg_rwlock *;

	constexpr shared_mutex() noexcept = default;
	shared_mutex(const shared_mutex &) = delete;
	shared_mutex &operator=(const shared_mutex &) = delete;

	void lock() FG_ACQUIRE() FG_UNCHECKED
	{
		check(fg_rwlock_wrlock(&lock_));
	}
	bool try_lock() noexcept FG_TRY_ACQUIRE(true)
	{
		return fg_rwlock_trywrlock(&lock_) == 0;
	}
	template <class Rep, class Period>
	bool try_lock_for(const std::chrono::duration<Rep, Period> &duration) FG_TRY_ACQUIRE(true)
	{
		return try_lock_until(detail::from_now(duration));
	}
	template <class Clock, class Duration>
	bool try_lock_until(const std::chrono::time_point<Clock, Duration> &time) FG_TRY_ACQUIRE(true)
	{
		return detail::lock_until(
			time, [this](clockid_t c, const timespec *t) { return fg_rwlock_timedwrlock(&lock_, c, t); });
	}
	void unlock() noexcept FG_RELEASE() FG_UNCHECKED
	{
		fg_rwlock_unlock(&lock_);
	}

	void lock_shared() FG_ACQUIRE_SHARED() FG_UNCHECKED
	{
		check(fg_rwlock_rdlock(&lock_));
	}
	bool try_lock_shared() noexcept FG_TRY_ACQUIRE_SHARED(true)
	{
		return fg_rwlock_tryrdlock(&lock_) == 0;
	}
	template <class Rep, class Period>
	bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &duration) FG_TRY_ACQUIRE_SHARED(true)
	{
		return try_lock_shared_until(detail::from_now(duration));
	}
	template <class Clock, class Duration>
	bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &time) FG_TRY_ACQUIRE_SHARED(true)
	{
		return detail::lock_until(
			time, [this](clockid_t c, const timespec *t) { return fg_rwlock_timedrdlock(&lock_, c, t); });
	}
	void unlock_shared() noexcept FG_RELEASE_SHARED() FG_UNCHECKED
	{
		fg_rwlock_unlock(&lock_);
	}
	native_handle_type native_handle() noexcept
	{
		return &lock_;
	}

private:
	static void check(int error)
	{
		if (error)
			throw std::system_error(error, std::generic_category());
	}

	fg_rwlock lock_ = FG_RWLOCK_INIT;
};

class condition_variable {
public:
	using native_handle_type = fg_cond *;

	constexpr condition_variable() noexcept = default;
	condition_variable(const condition_variable &) = delete;
	condition_variable &operator=(const condition_variable &) = delete;

	void notify_one() noexcept
	{
		fg_cond_signal(&cond_);
	}
	void notify_all() noexcept
	{
		fg_cond_broadcast(&cond_);
	}
	void wait(std::unique_lock<mutex> &lock) noexcept FG_UNCHECKED
	{
		fg_cond_wait(&cond_, lock.mutex()->native_handle());
	}
	template <class Predicate> void wait(std::unique_lock<mutex> &lock, Predicate done)
	{
		while (!done())
			wait(lock);
	}
	template <class Clock, class Duration>
	std::cv_status wait_until(std::unique_lock<mutex> &lock, const std::chrono::time_point<Clock, Duration> &time)
	{
		auto wait = [this, &lock](clockid_t c, const timespec *t) FG_UNCHECKED {
			return fg_cond_timedwait(&cond_, lock.mutex()->native_handle(), c, t);
		};

		return detail::lock_until(time, wait) ? std::cv_status::no_timeout : std::cv_status::timeout;
	}
	template <class Clock, class Duration, class Predicate>
	bool wait_until(std::unique_lock<mutex> &lock, const std::chrono::time_point<Clock, Duration> &time,
			Predicate done)
	{
		while (!done())
			if (wait_until(lock, time) == std::cv_status::timeout)
				return done();
		return true;
	}
	template <class Rep, class Period>
	std::cv_status wait_for(std::unique_lock<mutex> &lock, const std::chrono::duration<Rep, Period> &duration)
	{
		return wait_until(lock, detail::from_now(duration));
	}
	template <class Rep, class Period, class Predicate>
	bool wait_for(std::unique_lock<mutex> &lock, const std::chrono::duration<Rep, Period> &duration, Predicate done)
	{
		return wait_until(lock, detail::from_now(duration), std::move(done));
	}
	native_handle_type native_handle() noexcept
	{
		return &cond_;
	}

private:
	fg_cond cond_ = FG_COND_INIT;
};

} // namespace flexguard

#endif
