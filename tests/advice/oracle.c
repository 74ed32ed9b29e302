/* SPDX-License-Identifier: MIT */
/* Is the advice right? A waiter asks about a thread of another process, which computes and sleeps in a section beside a
 * busy process on its CPU. When that thread has its CPU the kernel's perf events say, not the monitor. Prints how often
 * a waiter was sent to spin while the thread was off its CPU, and to sleep while it was on it; and the same of waiters
 * that always spin, that always yield, and that spin a thousand times and then sleep.
 *
 *   oracle [SAMPLES]
 *
 * Needs a monitor, two CPUs and perf events. */
#include <flexguard/advice.h>
#include <flexguard/monitor.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "runtime/arch/arch.h"
#include "runtime/clock.h"
#include "tests/check.h"

#define PAUSES 60         /* between two samples, some us: samples of many slices */
#define WAIT_NS 1000000u  /* the waiter that spins a thousand times begins anew so often */
#define SPINS 1000u       /* and spins so often first */
#define TAKEN_NS 2000u    /* a sample that took longer was interrupted */
#define RING_PAGES 512u   /* a power of two */
#define SWITCHES 2000000u /* that fit, of the thread */
#define LEAST_SHARE 0.1   /* of samples with the thread on its CPU, and off it */
#define MOST_SPIN_OFF 0.01
#define MOST_SLEEP_ON 0.05

struct sample {
	uint64_t ns;
	uint32_t action;
};

struct change {
	uint64_t ns;
	bool on;
};

static struct shared {
	fg_handle handle;
	uint32_t tid;
} * shared;

static struct change *changes;
static uint32_t n_changes, lost;
static struct perf_event_mmap_page *ring;

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	CHECK(sched_setaffinity(0, sizeof(set), &set) == 0, "%m");
}

static pid_t start(void (*play)(int), int cpu)
{
	pid_t child = fork();

	CHECK(child >= 0, "%m");
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(cpu);
	play(cpu);
	_exit(0);
}

static void hog(int cpu)
{
	(void)cpu;
	for (;;)
		__asm__ volatile("");
}

static void compute(uint64_t ns)
{
	uint64_t begin = fgi_now_ns(CLOCK_THREAD_CPUTIME_ID);

	while (fgi_now_ns(CLOCK_THREAD_CPUTIME_ID) - begin < ns)
		for (int i = 0; i < 1000; i++)
			__asm__ volatile("");
}

/* The thread that is waited for. */
static void work(int cpu)
{
	uint32_t seed = 2463534242;

	(void)cpu;
	(void)setpriority(PRIO_PROCESS, 0, -5); /* if it may: beside other work it has its CPU long enough */
	__atomic_store_n(&shared->tid, (uint32_t)gettid(), __ATOMIC_RELAXED);
	__atomic_store_n(&shared->handle, fg_thread_handle(), __ATOMIC_RELEASE);
	for (;;) {
		struct timespec pause = {.tv_nsec = 200000 + random_from(&seed) % 2000000};

		fg_section_begin();
		compute(200000 + random_from(&seed) % 3000000);
		if (random_from(&seed) % 4 == 0)
			nanosleep(&pause, NULL);
		compute(200000 + random_from(&seed) % 3000000);
		fg_section_end();
	}
}

/* Switches of the thread, as the kernel's perf events have them, by CLOCK_MONOTONIC. */
static bool watch(uint32_t tid)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.context_switch = 1,
		.exclude_kernel = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd < 0)
		return false;
	ring = mmap(NULL, (RING_PAGES + 1) * 4096ul, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return ring != MAP_FAILED;
}

static void copy_from_ring(void *to, uint64_t at, size_t bytes)
{
	const uint8_t *data = (const uint8_t *)ring + ring->data_offset;

	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)to)[i] = data[(at + i) % ring->data_size];
}

static void drain(void)
{
	uint64_t head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE), tail = ring->data_tail;

	while (tail < head) {
		struct {
			struct perf_event_header head;
			uint64_t ns;
		} record;

		copy_from_ring(&record, tail, sizeof(record));
		CHECK(record.head.size >= sizeof(record.head));
		if (record.head.type == PERF_RECORD_LOST)
			lost++;
		if (record.head.type == PERF_RECORD_SWITCH && n_changes < SWITCHES)
			changes[n_changes++] =
				(struct change){record.ns, !(record.head.misc & PERF_RECORD_MISC_SWITCH_OUT)};
		tail += record.head.size;
	}
	__atomic_store_n(&ring->data_tail, tail, __ATOMIC_RELEASE);
}

/* How much of the time the thread has had its CPU, so far. */
static double share_on(void)
{
	uint64_t on = 0;

	for (uint32_t i = 1; i < n_changes; i++)
		if (changes[i - 1].on)
			on += changes[i].ns - changes[i - 1].ns;
	return n_changes > 1 ? (double)on / (double)(changes[n_changes - 1].ns - changes[0].ns) : 0.5;
}

