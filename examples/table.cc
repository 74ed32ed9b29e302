// SPDX-License-Identifier: MIT
// Readers and writers of a table, and a thread that waits for an entry: the C++ classes.
#include <flexguard/flexguard.hpp>

#include <cstdio>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>

static flexguard::shared_mutex table_mutex;
static std::map<std::string, int> table;

static flexguard::mutex mutex;
static flexguard::condition_variable complete;
static int written;

static void write(const std::string &name, int value)
{
	{
		std::unique_lock lock(table_mutex);
		table[name] = value;
	}
	std::scoped_lock lock(mutex);
	if (++written == 2)
		complete.notify_all();
}

int main()
{
	std::thread first(write, "one", 1), second(write, "two", 2);
	int sum = 0;

	{
		std::unique_lock lock(mutex);
		complete.wait(lock, [] { return written == 2; });
	}
	{
		std::shared_lock lock(table_mutex);
		for (const auto &[name, value] : table)
			sum += value;
	}
	first.join();
	second.join();
	std::printf("%d entries, their sum is %d\n", written, sum);
	return sum != 3;
}
