/* SPDX-License-Identifier: MIT */
#include "runtime/monitor.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/clock.h"
#include "runtime/connection.h"
#include "runtime/futex.h"
#include "runtime/sandbox.h"
#include "runtime/thread.h"

const struct fg_shared fgi_no_monitor __attribute__((aligned(FG_CACHE_LINE)));
const struct fg_shared *fgi_monitor_page = &fgi_no_monitor;
const uint32_t *fgi_preempted_counter = &fgi_no_monitor.num_preempted_cs;
const uint32_t *fgi_off_cpu = fgi_no_monitor.off_cpu;
const uint32_t *fgi_off_cpu_notes;
const struct fg_cpu *fgi_cpu_lines;

/* A monitor's page, and what the domain of this process has there. */
struct view {
	const struct fg_shared *page;
	const uint32_t *counter, *off_cpu, *notes;
	const struct fg_cpu *cpus;
};

static const struct view nowhere = {&fgi_no_monitor, &fgi_no_monitor.num_preempted_cs, fgi_no_monitor.off_cpu, NULL,
				    NULL};

/* While registered, whether the monitor lives or not; `page` is NULL before. A thread that finds parts of two views may
 * look at them: each is mapped for ever. */
static struct view attached = {NULL, &fgi_no_monitor.num_preempted_cs, fgi_no_monitor.off_cpu, NULL, NULL};

/* What to take from this process's CLOCK_MONOTONIC to get the one of the heartbeat: 0 but in a time namespace. */
static int64_t clock_skew_ns;

/* A signal handler that locks must not find a registration half done by its own thread, and a cancellation must not
 * end the thread in one. Left out: a sandbox may answer system calls by SIGSYS, and kills if it is blocked; and libc's
 * other threads wait for the one by which a process changes its user. */
static uint64_t block_signals(void)
{
	return fgi_system_sigmask(~(FGI_SIGNAL(SIGSYS) | FGI_SIGNAL_SETXID));
}

/* What came of the registration: 0, or an errno number (runtime/monitor.h). */
static uint32_t refusal = EINPROGRESS;

/* Where to register. Read from the environment once, since the program may change it while threads run. */
static struct {
	struct fgi_address address;
	bool again;          /* FLEXGUARD_RECONNECT is 1 */
	bool once;           /* it is 0 */
	uint32_t connect_ms; /* for a place in the monitor's backlog, at a time */
	uint32_t wait_ms;    /* for the answer */
} target;

/* Once the first registration is over: target.again, or that one is postponed (is_postponed). */
static uint32_t may_reconnect;

static bool is_set_to(const char *variable, const char *wanted)
{
	const char *value = secure_getenv(variable);

	return value && strcmp(value, wanted) == 0;
}

static uint32_t find_wait_ms(void)
{
	if (is_set_to(FGI_REQUIRE_ENV, "1"))
		return FGI_REQUIRED_TIMEOUT_MS;
	return is_set_to(FGI_LOADING_ENV, "1") && !target.once ? FGI_LOADING_TIMEOUT_MS : FGI_REGISTER_TIMEOUT_MS;
}

/* Returns 0, or why there is nowhere to register. */
static uint32_t find_target(void)
{
	const char *name = secure_getenv(FG_SOCKET_ENV);
	uint32_t why;

	target.again = is_set_to(FGI_RECONNECT_ENV, "1");
	target.once = is_set_to(FGI_RECONNECT_ENV, "0");
	target.wait_ms = find_wait_ms();
	target.connect_ms = target.wait_ms < FGI_REGISTER_TIMEOUT_MS ? target.wait_ms : FGI_REGISTER_TIMEOUT_MS;
	why = fgi_address_set(&target.address, name ? name : FG_SOCKET_DEFAULT);
	if (why == 0 && fgi_sandbox_look())
		why = EOPNOTSUPP;
	if (why)
		target.address.length = 0;
	return why;
}

/* Returns a socket on which a registration is on its way, or -1, with the reason in `refusal`. */
static int request(uint32_t ms)
{
	uint32_t why;
	int fd = fgi_connection_open(&target.address, ms, &why);

	if (fd < 0)
		fg_store_release(&refusal, why);
	return fd;
}

/* From now on this process looks there. Two threads may do so at once, for two pages: the next look at the heartbeat
 * sets right what they leave. */
