/* SPDX-License-Identifier: MIT */
/* u-SCL, the scheduler-cooperative user-space lock (Patel et al., EuroSys 2020; section 2.2).
 *
 * A contended lock is lent out in lock slices of 2 ms. Within a lock slice its owner takes and releases the lock as it
 * likes, undisturbed, and is charged for all of it. Then the thread is banned from the lock until the threads that wait
 * have had their shares, in proportion to the weights of their nice values. (A lock slice has nothing to do with the
 * scheduler's time slices.)
 *
 *   word      locks/parts/owner_word.h: 0 free, or the owner's tid
 *   extended  0: never contended, no lock slices yet; else the struct lock_slice below (locks/parts/extended.h)
 *   queue     the MCS tail; states of a node: locks/parts/spin_then_park.h
 *
 *   slice owner  slice end   which thread may take the free word
 *   0            -           the head of the queue, or an arriving thread while there is no queue
 *   tid          to come     tid
 *   tid          past        as for 0
 *
 * Waiting policy: banned threads sleep. Threads in the queue spin for about a context switch, then sleep. The head of
 * the queue sleeps to the end of the lock slice, then spins for about a context switch, then sleeps on the word.
 * I1  The word alone: lock slices and bans only decide which threads try. I2  locks/parts/owner_word.h,
 *     locks/parts/spin_then_park.h; every other sleep has an end. I4  The queue is in order of arrival, and a ban ends
 *     when no other thread waits. I5  Exactly: the owner by intent, the head by its node's state.
 * Memory: 16 bytes, 64 more for a lock that was ever contended; a thread has one node and a table of 64 accounts (3
 * KiB) for all locks. If the table overflows, the ban that ended first is forgotten; if there is no object for a lock
 * (262,144 contended ones at once), the lock goes without lock slices. So any number of locks may be used.
 * Deviations: the thread is charged for its whole lock slice, used or not, since that is what it withheld from the
 * others; the authors charge the time that it held the lock and end the slice early. A ban runs from when the slice was
 * due, so that the lock does not idle while unequal weights add up. The weights that count are those of the threads
 * that wait, not of all that ever came: nothing is kept per thread and lock beyond the table, and the lock does not
 * wait for absent threads. The authors' first in line spins 20 times and yields; here it spins for about a context
 * switch. trylock and timed waits look at the word only. */
#define FGI_LOCK_HAS_DESTROY
#include <sys/resource.h>

#include "locks/parts/extended.h"
#include "locks/parts/owner_word.h"
#include "locks/parts/spin_then_park.h"
#include "runtime/sandbox.h"

struct fg_lock {
	uint32_t word;
	uint32_t extended;
	uint64_t queue;
};

/* Only the owner of the word writes it, except `waiting` and `born_ns`. */
struct lock_slice {
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC */
	uint64_t born_ns;          /* the first contention: tells this lock from an earlier one at the same address */
	uint64_t waiting; /* the weights of all threads that want the lock, banned or queued; the process: weights_of */
	uint32_t owner;
};
_Static_assert(sizeof(struct lock_slice) <= FGI_EXTENDED_SMALL_BYTES, "must fit");

#define WEIGHT_BITS 48    /* for 12 million threads of nice -20 */
#define SLICE_NS 2000000u /* the authors' code (docs/design/locks.md) */

/* ---- the account of a thread with a lock ---- */

/* Ours: 64 accounts, 3 KiB of each thread, are more than contended locks that one thread uses at a time. */
#define SETS 16u
#define WAYS 4u

struct account {
	const struct fg_lock *lock;
	uint64_t born_ns;
	uint64_t begin_ns, end_ns; /* a lock slice that it has not been charged for; 0: none */
	uint64_t due_ns;           /* when that slice was due: the thread had come, and its ban was over */
	uint64_t banned_until_ns;
};

static __thread struct account accounts[SETS][WAYS] __attribute__((tls_model("initial-exec")));

/* This thread's account with the lock. A new one takes the place of the account whose ban ended first. */
static struct account *account_of(const struct fg_lock *l, const struct lock_slice *s)
{
	uint64_t born = fg_load_relaxed(&s->born_ns), hash = ((uint64_t)(uintptr_t)l >> 3) * 0x9e3779b97f4a7c15u;
	struct account *set = accounts[hash >> 60], *chosen = set;

