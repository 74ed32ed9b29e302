/* SPDX-License-Identifier: MIT */
/* Is the advice right? A waiter asks about a thread of another process, which computes and sleeps in a section beside a
 * busy process on its CPU. When that thread has its CPU the kernel's perf events say, not the monitor. Prints how often
 * a waiter was sent to spin while the thread was off its CPU, and to sleep while it was on it; and the same of waiters
 * that always spin, that always yield, and that spin a thousand times and then sleep.
 * A kernel may hide a switch from all tracers (monitor/bpf/monitor.bpf.c): what a monitor says until the next one is
 * not the advice's fault. A tracepoint beside the perf events tells these switches apart; they are counted, not judged.
 *
 *   oracle [SAMPLES]
 *
 * Needs a monitor, two CPUs and perf events. */
#include <flexguard/advice.h>
#include <flexguard/monitor.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "runtime/arch/arch.h"
#include "runtime/clock.h"
#include "runtime/monitor.h"
#include "tests/check.h"

#define PAUSES 60        /* between two samples, some us: samples of many slices */
#define WAIT_NS 1000000u /* the waiter that spins a thousand times begins anew so often */
#define SPINS 1000u      /* and spins so often first */
#define TAKEN_NS 2000u   /* a sample that took longer was interrupted; beside other work the monitor may be late, too */
#define RING_PAGES 512u  /* a power of two */
#define SWITCHES 2000000u /* that fit, of the thread */
#define NAME "fg-oracle-work"
#define LEAST_SHARE 0.1 /* of SAMPLES with the thread on its CPU, and off it */
#define MOST_SPIN_OFF 0.01
#define MOST_SLEEP_ON 0.05

struct sample {
	uint64_t ns;
	uint32_t action;
};

struct change {
	uint64_t ns;
	bool on, traced;
};

/* What one perf event has recorded. */
struct ring {
	struct perf_event_mmap_page *pages;
	uint32_t lost;
};

static struct shared {
	fg_handle handle;
	uint32_t tid;
} * shared;

static struct change *changes;
static uint64_t *traced_ns; /* switches to the thread that tracers see */
static uint32_t n_changes, n_traced;
static struct ring switches, tracer;
static bool has_tracer;

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
	CHECK(prctl(PR_SET_NAME, NAME) == 0);
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

static int open_event(struct ring *ring, struct perf_event_attr *attr, pid_t tid, int cpu)
{
	int fd;

	attr->size = sizeof(*attr);
	attr->sample_type = PERF_SAMPLE_TIME;
	attr->use_clockid = 1;
	attr->clockid = CLOCK_MONOTONIC;
	fd = (int)syscall(SYS_perf_event_open, attr, tid, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -1;
	ring->pages = mmap(NULL, (RING_PAGES + 1) * 4096ul, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return ring->pages == MAP_FAILED ? -1 : fd;
}

/* Switches of the thread, as the kernel's perf events have them. */
static bool watch_switches(uint32_t tid)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_id_all = 1,
		.context_switch = 1,
		.exclude_kernel = 1,
	};

	return open_event(&switches, &attr, (pid_t)tid, -1) >= 0;
}

/* Switches to the thread, as tracers see them. */
static bool watch_tracepoint(int cpu)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_TRACEPOINT, .sample_period = 1};
	FILE *id = fopen("/sys/kernel/tracing/events/sched/sched_switch/id", "re");
	unsigned long long number;
	int fd;

	if (!id)
		return false;
	fd = fscanf(id, "%llu", &number);
	fclose(id);
	if (fd != 1)
		return false;
	attr.config = number;
	fd = open_event(&tracer, &attr, -1, cpu);
	return fd >= 0 && ioctl(fd, PERF_EVENT_IOC_SET_FILTER, "next_comm == \"" NAME "\"") == 0;
}

static void copy_from_ring(const struct ring *ring, void *to, uint64_t at, size_t bytes)
{
	const uint8_t *data = (const uint8_t *)ring->pages + ring->pages->data_offset;

	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)to)[i] = data[(at + i) % ring->pages->data_size];
}

static void take(const struct perf_event_header *head, uint64_t ns)
{
	if (head->type == PERF_RECORD_SWITCH && n_changes < SWITCHES)
		changes[n_changes++] = (struct change){.ns = ns, .on = !(head->misc & PERF_RECORD_MISC_SWITCH_OUT)};
	if (head->type == PERF_RECORD_SAMPLE && n_traced < SWITCHES)
		traced_ns[n_traced++] = ns;
}

static void drain(struct ring *ring)
{
	uint64_t head = __atomic_load_n(&ring->pages->data_head, __ATOMIC_ACQUIRE), tail = ring->pages->data_tail;

	while (tail < head) {
		struct {
			struct perf_event_header head;
			uint64_t ns;
		} record;

		copy_from_ring(ring, &record, tail, sizeof(record));
		CHECK(record.head.size >= sizeof(record.head));
		if (record.head.type == PERF_RECORD_LOST)
			ring->lost++;
		take(&record.head, record.ns);
		tail += record.head.size;
	}
	__atomic_store_n(&ring->pages->data_tail, tail, __ATOMIC_RELEASE);
}

static void drain_all(void)
{
	drain(&switches);
	if (has_tracer)
		drain(&tracer);
}

