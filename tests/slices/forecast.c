/* SPDX-License-Identifier: MIT */
/* How good are the monitor's forecasts of the ends of slices?
 *
 *   forecast SECONDS HOGS [CPU]
 *
 * This thread shares its CPU with hogs and reads the clock and the forecast all the time. A gap between two readings
 * in which the published value changed was a switch: the slice ended when the gap began. Prints a histogram of
 * forecast minus end. A slice that went on in silence (lock/slice_forecast.h) counts as one that ended ticks
 * after its forecast.
 *
 * 77: there is no monitor, or it has no forecasts. 1: half of the slices ended more than a tick before or after their
 * forecasts, or four fifths of them more than 30 us. A thread that wakes up ends a slice early, and no forecast knows
 * of it: on a busy machine two in three end so. But where the forecast is wrong, one in a hundred hits by chance. */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>

#include "lock/slice_forecast.h"
#include "runtime/monitor.h"
#include "runtime/spin_budget.h"
#include "runtime/thread.h"
#include "tests/check.h"

#define SLICES 65536
#define NEAR_NS 30000 /* on an emulated machine a tick takes effect 20 us after its time */

FGI_WANT_SLICE_FORECAST;

static uint32_t stop;
static int64_t errors[SLICES]; /* forecast minus end */
static size_t slices;

static void *hog(void *unused)
{
	(void)unused;
	while (!fg_load_relaxed(&stop))
		fg_compiler_barrier();
	return NULL;
}

/* To `cpu`; negative: to the last one allowed, since interrupts prefer the first. */
static void pin(int cpu)
{
	cpu_set_t set;

	CHECK(sched_getaffinity(0, sizeof(set), &set) == 0);
	if (cpu < 0)
		for (cpu = CPU_SETSIZE - 1; !CPU_ISSET(cpu, &set);)
			cpu--;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0, "CPU %d", cpu);
}

static void observe(uint64_t until)
{
	uint64_t published = fgi_slice_published(), last = fgi_now_ns(CLOCK_MONOTONIC), now;
	bool whole = false; /* the first slice has no known start */

	while ((now = fgi_now_ns(CLOCK_MONOTONIC)) < until && slices < SLICES) {
		uint64_t seen = fgi_slice_published();

		if (seen != published) {
			if (whole && published)
				errors[slices++] = (int64_t)(published - last);
			published = seen;
			whole = true;
		}
		last = now;
	}
}

static int ascending(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void histogram(const int64_t *sorted)
{
	static const int64_t bounds_us[] = {-4000, -1000,           -300, -100, -30, -10, 10, 30, 100, 300, 1000,
					    4000,  INT64_MAX / 1000};
	size_t i = 0;

	for (size_t b = 0; b < sizeof(bounds_us) / sizeof(bounds_us[0]); b++) {
		size_t n = 0;

		for (; i < slices && sorted[i] / 1000 < bounds_us[b]; i++)
			n++;
		if (n)
			printf("    %s %6ld us: %5.1f %%\n",
			       b + 1 < sizeof(bounds_us) / sizeof(bounds_us[0]) ? " <" : ">=",
			       (long)(b + 1 < sizeof(bounds_us) / sizeof(bounds_us[0]) ? bounds_us[b]
										       : bounds_us[b - 1]),
			       100.0 * (double)n / (double)slices);
	}
}

static void report(int64_t *error, uint64_t tick)
{
	int64_t median, absolute, p90;
	size_t near = 0;

	qsort(error, slices, sizeof(*error), ascending);
	median = error[slices / 2];
	printf("forecast minus end: median %.1f us\n", (double)median / 1000);
	histogram(error);
	for (size_t i = 0; i < slices; i++)
		error[i] = error[i] < 0 ? -error[i] : error[i];
	qsort(error, slices, sizeof(*error), ascending);
	absolute = error[slices / 2];
	p90 = error[slices * 9 / 10];
	while (near < slices && error[near] <= NEAR_NS)
		near++;
	printf("    absolute error: median %.1f us, p90 %.1f us; %zu within %d us\n", (double)absolute / 1000,
	       (double)p90 / 1000, near, NEAR_NS / 1000);
	CHECK(absolute <= (int64_t)(tick ? tick : 10000000), "no better than a guess");
	CHECK(near >= slices / 5, "the forecasts are not those of a tick");
}

int main(int argc, char **argv)
{
	pthread_t hogs[64];
	uint64_t start, tick;
	int n, seconds;

	CHECK(argc >= 3, "usage: forecast SECONDS HOGS [CPU]");
	seconds = atoi(argv[1]);
	n = atoi(argv[2]);
	CHECK(seconds > 0 && n > 0 && n <= 64);
	check_watchdog((unsigned int)seconds + 60);
	fgi_self();
	if (fgi_monitor_page == &fgi_no_monitor) {
		fputs("skipped: there is no monitor\n", stderr);
		return 77;
	}
	pin(argc > 3 ? atoi(argv[3]) : -1);
	for (int i = 0; i < n; i++)
		hogs[i] = check_thread(hog, NULL);
	start = fgi_now_ns(CLOCK_MONOTONIC);
	observe(start + (uint64_t)seconds * 1000000000u);
	tick = fgi_monitor_page->tick_ns;
	fg_store_relaxed(&stop, 1);
	for (int i = 0; i < n; i++)
		check_join(hogs[i]);
	if (slices < 20) {
		fputs("skipped: this kernel's monitor has no forecasts\n", stderr);
		return 77;
	}
	printf("%zu slices in %d s, tick %.1f ms\n", slices, seconds, (double)tick / 1e6);
	report(errors, tick);
	return 0;
}
