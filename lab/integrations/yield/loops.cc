/* SPDX-License-Identifier: MIT */
/* Parallel loops of TBB, four chunks a thread. Prints loops a second, and the CPU time that a second took.
 *
 *   loops THREADS STEPS SECONDS     STEPS of arithmetic in each loop for each thread */
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>

static void compute(unsigned long steps)
{
	volatile unsigned sink;
	unsigned x = 1;

	for (unsigned long i = 0; i < steps; i++)
		x = x * 1664525U + 1013904223U;
	sink = x;
	(void)sink;
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		std::fprintf(stderr, "usage: %s THREADS STEPS SECONDS\n", argv[0]);
		return 2;
	}
	const unsigned long threads = std::strtoul(argv[1], nullptr, 10), steps = std::strtoul(argv[2], nullptr, 10);
	const double seconds = std::strtod(argv[3], nullptr);
	const tbb::global_control limit(tbb::global_control::max_allowed_parallelism, threads);
	const auto begin = std::chrono::steady_clock::now();
	unsigned long done = 0;
	double took;
	timespec cpu;

	do {
		tbb::parallel_for(
			0UL, threads * 4, [&](unsigned long) { compute(steps / 4); }, tbb::simple_partitioner());
		done++;
		took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
	} while (took < seconds);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	std::printf("%.1f,%.2f\n", static_cast<double>(done) / took,
		    (static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) / 1e9) / took);
	return 0;
}
