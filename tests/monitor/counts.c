/* SPDX-License-Identifier: MIT */
/* What the monitor counts under a lock is what happens. The witness is the kernel's own count of each thread's
 * involuntary switches, which knows nothing of locks. A real-time thread takes the CPU away every now and then:
 *
 *   - from a thread alone, which holds the lock or does not: each preemption inside is a preempted holder and a change
 *     to blocking, and none outside is counted;
 *   - from a waiter behind a lock that is held: it counts if the head waiter of the lock is critical, and only then.
 *
 *   counts WAITER [TAGS]     critical: the head waiter is, as long as it does not park; uncritical: it never is; parks:
 *                            it is, but may park at once. TAGS, on arm64: the holder's lock has an address with a tag,
 *                            which is `ignored` or `checked`
 *
 * Never more may be counted than happened. A round in which less was, or in which a preemption hit the instructions
 * around the lock, proves nothing (kernels leave out a switch's tracepoint now and then): half of the rounds must. */
#include FGI_LOCK_FILE

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "runtime/monitor.h"
#ifdef __aarch64__
#include "tests/arm64/tags.h"
#endif
#include "tests/check.h"

#define HOLDER_ROUNDS 50 /* exact ones */
#define WAITER_ROUNDS 3
#define WAITER_PREEMPTIONS 5 /* a round */
#define PREEMPTOR_PRIORITY 10
#define PREEMPT_EVERY_NS 50000u

enum waiter { CRITICAL, UNCRITICAL, PARKS };

struct counts {
	uint64_t holders, next_waiters, transitions;
};

static struct counts counted(void)
{
	const struct fg_shared *page = fg_load_relaxed(&fgi_monitor_page);
	struct fgi_preemptions preempted = fgi_preemptions();

	return (struct counts){preempted.holders, preempted.next_waiters, fg_load_relaxed(&page->mode_transitions)};
}

/* Of the calling thread. */
static uint64_t preemptions(void)
{
	struct rusage usage;

	ok(getrusage(RUSAGE_THREAD, &usage));
	return (uint64_t)usage.ru_nivcsw;
}

static uint64_t await_preemption(void)
{
	uint64_t before = preemptions(), now;

	while ((now = preemptions()) == before)
		;
	return now;
}

static void pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0, "pinning to CPU %d: %m", cpu);
}

/* The next after `cpu` that this process may use; the same, if it may use no other. */
static int next_cpu(int cpu)
{
	cpu_set_t set;

	ok(sched_getaffinity(0, sizeof(set), &set));
	do
		cpu = (cpu + 1) % CPU_SETSIZE;
	while (!CPU_ISSET(cpu, &set));
	return cpu;
}

static bool stop;

/* Takes the CPU that the creator of this thread is pinned to. */
static void *preemptor_main(void *argument)
{
	struct sched_param param = {.sched_priority = PREEMPTOR_PRIORITY};

	(void)argument;
	CHECK(sched_setscheduler(0, SCHED_FIFO, &param) == 0, "real-time policy: %m");
	ok(prctl(PR_SET_TIMERSLACK, 1));
	while (!fg_load_relaxed(&stop))
		fgi_nap(PREEMPT_EVERY_NS);
	return NULL;
}

/* ---- a holder ---- */

/* Returns whether all that happened was counted. A thread that takes the lock by a queue is its own head waiter for
 * some instructions. */
static bool holder_round(struct fg_lock *lock)
{
	uint64_t asked, locked, releasing, released, seen, heads;
	struct counts before = counted(), after;

	await_preemption();
	after = counted();
	CHECK_IS(after.holders + after.next_waiters, before.holders + before.next_waiters);
	asked = preemptions();
	fgi_lock(lock);
	locked = preemptions();
	releasing = await_preemption();
	fgi_unlock(lock);
	released = preemptions();
	before = after;
	after = counted();
	heads = after.next_waiters - before.next_waiters;
	seen = after.holders - before.holders + heads;
	CHECK(seen <= released - asked, "%lu counted, %lu preempted", (unsigned long)seen,
	      (unsigned long)(released - asked));
	CHECK(heads <= locked - asked, "%lu head waiters counted, %lu threads preempted that took the lock",
	      (unsigned long)heads, (unsigned long)(locked - asked));
	CHECK(after.transitions - before.transitions <= seen, "more changes to blocking than preempted threads");
	return heads == 0 && seen == releasing - locked && after.transitions - before.transitions == seen;
}

static struct fg_lock *place(const char *tags)
{
	static struct fg_lock lock;

	if (!tags)
		return &lock;
#ifdef __aarch64__
	return strcmp(tags, "ignored") == 0 ? tags_ignored(&lock) : tags_checked(sizeof(lock));
#else
	CHECK(!tags, "addresses have tags on arm64 only");
	return NULL;
#endif
}