static void look_at(struct view v)
{
	if (fg_load_relaxed(&fgi_monitor_page) == v.page && fg_load_relaxed(&fgi_preempted_counter) == v.counter &&
	    fg_load_relaxed(&fgi_off_cpu) == v.off_cpu && fg_load_relaxed(&fgi_off_cpu_notes) == v.notes &&
	    fg_load_relaxed(&fgi_cpu_lines) == v.cpus)
		return;
	fg_store_release(&fgi_preempted_counter, v.counter);
	fg_store_release(&fgi_off_cpu, v.off_cpu);
	fg_store_release(&fgi_off_cpu_notes, v.notes);
	fg_store_release(&fgi_cpu_lines, v.cpus);
	fg_store_release(&fgi_monitor_page, v.page);
}

static void attach_to(struct view v)
{
	fg_store_relaxed(&attached.page, v.page);
	fg_store_relaxed(&attached.counter, v.counter);
	fg_store_relaxed(&attached.off_cpu, v.off_cpu);
	fg_store_relaxed(&attached.notes, v.notes);
	fg_store_relaxed(&attached.cpus, v.cpus);
	look_at(v.page ? v : nowhere);
}

/* For domain 0 the page alone will do. Notes and CPUs need the whole. */
static struct view view_of(const struct fg_shared *page, uint32_t domain, bool whole)
{
	const struct fg_published *all = (const struct fg_published *)page;
	const uint32_t *notes = whole ? all->off_cpu_notes[domain] : NULL;
	const struct fg_cpu *cpus = whole ? all->cpus : NULL;

	if (domain == 0)
		return (struct view){page, &page->num_preempted_cs, page->off_cpu, notes, cpus};
	return (struct view){page, &all->domains[domain].num_preempted_cs, all->off_cpu[domain], notes, cpus};
}

static void attach(const struct fg_shared *page, uint32_t domain, bool whole, uint64_t now_ns)
{
	int64_t age = (int64_t)(now_ns - fg_load_relaxed(&page->heartbeat_ns));
	bool same_clock = age > -(int64_t)FG_HEARTBEAT_DEAD_NS && age < (int64_t)FG_HEARTBEAT_DEAD_NS;

	fg_store_relaxed(&clock_skew_ns, same_clock ? 0 : age);
	attach_to(view_of(page, domain, whole));
}

/* Attaches to the page that came with the reply, if one did. An older page stays mapped: a thread may be reading it. */
static void take_reply(int fd, uint64_t now_ns)
{
	const struct fg_shared *page;
	bool whole;
	uint32_t domain, why = fgi_connection_answer(fd, &page, &domain, &whole);

	if (why == 0)
		attach(page, domain, whole, now_ns);
	fg_store_release(&refusal, why);
}

static int ms_until(uint64_t deadline_ns)
{
	uint64_t now_ns = fgi_now_ns(CLOCK_MONOTONIC);

	return now_ns < deadline_ns ? (int)((deadline_ns - now_ns) / 1000000) : 0;
}

/* All signals are blocked during a registration. Is one pending that the program does not block? */
static bool signal_waits(uint64_t blocked)
{
	return (fgi_system_sigpending() & ~blocked) != 0;
}

/* A registration that is under way while threads wait for locks. A thread that finds it `busy` leaves it to the
 * other. */
static struct {
	uint32_t busy;
	uint64_t due_ns; /* when to go on; all threads read it, the one that set `busy` writes it */
	uint64_t give_up_ns;
	bool open;
	int fd;
	ino_t inode; /* of the socket: the program may close descriptors it does not know, and use their numbers */

	uint32_t refusals; /* one after the other */
} dialogue;

#define BUSY_NAP_NS 50000u

static void keep_dialogue(int fd, uint64_t now_ns, uint64_t at_most_ns);
static void hang_up(void);

/* Waits in steps of FGI_REGISTER_TIMEOUT_MS, of which a signal ends the next. A late answer is left to a waiter
 * (fgi_monitor_alive). */