/* A tracer sees a switch shortly before the perf event, and after the thread's change before it. */
static uint32_t tell_hidden_apart(void)
{
	uint32_t hidden = 0;

	for (uint32_t i = 0, next = 0; i < n_changes; i++) {
		bool traced = false;

		for (; next < n_traced && traced_ns[next] <= changes[i].ns; next++)
			traced |= i == 0 || traced_ns[next] > changes[i - 1].ns;
		changes[i].traced = traced || !has_tracer || !changes[i].on;
		hidden += !changes[i].traced;
	}
	return hidden;
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

/* Takes n of them, and more where one kind is rare: beside other work the thread may have its CPU for a hundredth of
 * the time. Returns how many; `most` fit. */
static uint32_t take_samples(struct sample *samples, uint32_t n, uint32_t most, pid_t busy)
{
	struct fg_wait w = {.whom = shared->handle};
	uint32_t i = 0, spins = 0, least = (uint32_t)(1.2 * LEAST_SHARE * n);

	while (i < most && (i < n || spins < least || i - spins < least)) {
		uint64_t before = fgi_now_ns(CLOCK_MONOTONIC), after;
		struct fg_advice a = fg_wait_advice(&w);

		after = fgi_now_ns(CLOCK_MONOTONIC);
		if (after - before < TAKEN_NS && fg_load_relaxed(&fgi_monitor_page) != &fgi_no_monitor) {
			samples[i++] = (struct sample){before + (after - before) / 2, a.action};
			spins += a.action == FG_WAIT_SPIN;
		}
		w.looks = (w.looks + 1) % 1000;
		for (int k = 0; k < PAUSES; k++)
			fg_pause();
		if (i % 4096 == 0) {
			drain_all();
			balance(busy);
		}
	}
	return i;
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

/* Of n samples that were asked for. */
static void judge(const struct table *t, uint32_t n)
{
	uint64_t off = t->of[0][0] + t->of[0][1] + t->of[0][2], on = t->of[1][0] + t->of[1][1] + t->of[1][2];

	CHECK((double)off >= LEAST_SHARE * n && (double)on >= LEAST_SHARE * n, "off: %lu, on: %lu", (unsigned long)off,
	      (unsigned long)on);
	CHECK((double)t->of[0][FG_WAIT_SPIN] < MOST_SPIN_OFF * (double)off,
	      "spins behind a thread that is off its CPU");
	CHECK((double)t->of[1][FG_WAIT_SLEEP] < MOST_SLEEP_ON * (double)on, "sleeps behind a thread that runs");
}

static void compare(const struct sample *samples, uint32_t n, uint32_t asked)
{
	struct table ours = {.name = "the advice"}, spin = {.name = "always spin"}, yield = {.name = "always yield"},
		     thousand = {.name = "spin 1,000 times, then sleep"};
	uint64_t judged = 0, wait_begins = 0;
	uint32_t next = 0, looks = 0, hidden = tell_hidden_apart();

	for (uint32_t i = 0; i < n; i++) {
		const struct sample *s = &samples[i];
		bool on;

		while (next < n_changes && changes[next].ns <= s->ns)
			next++;
		if (next == 0 || next == n_changes || !changes[next - 1].traced)
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
	printf("%lu samples, %u switches (%u hidden from tracers), %lu with the thread off its CPU\n",
	       (unsigned long)judged, n_changes, hidden,
	       (unsigned long)(ours.of[0][0] + ours.of[0][1] + ours.of[0][2]));
	printf("| %% | off: spin | yield | sleep | on: spin | yield | sleep |\n");
	print(&ours);
	print(&spin);
	print(&yield);
	print(&thousand);
	fflush(stdout);
	CHECK(switches.lost == 0 && tracer.lost == 0 && n_changes < SWITCHES, "switches were lost");
	judge(&ours, asked);
}

static int skip(const char *why)
{
	printf("skipped: %s\n", why);
	return 77;
}

int main(int argc, char **argv)
{
	uint32_t n = argc > 1 ? (uint32_t)atoi(argv[1]) : 200000, most = 50 * n, taken;
	struct sample *samples;
	cpu_set_t allowed;
	int cpus[2], found = 0;
	pid_t busy;

	check_watchdog(500);
	CHECK(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
	for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			cpus[found++] = cpu;
	if (found < 2)
		return skip("one CPU");
	CHECK(fg_monitor_attached(), "%s", fg_strerror(fg_monitor_error()));
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	changes = calloc(SWITCHES, sizeof(*changes));
	traced_ns = calloc(SWITCHES, sizeof(*traced_ns));
	CHECK(shared != MAP_FAILED && changes && traced_ns);
	has_tracer = watch_tracepoint(cpus[1]);
	(void)setpriority(PRIO_PROCESS, 0, -20); /* if it may: beside other work the three have the CPUs long enough */
	start(work, cpus[1]);
	busy = start(hog, cpus[1]);
	pin(cpus[0]);
	while (!__atomic_load_n(&shared->handle, __ATOMIC_ACQUIRE))
		sched_yield();
	if (!watch_switches(shared->tid))
		return skip("no perf events");
	samples = calloc(most, sizeof(*samples));
	CHECK(samples);
	taken = take_samples(samples, n, most, busy);
	usleep(20000); /* so that the last sample has a change behind it, unless the thread sleeps */
	drain_all();
	compare(samples, taken, n);
	free(samples);
	return 0;
}