static void check_holder(struct fg_lock *lock)
{
	pthread_t preemptor = check_thread(preemptor_main, NULL);
	int exact = 0, rounds = 0;

	while (exact < HOLDER_ROUNDS) {
		exact += holder_round(lock);
		CHECK(++rounds < 2 * HOLDER_ROUNDS, "only %d of %d rounds were counted rightly", exact, rounds);
	}
	fg_store_relaxed(&stop, true);
	check_join(preemptor);
	fg_store_relaxed(&stop, false);
}

/* ---- a waiter ---- */

struct waiting {
	struct fg_lock lock;
	int cpu;
	pthread_t thread;
	const struct fg_thread_block *block; /* NULL: it does not run yet */
};

static void *waiter_main(void *argument)
{
	struct waiting *w = argument;
	pthread_t preemptor;

	pin_to(w->cpu);
	preemptor = check_thread(preemptor_main, NULL);
	fgi_self();
	fg_store_release(&w->block, &fg_thread);
	fgi_lock(&w->lock);
	fgi_unlock(&w->lock);
	check_join(preemptor);
	return NULL;
}

static uint64_t preemptions_of(const struct waiting *w)
{
	static const char key[] = "\nnonvoluntary_ctxt_switches:";
	char path[64], text[8192];
	const char *found;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%u/status", w->block->self);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0, "%s: %m", path);
	length = read(fd, text, sizeof(text) - 1);
	CHECK(length > 0);
	close(fd);
	text[length] = 0;
	found = strstr(text, key);
	CHECK(found != NULL);
	return strtoull(found + sizeof(key) - 1, NULL, 10);
}

static uint64_t parks_of(const struct waiting *w)
{
	return fg_load_relaxed(&w->block->parks);
}

/* The monitor's counts, between two readings of what happened. */
struct look {
	uint64_t waiter_before, holder_before, counted, holder_after, waiter_after;
};

static struct look look(const struct waiting *w)
{
	struct look l;
	struct counts now;

	l.waiter_before = preemptions_of(w);
	l.holder_before = preemptions();
	now = counted();
	l.counted = now.holders + now.next_waiters;
	l.holder_after = preemptions();
	l.waiter_after = preemptions_of(w);
	return l;
}

/* Returns whether the round proves something: the waiter kept its place, and all that happened was counted. */
static bool judge(const struct look *a, const struct look *b, enum waiter waiter, bool parked)
{
	uint64_t seen = b->counted - a->counted;
	uint64_t least = b->holder_before - a->holder_after, most = b->holder_after - a->holder_before;

	if (waiter != UNCRITICAL) {
		least += b->waiter_before - a->waiter_after;
		most += b->waiter_after - a->waiter_before;
	}
	CHECK(seen <= most, "%lu counted, %lu preempted", (unsigned long)seen, (unsigned long)most);
	return seen >= least || parked || waiter == PARKS;
}

/* This thread, the holder, sleeps most of the time. */
static void check_waiter(int cpu, enum waiter waiter)
{
	int kept = 0, failed = 0;

	while (kept < WAITER_ROUNDS) {
		struct waiting w = {.cpu = cpu};
		struct look a, b;
		bool parked;

		fgi_lock(&w.lock);
		w.thread = check_thread(waiter_main, &w);
		while (!fg_load_acquire(&w.block) || (!fg_load_relaxed(&w.block->spins) && !parks_of(&w)))
			fgi_nap(10000);
		a = look(&w);
		while (preemptions_of(&w) < a.waiter_after + WAITER_PREEMPTIONS && !parks_of(&w))
			fgi_nap(10000);
		b = look(&w);
		parked = parks_of(&w) > 0;
		fg_store_relaxed(&stop, true);
		fgi_unlock(&w.lock);
		check_join(w.thread);
		fg_store_relaxed(&stop, false);
		failed += !judge(&a, &b, waiter, parked);
		CHECK(failed < WAITER_ROUNDS, "preempted head waiters were not counted");
		kept += !parked || waiter != CRITICAL;
	}
}

int main(int argc, char **argv)
{
	static const char *const waiters[] = {"critical", "uncritical", "parks"};
	int cpu = sched_getcpu(), waiter = 0;

	CHECK(argc == 2 || argc == 3, "usage: counts critical|uncritical|parks [ignored|checked]");
	while (strcmp(argv[1], waiters[waiter]) != 0)
		CHECK(++waiter < 3, "usage: counts critical|uncritical|parks");
	check_watchdog(300);
	fgi_self();
	CHECK(fgi_monitor_page != &fgi_no_monitor, "no monitor serves: %u", fgi_monitor_refusal());
	pin_to(cpu);
	check_holder(place(argv[2]));
	check_waiter(next_cpu(cpu), (enum waiter)waiter);
	return 0;
}