static void register_image(uint64_t blocked)
{
	uint64_t deadline_ns = fgi_now_ns(CLOCK_MONOTONIC) + target.wait_ms * 1000000ull;
	int fd = request(target.connect_ms), ms;
	bool ready;

	while (fd < 0 && fg_load_relaxed(&refusal) == ETIMEDOUT && ms_until(deadline_ns) > 0 && !signal_waits(blocked))
		fd = request(target.connect_ms);
	if (fd < 0)
		return;
	/* From here on a child that another thread forks closes its copy. */
	keep_dialogue(fd, fgi_now_ns(CLOCK_MONOTONIC), target.wait_ms * 1000000ull + FGI_LATE_ANSWER_NS);
	do {
		ms = ms_until(deadline_ns);
		ready = fgi_connection_readable(dialogue.fd,
						ms < FGI_REGISTER_TIMEOUT_MS ? ms : FGI_REGISTER_TIMEOUT_MS);
	} while (!ready && ms > FGI_REGISTER_TIMEOUT_MS && !signal_waits(blocked));
	if (ready)
		take_reply(dialogue.fd, fgi_now_ns(CLOCK_MONOTONIC));
	else
		fg_store_release(&refusal, ETIMEDOUT);
	if (ready || target.once)
		hang_up();
}

uint32_t fgi_monitor_refusal(void)
{
	return fg_load_acquire(&refusal); /* pairs with the stores of take_reply, request and register_image */
}

static bool dialogue_is_ours(void)
{
	return dialogue.open && fgi_connection_inode(dialogue.fd) == dialogue.inode;
}

static void hang_up(void)
{
	if (dialogue_is_ours())
		fgi_connection_close(dialogue.fd);
	dialogue.open = false;
}

/* Has a monitor said so? One that hangs up is restarted. */
static bool is_refused(void)
{
	uint32_t why = fg_load_relaxed(&refusal);

	return why != 0 && why != EPROTO && why != ECONNRESET;
}

/* It may be otherwise later. The monitor was too busy, for its answer to come in time or for this user; it was
 * restarted; or something was used up: this user's share, or memory. */
static bool is_postponed(void)
{
	switch (fg_load_relaxed(&refusal)) {
	case ETIMEDOUT:
	case EAGAIN:
	case EBUSY:
	case ECONNRESET:
	case EDQUOT:
	case ETOOMANYREFS:
	case EIO:
	case ENOMEM:
		return true;
	default:
		return false;
	}
}

/* A monitor that refuses is asked half as often after each refusal: it has its reasons, and other clients. */
static uint64_t next_attempt(uint64_t now_ns)
{
	return now_ns + (FGI_RECONNECT_NS << (dialogue.refusals < FGI_RECONNECT_DOUBLINGS ? dialogue.refusals
											  : FGI_RECONNECT_DOUBLINGS));
}

static void keep_dialogue(int fd, uint64_t now_ns, uint64_t at_most_ns)
{
	dialogue.fd = fgi_connection_out_of_the_way(fd);
	dialogue.inode = fgi_connection_inode(dialogue.fd);
	dialogue.open = true;
	dialogue.give_up_ns = now_ns + at_most_ns;
}

/* Returns when to go on. */
static uint64_t begin_dialogue(uint64_t now_ns)
{
	int fd = request(0);

	if (fd < 0)
		return next_attempt(now_ns);
	keep_dialogue(fd, now_ns, FGI_REGISTER_TIMEOUT_MS * 1000000ull);
	return now_ns + FGI_REPLY_LOOK_NS;
}

static uint64_t go_on_with_dialogue(uint64_t now_ns)
{
	if (dialogue_is_ours()) {
		if (fgi_connection_readable(dialogue.fd, 0)) {
			take_reply(dialogue.fd, now_ns);
			dialogue.refusals = is_refused() ? dialogue.refusals + 1 : 0;
		} else if (now_ns < dialogue.give_up_ns) {
			return now_ns + FGI_REPLY_LOOK_NS;
		}
	}
	hang_up();
	return next_attempt(now_ns);
}

__attribute__((noinline, cold)) static void reconnect(uint64_t now_ns)
{
	uint64_t mask;

	/* A vfork child has its parent's memory, but descriptors of its own. */
	if (!fgi_is_own_memory() || fg_xchg_acquire(&dialogue.busy, 1))
		return;
	if (now_ns >= fg_load_relaxed(&dialogue.due_ns)) { /* again: another thread may have been here since */
		mask = block_signals();
		fg_store_relaxed(&dialogue.due_ns,
				 dialogue.open ? go_on_with_dialogue(now_ns) : begin_dialogue(now_ns));
		if (!target.again && !dialogue.open && !is_postponed())
			fg_store_relaxed(&may_reconnect, 0); /* it is registered, or has another reason not to be */
		fgi_system_sigmask(mask);
	}
	fg_store_release(&dialogue.busy, 0); /* pairs with the exchange above, by the next thread */
}

