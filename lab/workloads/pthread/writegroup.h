/* SPDX-License-Identifier: MIT */
/* A write group, as LevelDB and RocksDB write: each writer queues up with a condition variable of its own. The first in
 * the queue is the leader: it does the work of those behind it without the mutex, tells each that it is done, and
 * wakes the next leader. */
#include "worker/handing.h"
#include "worker/json.h"

struct fgb_writer {
	pthread_cond_t done_or_leader;
	struct fgb_writer *next; /* behind it in the queue */
	bool done;
};

static struct {
	uint64_t group; /* members at most */
	double write_us, member_us;
	struct fgb_think think;
	uint64_t write_cycles, member_cycles;
	pthread_mutex_t mutex __attribute__((aligned(FGB_ALONE)));
	struct fgb_writer *first, *last;
	uint64_t groups;
	uint64_t written
		__attribute__((aligned(FGB_ALONE))); /* by leaders, without the mutex: there is one at a time */
} fgb_writegroup = {.group = 64, .write_us = 2, .member_us = 0.5, .mutex = PTHREAD_MUTEX_INITIALIZER};

/* The leader's write. The queue behind the members may grow meanwhile: the members are counted first. */
static void fgb_writegroup_write(uint64_t members)
{
	uint64_t before = fgb_writegroup.written;

	fgb_work(fgb_writegroup.write_cycles + members * fgb_writegroup.member_cycles);
	fgb_writegroup.written = before + members;
}

/* With the mutex held, which it gives up meanwhile. `self` is the first in the queue. */
static void fgb_writegroup_lead(const struct fgb_writer *self)
{
	uint64_t members = 1;

	for (const struct fgb_writer *w = self->next; w && members < fgb_writegroup.group; w = w->next)
		members++;
	pthread_mutex_unlock(&fgb_writegroup.mutex);
	fgb_writegroup_write(members);
	pthread_mutex_lock(&fgb_writegroup.mutex);
	fgb_writegroup.groups++;
	for (; members; members--) {
		struct fgb_writer *w = fgb_writegroup.first;

		fgb_writegroup.first = w->next;
		if (w == self)
			continue;
		w->done = true;
		pthread_cond_signal(&w->done_or_leader);
	}
	if (fgb_writegroup.first)
		pthread_cond_signal(&fgb_writegroup.first->done_or_leader);
	else
		fgb_writegroup.last = NULL;
}

__attribute__((noinline)) static void fgb_writegroup_loop(const struct fgb_run *run, uint32_t phase,
							  struct fgb_thread *self)
{
	while (fg_load_relaxed(&run->phase) == phase) {
		struct fgb_writer writer = {.done_or_leader = PTHREAD_COND_INITIALIZER};
		uint64_t asked, seen;

		fgb_think(&fgb_writegroup.think, self);
		asked = fg_cycles();
		pthread_mutex_lock(&fgb_writegroup.mutex);
		if (fgb_writegroup.last)
			fgb_writegroup.last->next = &writer;
		else
			fgb_writegroup.first = &writer;
		fgb_writegroup.last = &writer;
		while (!writer.done && fgb_writegroup.first != &writer)
			pthread_cond_wait(&writer.done_or_leader, &fgb_writegroup.mutex);
		seen = fg_cycles_ordered();
		if (!writer.done)
			fgb_writegroup_lead(&writer);
		pthread_mutex_unlock(&fgb_writegroup.mutex);
		pthread_cond_destroy(&writer.done_or_leader);
		fgb_count_event(run, self, asked, seen, fg_cycles_ordered());
	}
}

static int fgb_writegroup_prepare(const struct fgb_run *run)
{
	(void)run;
	fgb_writegroup.think.cycles_per_us = fgb_cycles_per_us();
	fgb_writegroup.write_cycles = fgb_us_to_cycles(fgb_writegroup.write_us);
	fgb_writegroup.member_cycles = fgb_us_to_cycles(fgb_writegroup.member_us);
	return 0;
}

static bool fgb_writegroup_adds_up(uint64_t ops)
{
	return fgb_writegroup.written == ops && !fgb_writegroup.first;
}

static uint64_t fgb_writegroup_locks(void)
{
	return 1;
}

static void fgb_writegroup_describe(void)
{
	fgb_json_real("write_us", fgb_writegroup.write_us);
	fgb_json_real("member_us", fgb_writegroup.member_us);
	fgb_json_count("group", fgb_writegroup.group);
	fgb_json_count("groups", fgb_writegroup.groups);
	fgb_think_describe(&fgb_writegroup.think);
}

static const struct fgb_option fgb_writegroup_options[] = {
	FGB_OPTION_REAL("--write-us", "a leader's work for its group", 0, 1e6, &fgb_writegroup.write_us),
	FGB_OPTION_REAL("--member-us", "and for each member, itself included", 0, 1e6, &fgb_writegroup.member_us),
	FGB_OPTION_NUMBER("--group", "members of a group at most", 1, 1e6, &fgb_writegroup.group),
	FGB_THINK_OPTIONS(&fgb_writegroup.think, "between two writes, at random, on average"),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_writegroup = {
	.name = "writegroup",
	.brief = "writers in groups: a leader does the work of the others; wait: until done, or until leader",
	.sample = 1,
	.own_loop = true,
	.options = fgb_writegroup_options,
	.prepare = fgb_writegroup_prepare,
	.loop = fgb_writegroup_loop,
	.adds_up = fgb_writegroup_adds_up,
	.locks = fgb_writegroup_locks,
	.describe = fgb_writegroup_describe,
};
