/* SPDX-License-Identifier: MIT */
/* The default lock and the calls by which the model drives it. src/order.h and src/hooks.rs say what stands for the
 * rest of the machine, build.rs which constants of the lock are smaller here. */
#include "lock/default/flexguard.inc.h"

#include "runtime/deadline.c"
#include "runtime/spin_budget.c"
#include "src/model.h"

__thread struct fg_thread_block fg_thread __attribute__((aligned(FG_CACHE_LINE)));
uint32_t fgi_forks;

/* Every thread releases what it took. */
uint32_t fgi_foreign_notes;

void fgi_foreign_release(const uint32_t *word)
{
	(void)word;
}

void fgi_foreign_settle(void)
{
}

const struct fg_shared fgi_no_monitor;

/* For the thread of the system on which a model runs. */
static __thread struct {
	const struct fg_shared *page;
	const struct fg_cpu *lines;
	bool real_time;
	uint32_t cpus;
} fgo_says = {.page = &fgi_no_monitor};

const struct fg_shared **fgo_monitor_page(void)
{
	return &fgo_says.page;
}

const uint32_t **fgo_preempted_counter(void)
{
	static __thread const uint32_t *counter;

	counter = &fgo_says.page->num_preempted_cs;
	return &counter;
}

const uint32_t **fgo_off_cpu(void)
{
	static __thread const uint32_t *off_cpu;

	off_cpu = fgo_says.page->off_cpu;
	return &off_cpu;
}

const struct fg_cpu **fgo_cpu_lines(void)
{
	return &fgo_says.lines;
}

/* The clock goes on by 1 ms with each look: to the lock each yield without a monitor looks as if others competed. */
static uint64_t *fgo_others_compete_until()
{
	static __thread uint64_t until;

	return &until;
}

static uint32_t *fgo_cpus()
{
	return &fgo_says.cpus;
}

/* Whatever CPU a thread is on, it is one of these. */
static uint64_t (*fgo_cpu_set())[16]
{
	static __thread uint64_t set[16] = {[0 ... 15] = UINT64_MAX};

	return &set;
}

bool fgi_monitor_alive(uint64_t now_ns)
{
	(void)now_ns;
	return fgo_says.page != &fgi_no_monitor;
}

int fgo_policy(void)
{
	return fgo_says.real_time ? SCHED_FIFO : SCHED_OTHER;
}

/* arm64's release is one atomic operation, so there is nothing that an interrupt would have to hurry. */
bool fgi_membarrier(void)
{
	return true;
}

/* The model sets `self` where it starts a thread. */
uint32_t fgi_thread_init(void)
{
	return fg_thread.self;
}

struct fgo {
	struct fg_lock lock;
	uint32_t data; /* what the lock protects */
} __attribute__((aligned(16)));

static struct fgo fgo_locks[FGO_OBJECTS];
static struct fg_shared fgo_pages[FGO_OBJECTS];
static struct fg_cpu fgo_lines[FGO_OBJECTS]; /* a machine of one CPU each */

/* The nth lock, new. */
struct fgo *fgo_new(uint32_t n, const struct fgo_setup *setup)
{
	struct fgo *o = &fgo_locks[n];
	struct fg_shared *page = &fgo_pages[n];

	*o = (struct fgo){.lock.waiters = setup->hot ? FGI_HOT : 0};
	*page = (struct fg_shared){.cpus_seen = 1};
	fgo_lines[n] = (struct fg_cpu){.idle = setup->idle};
	for (uint32_t tid = 1; setup->asleep && tid < 8; tid++)
		page->off_cpu[fg_off_cpu_place(tid)] = tid;
	fgo_says.page = setup->monitored ? page : &fgi_no_monitor;
	fgo_says.lines = setup->monitored ? &fgo_lines[n] : NULL;
	fgo_says.real_time = setup->real_time;
	fgo_says.cpus = setup->watched ? 64 : 2;
	fgi_others_compete_until = 0;
	*fgi_pace_of(o) = (struct fgi_pace){0};
	return o;
}

/* What threads share of it. */
size_t fgo_places(struct fgo *o, struct fgo_place *places)
{
	size_t n = 0;

	places[n++] = (struct fgo_place){&o->lock.word, sizeof(o->lock.word)};
	places[n++] = (struct fgo_place){&o->lock.ops, sizeof(o->lock.ops)};
	places[n++] = (struct fgo_place){&o->lock.waiters, sizeof(o->lock.waiters)};
	places[n++] = (struct fgo_place){&o->lock.turn, sizeof(o->lock.turn)};
	places[n++] = (struct fgo_place){&o->data, sizeof(o->data)};
	return n;
}

/* ---- what a thread of the model may do -------------------------------------------------------------------------- */

struct fg_thread_block *fgo_thread(void)
{
	return &fg_thread;
}

void fgo_touch(struct fgo *o)
{
	o->data++;
}

void fgo_lock(struct fgo *o)
{
	fgi_lock(&o->lock);
}

bool fgo_trylock(struct fgo *o)
{
	return fgi_trylock(&o->lock);
}

void fgo_unlock(struct fgo *o)
{
	fgi_unlock(&o->lock);
}

/* With a deadline that has passed. */
int fgo_timedlock(struct fgo *o)
{
	return fgi_timedlock(&o->lock, FGI_DEADLINE(CLOCK_MONOTONIC, &(struct timespec){0}));
}
