/* SPDX-License-Identifier: MIT */
#include "worker/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/atomic.h"
#include "worker/clock.h"
#include "worker/json.h"
#include "worker/status.h"

static bool runnable(int file)
{
	char text[96]; /* "tid (name) state ...": a name has at most 15 characters */
	ssize_t length = pread(file, text, sizeof(text) - 1, 0);
	const char *name_end;

	if (length <= 0)
		return false; /* it has ended */
	text[length] = '\0';
	name_end = strrchr(text, ')');
	return name_end && name_end[1] == ' ' && name_end[2] == 'R';
}

static void *sample(void *argument)
{
	struct fgb_trace *t = argument;
	uint64_t start = fgb_ns(), due = start;
	struct rusage use;

	while (t->count < t->capacity && !fg_load_relaxed(&t->stop)) {
		uint64_t now = fgb_ns(), rest;
		uint32_t n = 0;
		struct timespec until;

		for (uint32_t i = 0; i < t->threads; i++)
			n += runnable(t->files[i]);
		t->times_us[t->count] = (uint32_t)((now - start) / 1000);
		t->samples[t->count++] = n;
		rest = (fgb_ns() - now) * FGB_TRACE_SHARE;
		due += t->interval_us * 1000;
		if (due < now + rest)
			due = now + rest;
		until = (struct timespec){(time_t)(due / 1000000000u), (long)(due % 1000000000u)};
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	}
	getrusage(RUSAGE_THREAD, &use);
	t->cpu_seconds = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
			 (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
	return NULL;
}

static void allow_files(uint64_t n)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < n) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

int fgb_trace_open(struct fgb_trace *t, uint64_t interval_us, const pid_t *tids, uint32_t threads, double seconds)
{
	*t = (struct fgb_trace){.interval_us = interval_us};
	if (!interval_us)
		return 0;
	t->capacity = (uint64_t)(seconds * 1e6 / (double)interval_us) + 2;
	t->files = calloc(threads, sizeof(*t->files));
	t->times_us = calloc(t->capacity, sizeof(*t->times_us));
	t->samples = calloc(t->capacity, sizeof(*t->samples));
	if (!t->files || !t->times_us || !t->samples) {
		fputs("fg-bench: not enough memory\n", stderr);
		return FGB_FAILED;
	}
	allow_files((uint64_t)threads + 64);
	for (; t->threads < threads; t->threads++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tids[t->threads]);
		t->files[t->threads] = open(path, O_RDONLY | O_CLOEXEC);
		if (t->files[t->threads] < 0) {
			fprintf(stderr, "fg-bench: --trace-us: cannot read %s: %s\n", path, strerror(errno));
			return FGB_FAILED;
		}
	}
	return 0;
}

int fgb_trace_start(struct fgb_trace *t)
{
	int error = t->interval_us ? pthread_create(&t->thread, NULL, sample, t) : 0;

	t->running = t->interval_us && !error;
	if (error)
		fprintf(stderr, "fg-bench: cannot create the sampler: %s\n", strerror(error));
	return error ? FGB_FAILED : 0;
}

void fgb_trace_stop(struct fgb_trace *t)
{
	if (!t->running)
		return;
	fg_store_relaxed(&t->stop, 1);
	pthread_join(t->thread, NULL);
	t->running = false;
}

void fgb_trace_free(struct fgb_trace *t)
{
	for (uint32_t i = 0; i < t->threads; i++)
		close(t->files[i]);
	free(t->files);
	free(t->times_us);
	free(t->samples);
}

static void print_array(const char *name, const uint32_t *values, uint64_t count)
{
	fgb_json_array(name);
	for (uint64_t i = 0; i < count; i++)
		fgb_json_count(NULL, values[i]);
	fgb_json_end();
}

void fgb_trace_print(const struct fgb_trace *t)
{
	if (!t->interval_us)
		return;
	fgb_json_object("runnable");
	fgb_json_count("interval_us", t->interval_us);
	print_array("times_us", t->times_us, t->count);
	print_array("samples", t->samples, t->count);
	fgb_json_end();
}
