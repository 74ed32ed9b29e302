/* SPDX-License-Identifier: MIT */
/* The monitor's kernel half, as it is shipped, compiled natively and instrumented: its accesses to the page, to thread
 * blocks and to the kernel's tasks cost what they would. monitor/bpf/ stands in for libbpf. */
#include "simulator/monitor.h"

#include <string.h>

#include "monitor/bpf/monitor.bpf.c"
#include "runtime/block.h"
#include "simulator/engine.h"

#define RAW __attribute__((no_sanitize("thread")))

struct fgs_task {
	struct task_struct task;
	struct cfs_rq queue;
	struct rq rq;
	struct fg_thread_record thread;
};

extern const uint64_t __start_fg_wants[] __attribute__((weak, visibility("hidden")));
extern const uint64_t __stop_fg_wants[] __attribute__((weak, visibility("hidden")));

static struct fg_published page __attribute__((aligned(FG_PAGE)));
static struct fg_process_record process;
static struct {
	struct fg_cpu_counts counts;
} __attribute__((aligned(64))) of_cpu[FGS_CPUS];

/* ---- helpers -------------------------------------------------------------------------------------------------- */

RAW void *bpf_map_lookup_elem(const void *map, const void *key)
{
	(void)key;
	if (map == &shared)
		return &page;
	return map == &counts ? &of_cpu[fgs_here->id].counts : NULL;
}

RAW void *bpf_task_storage_get(const void *map, const void *task, void *value, uint64_t flags)
{
	struct fgs_task *t = (struct fgs_task *)(uintptr_t)task;

	(void)value;
	(void)flags;
	if (!t->task.bpf_storage)
		return NULL;
	return map == &threads ? (void *)&t->thread : &process;
}

long bpf_task_storage_delete(const void *map, const void *task)
{
	(void)map;
	(void)task;
	return 0;
}

/* Words: each is an access. */
long bpf_probe_read_user(void *to, uint32_t bytes, const void *from)
{
	uint32_t *out = to;
	const uint32_t *in = from;

	for (uint32_t i = 0; i < bytes / 4; i++)
		out[i] = *(const volatile uint32_t *)&in[i];
	return 0;
}

/* For arm64 alone, and of tagged memory. */
long bpf_probe_read_user_str(void *to, uint32_t bytes, const void *from)
{
	(void)to;
	(void)bytes;
	(void)from;
	return -1;
}

long bpf_probe_read_kernel(void *to, uint32_t bytes, const void *from)
{
	memcpy(to, from, bytes);
	return 0;
}

long bpf_seq_write(const void *file, const void *data, uint32_t bytes)
{
	(void)file;
	(void)data;
	(void)bytes;
	return 0;
}

/* No thread is in a window: the simulator's architecture has none. */
RAW long bpf_task_pt_regs(const void *task)
{
	static const struct pt_regs nowhere;

	(void)task;
	return (long)&nowhere;
}

RAW uint32_t bpf_get_smp_processor_id(void)
{
	return fgs_here->id;
}

RAW uint64_t bpf_ktime_get_ns(void)
{
	return FGS_EPOCH_NS + fgs_here->now / FGS_NS;
}

/* ---- tasks ---------------------------------------------------------------------------------------------------- */

RAW struct fg_published *fgs_monitor_start(uint32_t cpus, uint64_t tick_ns)
{
	struct fg_shared *p = &page.page;

	p->magic = FG_ABI_MAGIC;
	p->version = FG_ABI_VERSION;
	p->heartbeat_ns = UINT64_MAX / 4; /* later than any time: it lives */
	p->tick_ns = tick_ns;
	p->cpus = cpus;
	p->any_process = 1;
	p->cpus_seen = cpus < FG_CPUS ? cpus : FG_CPUS;
	for (uint32_t i = 0; i < p->cpus_seen; i++)
		page.cpus[i].idle = 1;
	process.exec_id = 1;
	process.n_images = 1;
	process.images[0].block_offset = (int32_t)((char *)&fg_thread - (char *)__builtin_thread_pointer());
	for (const uint64_t *want = __start_fg_wants; want < __stop_fg_wants; want++)
		process.flags |= (uint32_t)*want;
	p->slices_wanted = (process.flags & FG_WANT_SLICE_FORECAST) != 0;
	return &page;
}

RAW static struct fgs_task *new_task(void)
{
	struct fgs_task *t = fgs_allocate(sizeof(*t), 64);

	if (!t)
		fgs_fail("not enough memory");
	memset(t, 0, sizeof(*t));
	t->task.group_leader = &t->task;
	t->task.self_exec_id = 1;
	t->task.prio = 120;
	t->task.se.cfs_rq = &t->queue;
	t->queue.rq = &t->rq;
	return t;
}

RAW struct fgs_task *fgs_monitor_task(int tid, int its_process, bool registered, uint64_t thread_pointer)
{
	static struct fgs_task *leader;
	struct fgs_task *t = new_task();

	if (registered && !leader)
		leader = t;
	t->task.pid = tid;
	t->task.tgid = its_process;
	t->task.thread.fsbase = thread_pointer;
	if (registered) {
		t->task.group_leader = &leader->task;
		t->task.bpf_storage = (struct bpf_local_storage *)&process;
	}
	return t;
}

RAW struct fgs_task *fgs_monitor_idle_task(void)
{
	struct fgs_task *t = new_task();

	t->task.flags = PF_KTHREAD;
	return t;
}

RAW static void describe(struct fgs_task *t, const struct fgs_task_state *state)
{
	if (!state)
		return;
	t->task.se.vruntime = (uint64_t)state->vruntime / FGS_NS;
	t->task.se.deadline = (uint64_t)state->deadline / FGS_NS;
	t->task.se.vprot = (uint64_t)state->protected_until / FGS_NS;
	t->task.se.load.weight = (unsigned long)state->weight << 10;
	t->task.se.exec_start = state->since_ns;
	t->task.policy = (unsigned int)state->policy;
	t->queue.nr_queued = state->queued;
}

RAW void fgs_monitor_switch(struct fgs_task *before, struct fgs_task *after, bool runnable,
			    const struct fgs_task_state *of_before, const struct fgs_task_state *of_after)
{
	describe(before, of_before);
	describe(after, of_after);
	before->task.on_rq = runnable;
	fg_sched_switch(false, &before->task, &after->task, runnable ? 0 : 1);
}