void fgi_monitor_before_sandbox(void)
{
	uint64_t mask;

	if (target.again || !fg_load_acquire(&may_reconnect) || !fgi_is_own_memory())
		return;
	mask = block_signals();
	/* The other thread may wait for this CPU, and a yield of a real-time thread would not let it run. */
	while (fg_xchg_acquire(&dialogue.busy, 1))
		fgi_nap(BUSY_NAP_NS);
	if (dialogue_is_ours() && fgi_connection_readable(dialogue.fd, FGI_REGISTER_TIMEOUT_MS))
		take_reply(dialogue.fd, fgi_now_ns(CLOCK_MONOTONIC));
	hang_up();
	fg_store_relaxed(&may_reconnect, 0);
	fg_store_release(&dialogue.busy, 0);
	fgi_system_sigmask(mask);
}

/* The first registration of this process, by the first thread that begins it. */
static uint32_t first;
enum first { NOT_BEGUN, UNDER_WAY, OVER };

/* The parent's registration counts for the child; one that is under way does not. If it was the first, another thread
 * made it, and the child lacks that thread. */
void fgi_monitor_after_fork(void)
{
	hang_up();
	dialogue.busy = 0;
	dialogue.due_ns = 0;
	if (first == UNDER_WAY) {
		bool by_a_waiter = target.address.length && !target.once;

		refusal = EINPROGRESS;
		may_reconnect = by_a_waiter;
		first = by_a_waiter ? OVER : NOT_BEGUN;
	}
}

void fgi_monitor_attach(const struct fg_shared *page)
{
	attach_to(page ? view_of(page, 0, false) : (struct view){NULL, nowhere.counter, nowhere.off_cpu, NULL, NULL});
}

void fgi_monitor_attach_cpus(const struct fg_shared *page, const struct fg_cpu *cpus)
{
	struct view v = view_of(page, 0, false);

	v.cpus = cpus;
	attach_to(v);
}

void fgi_monitor_attach_all(const struct fg_published *all, uint32_t domain)
{
	attach_to(view_of(&all->page, domain, true));
}

void fgi_process_init(void)
{
	uint64_t mask;
	uint32_t why;

	/* A second thread does not wait: until the first has registered, the process runs without a monitor. */
	if (fg_load_relaxed(&first) || fg_xchg_relaxed(&first, UNDER_WAY))
		return;
	why = find_target();
	if (why) {
		fg_store_release(&refusal, why);
		fg_store_release(&first, OVER);
		return;
	}
	mask = block_signals();
	register_image(mask);
	dialogue.due_ns = fgi_now_ns(CLOCK_MONOTONIC) + (dialogue.open ? FGI_REPLY_LOOK_NS : FGI_RECONNECT_NS);
	/* release: pairs with the acquire in fgi_monitor_alive */
	fg_store_release(&may_reconnect, target.again || (is_postponed() && !target.once));
	fg_store_release(&first, OVER);
	fgi_system_sigmask(mask);
}

bool fgi_monitor_alive(uint64_t now_ns)
{
	struct view v = {.page = fg_load_relaxed(&attached.page)};
	uint64_t beat = v.page ? fg_load_relaxed(&v.page->heartbeat_ns) : 0;
	/* A beat may be later than `now`, which was read before. */
	int64_t age = (int64_t)(now_ns - beat) - fg_load_relaxed(&clock_skew_ns);
	bool alive = beat != 0 && age < (int64_t)FG_HEARTBEAT_DEAD_NS;

	if (alive) {
		v.counter = fg_load_relaxed(&attached.counter);
		v.off_cpu = fg_load_relaxed(&attached.off_cpu);
		v.notes = fg_load_relaxed(&attached.notes);
		v.cpus = fg_load_relaxed(&attached.cpus);
		look_at(v);
	} else if (v.page) {
		look_at(nowhere);
	}
	if (!alive && fg_unlikely(fg_load_acquire(&may_reconnect)) && now_ns >= fg_load_relaxed(&dialogue.due_ns))
		reconnect(now_ns);
	return alive;
}