/* Whatever else the machine does, there shall be samples of both kinds. */
static void balance(pid_t busy)
{
	CHECK(kill(busy, share_on() < 0.5 ? SIGSTOP : SIGCONT) == 0, "%m");
}

static void take_samples(struct sample *samples, uint32_t n, pid_t busy)
{
	struct fg_wait w = {.whom = shared->handle};

	for (uint32_t i = 0; i < n;) {
		uint64_t before = fgi_now_ns(CLOCK_MONOTONIC), after;
		struct fg_advice a = fg_wait_advice(&w);

		after = fgi_now_ns(CLOCK_MONOTONIC);
		if (after - before < TAKEN_NS)
			samples[i++] = (struct sample){before + (after - before) / 2, a.action};
		w.looks = (w.looks + 1) % 1000;
		for (int k = 0; k < PAUSES; k++)
			fg_pause();
		if (i % 4096 == 0) {
			drain();
			balance(busy);
		}
	}
}

/* By whether the thread was on its CPU, and by enum fg_wait_action. */
struct table {
	const char *name;
	uint64_t of[2][3];
};

static void print(const struct table *t)
{
	uint64_t off = 0, on = 0;

	for (int a = 0; a < 3; a++) {
		off += t->of[0][a];
		on += t->of[1][a];
	}
	printf("| %s |", t->name);
	for (int a = 0; a < 3; a++)
		printf(" %.3f |", 100.0 * (double)t->of[0][a] / (double)off);
	for (int a = 0; a < 3; a++)
		printf(" %.3f |", 100.0 * (double)t->of[1][a] / (double)on);
	putchar('\n');
}

static void judge(const struct table *t)
{
	uint64_t off = t->of[0][0] + t->of[0][1] + t->of[0][2], on = t->of[1][0] + t->of[1][1] + t->of[1][2];
	double all = (double)(off + on);

	CHECK((double)off >= LEAST_SHARE * all && (double)on >= LEAST_SHARE * all, "off: %lu, on: %lu",
	      (unsigned long)off, (unsigned long)on);
	CHECK((double)t->of[0][FG_WAIT_SPIN] < MOST_SPIN_OFF * (double)off,
	      "spins behind a thread that is off its CPU");
	CHECK((double)t->of[1][FG_WAIT_SLEEP] < MOST_SLEEP_ON * (double)on, "sleeps behind a thread that runs");
}

static void compare(const struct sample *samples, uint32_t n)
{
	struct table ours = {.name = "the advice"}, spin = {.name = "always spin"}, yield = {.name = "always yield"},
		     thousand = {.name = "spin 1,000 times, then sleep"};
	uint64_t judged = 0, wait_begins = 0;
	uint32_t next = 0, looks = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct sample *s = &samples[i];
		bool on;

		while (next < n_changes && changes[next].ns <= s->ns)
			next++;
		if (next == 0 || next == n_changes)
			continue; /* before the first change, and after the last, nothing is known */
		on = changes[next - 1].on;
		if (s->ns - wait_begins >= WAIT_NS) {
			wait_begins = s->ns;
			looks = 0;
		}
		/* Between two samples it would have looked PAUSES times. */
		looks += PAUSES;
		ours.of[on][s->action]++;
		spin.of[on][FG_WAIT_SPIN]++;
		yield.of[on][FG_WAIT_YIELD]++;
		thousand.of[on][looks <= SPINS ? FG_WAIT_SPIN : FG_WAIT_SLEEP]++;
		judged++;
	}
	printf("%lu samples, %u switches, %lu with the thread off its CPU\n", (unsigned long)judged, n_changes,
	       (unsigned long)(ours.of[0][0] + ours.of[0][1] + ours.of[0][2]));
	printf("| %% | off: spin | yield | sleep | on: spin | yield | sleep |\n");
	print(&ours);
	print(&spin);
	print(&yield);
	print(&thousand);
	CHECK(lost == 0 && n_changes < SWITCHES, "switches were lost");
	judge(&ours);
}

static int skip(const char *why)
{
	printf("skipped: %s\n", why);
	return 77;
}

int main(int argc, char **argv)
{
	uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 200000;
	struct sample *samples;
	cpu_set_t allowed;
	int cpus[2], found = 0;
	pid_t busy;

	check_watchdog(100);
	CHECK(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			cpus[found++] = cpu;
	if (found < 2)
		return skip("one CPU");
	CHECK(fg_monitor_attached(), "%s", fg_strerror(fg_monitor_error()));
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	changes = calloc(SWITCHES, sizeof(*changes));
	CHECK(shared != MAP_FAILED && changes);
	start(work, cpus[1]);
	busy = start(hog, cpus[1]);
	pin(cpus[0]);
	while (!__atomic_load_n(&shared->handle, __ATOMIC_ACQUIRE))
		sched_yield();
	if (!watch(shared->tid))
		return skip("no perf events");
	samples = calloc(n, sizeof(*samples));
	CHECK(samples);
	take_samples(samples, n, busy);
	usleep(20000); /* so that the last sample has a change behind it, unless the thread sleeps */
	drain();
	compare(samples, n);
	free(samples);
	return 0;
}
