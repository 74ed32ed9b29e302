/* SPDX-License-Identifier: MIT */
/* An OpenMP program that waits actively where its threads have no CPU each: `flexguard advise` has to find the variable
 * of the runtime that ends this. Four processes with a thread for each CPU compute parallel loops of some 20 us, as
 * ranks of one job do. libgomp spins 300,000 times in each, since no process has more threads than there are CPUs.
 *
 *   regions [SCALE]     SCALE times 400 loops a process */
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 4

static volatile uint64_t sink;

static void compute(uint64_t x)
{
	for (int i = 0; i < 20000; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	sink = x;
}

int main(int argc, char **argv)
{
	const int loops = (int)(400 * (argc > 1 ? strtod(argv[1], NULL) : 1)) + 1;
	int failed = 0, status;

	for (int i = 0; i < PROCESSES; i++) {
		const pid_t child = fork();

		if (child < 0)
			return 1;
		if (child > 0)
			continue;
		for (int n = 0; n < loops; n++) {
#pragma omp parallel
			compute((uint64_t)n);
		}
		_exit(0);
	}
	for (int i = 0; i < PROCESSES; i++)
		failed |= wait(&status) < 0 || status != 0;
	return failed;
}
