/* SPDX-License-Identifier: MIT */
/* How often does a thread lose its CPU while it holds the lock or waits for it with a ticket (the I-Spinlock paper's
 * problematic spin preemptions)? The thread says that it is critical from the ticket on, and the monitor counts.
 *
 *   preempted SECONDS THREADS [SECTION_CYCLES [BETWEEN_CYCLES]]
 *
 * Prints the operations, the preemptions of that kind, and those for a million operations. 77: there is no monitor. */
#include "runtime/thread.h"

#define FGI_TICKET_DRAWN() fgi_held_raise()
#define FGI_TICKET_SERVED() ((void)0)
#include FGI_LOCK_FILE

#include "runtime/spin_budget.h"
#include "tests/check.h"

static struct fg_lock lock;
static uint64_t in_section, operations;
static uint64_t section_cycles = 1000, between_cycles = 1000;
static uint32_t stop;

static void spend(uint64_t cycles)
{
	for (uint64_t start = fg_cycles(); fg_cycles() - start < cycles;)
		;
}

static void *worker(void *unused)
{
	uint64_t n = 0;

	(void)unused;
	while (!fg_load_relaxed(&stop)) {
		fgi_lock(&lock);
		CHECK(in_section++ == 0, "two threads are in");
		spend(section_cycles);
		in_section--;
		fgi_unlock(&lock);
		spend(between_cycles);
		n++;
	}
	fg_fetch_add_relaxed(&operations, n);
	return NULL;
}

int main(int argc, char **argv)
{
	struct timespec seconds = {0};
	uint64_t before, counted;
	pthread_t threads[64];
	int n;

	CHECK(argc >= 3, "usage: preempted SECONDS THREADS [SECTION_CYCLES [BETWEEN_CYCLES]]");
	seconds.tv_sec = atoi(argv[1]);
	n = atoi(argv[2]);
	if (argc > 3)
		section_cycles = strtoull(argv[3], NULL, 10);
	if (argc > 4)
		between_cycles = strtoull(argv[4], NULL, 10);
	CHECK(n > 0 && n <= 64 && seconds.tv_sec > 0);
	check_watchdog((unsigned int)seconds.tv_sec + 120);
	fgi_self();
	if (fgi_monitor_page == &fgi_no_monitor) {
		fputs("skipped: there is no monitor\n", stderr);
		return 77;
	}
	before = fgi_preemptions().holders;
	for (int i = 0; i < n; i++)
		threads[i] = check_thread(worker, NULL);
	nanosleep(&seconds, NULL);
	fg_store_relaxed(&stop, 1);
	for (int i = 0; i < n; i++)
		check_join(threads[i]);
	counted = fgi_preemptions().holders - before;
	printf("%lu operations, %lu preempted with the lock or a ticket, %.1f for a million operations\n",
	       (unsigned long)operations, (unsigned long)counted,
	       operations ? 1e6 * (double)counted / (double)operations : 0.0);
	return 0;
}