	_Static_assert(SETS == 1u << (64 - 60), "the hash's top bits");
	for (unsigned int i = 0; i < WAYS; i++) {
		if (set[i].lock == l && set[i].born_ns == born)
			return &set[i];
		if (set[i].banned_until_ns < chosen->banned_until_ns)
			chosen = &set[i];
	}
	*chosen = (struct account){.lock = l, .born_ns = born};
	return chosen;
}

/* The scheduler's rule: 1024 at nice 0, a fifth less with each step. Read every time, since nice values change. */
static uint64_t my_weight(void)
{
	long answer = fgi_optional_call(SYS_getpriority, PRIO_PROCESS, 0, 0); /* 0: this thread */
	long nice = answer > 0 ? 20 - answer : 0;                             /* the call's own notation */
	uint64_t weight = 1024 << 8;

	for (; nice > 0; nice--)
		weight = weight * 4 / 5;
	for (; nice < 0; nice++)
		weight = weight * 5 / 4;
	return weight;
}

/* The thread's lock slice is over: charges it, that is, bans the thread for as long as it takes to give each waiter
 * such a slice, by weight. The ban runs from when the slice was due, so that a thread that got it late is not banned
 * longer. */
static void charge(struct account *a, uint64_t begin_ns, uint64_t end_ns, uint64_t others)
{
	uint64_t used = end_ns - begin_ns, due = a->begin_ns && a->due_ns < begin_ns ? a->due_ns : begin_ns;

	a->begin_ns = 0;
	if (others > 0) /* the product of a long section and many weights has more than 64 bits */
		a->banned_until_ns = due + used + (uint64_t)((double)used * (double)others / (double)my_weight());
}

/* ---- the slow path ---- */

static inline struct lock_slice *slice_of(const struct fg_lock *l)
{
	return fgi_extended_of(&l->extended, FGI_EXTENDED_SMALL);
}

static inline bool reserved(const struct lock_slice *s, uint64_t now)
{
	uint32_t owner = fg_load_relaxed(&s->owner);

	return owner != 0 && owner != fgi_self() && now < fg_load_relaxed(&s->end_ns);
}

static void sleep_until(uint64_t ns)
{
	struct timespec end = fgi_timespec(ns);
	uint32_t own = 0; /* no other thread knows it, so the sleep ends by the clock */

	fg_thread.parks++;
	fgi_futex_wait(&own, 0, CLOCK_MONOTONIC, &end);
}

/* The sum of the weights in `waiting`, which names in its upper 16 bits the process that it is good for (fgi_forks):
 * the threads of the parent do not wait in the child of a fork. */
static inline uint64_t weights_of(uint64_t waiting)
{
	uint64_t of_process = (uint64_t)fg_load_relaxed(&fgi_forks) << WEIGHT_BITS;

	return (waiting ^ of_process) >> WEIGHT_BITS ? 0 : waiting << (64 - WEIGHT_BITS) >> (64 - WEIGHT_BITS);
}

static inline uint64_t waiting_weights(const struct lock_slice *s)
{
	return weights_of(fg_load_relaxed(&s->waiting));
}

/* A thread that goes takes away what it brought, unless it forked meanwhile, in a signal handler. */
static void change_weights(struct lock_slice *s, uint64_t comes, uint64_t goes)
{
	uint64_t found = fg_load_relaxed(&s->waiting), seen, sum;

	do {
		seen = found;
		sum = weights_of(seen) + comes;
		sum -= goes < sum ? goes : sum;
		found = fg_cas_relaxed(&s->waiting, seen, (uint64_t)fg_load_relaxed(&fgi_forks) << WEIGHT_BITS | sum);
	} while (found != seen);
}

/* Sleeps until the ban is over. Looks after each lock slice whether another thread still wants the lock. */
static void serve_ban(struct fg_lock *l, const struct lock_slice *s, uint64_t weight)
{
	uint64_t until = account_of(l, s)->banned_until_ns, now;

	while ((now = fgi_now_ns(CLOCK_MONOTONIC)) < until) {
		if (waiting_weights(s) <= weight && !reserved(s, now))
			return;
		sleep_until(until - now < SLICE_NS ? until : now + SLICE_NS);
	}
}

