/* SPDX-License-Identifier: MIT */
/* Short tasks in libuv's thread pool. The loop's thread keeps so many of them queued: it queues each again when it is
 * done. All threads of the pool wait at one mutex and one condition variable. Prints tasks a second.
 *
 *   uv_tasks THREADS QUEUED STEPS SECONDS      (a task takes STEPS steps of about a nanosecond) */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

struct task {
	uv_work_t request;
	uint64_t runs, sum; /* by the pool's threads, one at a time */
};

static uint64_t steps, until, done;

static void run(uv_work_t *request)
{
	struct task *task = (struct task *)request->data;

	for (uint64_t i = 0; i < steps; i++)
		task->sum = task->sum * 6364136223846793005u + 1442695040888963407u;
	task->runs++;
}

static void queue_again(uv_work_t *request, int status)
{
	if (status)
		abort();
	done++;
	if (uv_hrtime() < until && uv_queue_work(request->loop, request, run, queue_again))
		abort();
}

int main(int argc, char **argv)
{
	uint64_t queued = argc > 2 ? strtoull(argv[2], NULL, 10) : 0, begin = uv_hrtime(), runs = 0;
	double seconds = argc > 4 ? strtod(argv[4], NULL) : 0;
	uv_loop_t *loop = uv_default_loop();
	struct task *tasks;

	if (argc != 5 || !queued || seconds <= 0 || !loop || setenv("UV_THREADPOOL_SIZE", argv[1], 1)) {
		fprintf(stderr, "usage: %s THREADS QUEUED STEPS SECONDS\n", argv[0]);
		return 2;
	}
	steps = strtoull(argv[3], NULL, 10);
	until = begin + (uint64_t)(seconds * 1e9);
	tasks = (struct task *)calloc(queued, sizeof(*tasks));
	if (!tasks)
		return 1;
	for (uint64_t i = 0; i < queued; i++) {
		tasks[i].request.data = &tasks[i];
		if (uv_queue_work(loop, &tasks[i].request, run, queue_again))
			return 1;
	}
	uv_run(loop, UV_RUN_DEFAULT);
	for (uint64_t i = 0; i < queued; i++)
		runs += tasks[i].runs;
	printf("%.0f tasks a second\n", (double)done * 1e9 / (double)(uv_hrtime() - begin));
	if (runs != done)
		fprintf(stderr, "%" PRIu64 " tasks ran, and %" PRIu64 " are done\n", runs, done);
	free(tasks);
	return runs != done;
}
