# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# A parallel build under the lock, and the program that it makes, with the locks of C++20's standard library.
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs c++ make
mkdir "$scratch/build"
cat >"$scratch/build/main.cc" <<'END'
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <thread>
#include <vector>

static std::shared_mutex table;
static std::mutex mutex;
static std::condition_variable_any turn;
static std::counting_semaphore<4> four(4);
static long first, second, torn, inside, most, entered, turns;

static void work(int me)
{
	for (int i = 0; i < 4000; i++) {
		if (i % 8 == 0) {
			std::unique_lock writer(table);
			first++;
			second++;
		} else {
			std::shared_lock reader(table);
			if (first != second)
				__atomic_add_fetch(&torn, 1, __ATOMIC_RELAXED);
		}
		if (i % 16 == 0) {
			four.acquire();
			mutex.lock();
			entered++;
			most = ++inside > most ? inside : most;
			mutex.unlock();
			std::this_thread::yield();
			mutex.lock();
			inside--;
			mutex.unlock();
			four.release();
		}
	}
	for (int i = 0; i < 50; i++) {
		std::unique_lock lock(mutex);
		turn.wait(lock, [me] { return turns % 16 == me; });
		turns++;
		turn.notify_all();
	}
}

int main()
{
	std::vector<std::thread> threads;
	for (int i = 0; i < 16; i++)
		threads.emplace_back(work, i);
	for (auto &thread : threads)
		thread.join();
	std::printf("%ld %ld %ld %ld %ld %d\n", first, second, torn, entered, turns, most >= 1 && most <= 4);
}
END
for unit in a b c d e f; do
	printf '#include <iostream>\nvoid %s() { std::cout << "%s"; }\n' $unit $unit >"$scratch/build/$unit.cc"
done
printf 'CXXFLAGS = -std=c++20 -O1 -pthread\nmain: main.o a.o b.o c.o d.o e.o f.o\n\t$(CXX) -pthread -o $@ $^\n' \
	>"$scratch/build/Makefile"
under_lock make -C "$scratch/build" -j 4
under_lock "$scratch/build/main"
says '^8000 8000 0 4000 800 1$'