static void wait_as_head(struct fg_lock *l, const struct lock_slice *s)
{
	struct fgi_spin_budget p = FGI_NO_DEADLINE;

	for (;;) {
		if (s && reserved(s, fgi_now_ns(CLOCK_MONOTONIC))) {
			sleep_until(fg_load_relaxed(&s->end_ns));
			continue;
		}
		if (fgi_word_try(&l->word, 0))
			return;
		if (fgi_spun_for(&p, FGI_SPIN_UNMONITORED_NS)) {
			fgi_word_park(&l->word, &p);
			fgi_spin_budget_renew(&p);
		}
		fgi_spin_once();
	}
}

/* The caller owns the word. */
static void begin_slice(struct fg_lock *l, struct lock_slice *s)
{
	struct account *a = account_of(l, s);
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);

	if (fg_load_relaxed(&s->owner) == fgi_self())
		a->due_ns = now; /* the slice goes on, since no other thread waits */
	a->begin_ns = now;
	a->end_ns = now + SLICE_NS;
	fg_store_relaxed(&s->begin_ns, now);
	fg_store_relaxed(&s->end_ns, now + SLICE_NS);
	fg_store_relaxed(&s->owner, fgi_self());
}

static void wait_in_queue(struct fg_lock *l, struct lock_slice *s)
{
	struct fg_queue_node *node = fgi_node_need(&l->queue), *next;

	fgi_publish_node(node);
	fgi_enqueue(&l->queue, node, fgi_tail_mind_fork(&l->queue, NULL));
	fgi_node_wait(node);
	wait_as_head(l, s);
	if (s)
		begin_slice(l, s);
	fgi_held_raise(); /* from here on `held` says that the head is critical, no longer the node's state */
	fgi_publish_node(NULL);
	next = fgi_queue_retire(&l->queue, node);
	if (next)
		fgi_node_grant(next);
	fgi_node_put(node);
}

__attribute__((noinline)) static void compete(struct fg_lock *l)
{
	struct lock_slice *s = fgi_extended_attach(&l->extended, FGI_EXTENDED_SMALL);
	struct account *a;
	uint64_t weight, now;

	if (!s) {
		wait_in_queue(l, NULL);
		return;
	}
	now = fgi_now_ns(CLOCK_MONOTONIC);
	if (fg_unlikely(!fg_load_relaxed(&s->born_ns)))
		fg_cas_relaxed(&s->born_ns, 0, now);
	a = account_of(l, s);
	if (a->begin_ns && a->end_ns <= now)
		charge(a, a->begin_ns, a->end_ns, waiting_weights(s));
	a->due_ns = a->banned_until_ns > now ? a->banned_until_ns : now;
	weight = my_weight();
	change_weights(s, weight, 0);
	serve_ban(l, s, weight);
	wait_in_queue(l, s);
	change_weights(s, 0, weight);
}

/* The lock has been contended before. */
__attribute__((noinline)) static bool take_in_slice(struct fg_lock *l, struct lock_slice *s)
{
	return fg_load_relaxed(&s->owner) == fgi_self() && fgi_now_ns(CLOCK_MONOTONIC) < fg_load_relaxed(&s->end_ns) &&
	       fgi_word_try(&l->word, 0);
}

/* ---- the lock ---- */

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fgi_word_try(&l->word, 0);
}

static inline void fgi_lock(struct fg_lock *l)
{
	struct lock_slice *s = slice_of(l);

	if (fg_likely(!s) ? fgi_trylock(l) : take_in_slice(l, s))
		return;
	compete(l);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_poll(l, clock, abs);
}

/* A section that outlasts its lock slice is charged in full. */
__attribute__((noinline)) static void end_slice(struct fg_lock *l, struct lock_slice *s)
{
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC), others;

	if (now < fg_load_relaxed(&s->end_ns))
		return;
	others = waiting_weights(s);
	if (others > 0) {
		fg_store_relaxed(&s->owner, 0);
		charge(account_of(l, s), fg_load_relaxed(&s->begin_ns), now, others);
	} else {
		begin_slice(l, s);
	}
}

static inline void fgi_unlock(struct fg_lock *l)
{
	struct lock_slice *s = slice_of(l);

	if (s && fg_load_relaxed(&s->owner) == fgi_self())
		end_slice(l, s);
	fgi_word_drop(&l->word);
}

static inline void fgi_lock_destroy(struct fg_lock *l)
{
	fgi_extended_detach(&l->extended, FGI_EXTENDED_SMALL);
}
