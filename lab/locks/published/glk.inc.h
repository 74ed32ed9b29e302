/* SPDX-License-Identifier: MIT */
/* GLK, the adaptive lock of Antic et al. (Middleware 2016; section 2.2): ticket lock, MCS or blocking, by the load.
 *
 *   word     locks/parts/owner_word.h: 0 free, or the owner's tid. Queues and modes only order and park its waiters.
 *   control  mode: TICKET, MCS, BLOCK; count: acquisitions since the mode was last considered; length: the sum of the
 *            samples
 *   queue    0                    no thread queues
 *            next, serving, 1     a ticket queue: serving is the head's ticket, next the one to be drawn
 *            address of a node    an MCS queue: its tail
 *            On top of both is the tag of locks/parts/mcs_queue.h, Forks.
 *
 * Only the owner writes `control`. Every 128th acquisition is a sample of the queue's length, the owner included, and
 * every 4,096th considers their mean: 3 or more, MCS; less than 2, tickets (one word is cheaper than a node while few
 * threads look at it). At each acquisition the owner asks the sampler (locks/parts/load_sampler.h), which looks every
 * 100 us, whether more threads are runnable than there are contexts: then BLOCK. How many calm samples in a row end
 * BLOCK is four times as many after each change to BLOCK, 0.8 s at most, and one fewer with each calm sample while
 * there is no overload. These numbers are the authors' (docs/design/locks.md).
 *
 * All waiters go through each change of mode: a thread that is the head of a queue of another mode, or that wakes up in
 * another mode, passes its place on and starts again in the new mode. The queue word changes its kind only through 0.
 *
 * Waiting policy: TICKET, spin on the queue word; MCS, spin on the node; the head, on the word; BLOCK, sleep on the
 * word. While the sampler sees overload, spinning threads yield: without that a change of mode would take a time slice
 * for each waiter in the queue.
 * I1  The word alone. I2  locks/parts/owner_word.h; a thread that wakes into another mode wakes all sleepers. I3  Nodes
 *     are type-stable. I4  The queues are in order of arrival, and arrivals overtake them only in mode BLOCK. I5  The
 *     owner by intent, exactly; the head by its node's state, in TICKET from when it has seen its ticket served.
 * Memory: 16 bytes; one node (64 bytes) a thread.
 * Deviations from the authors' code: one owner word for all modes; overload is looked at in each acquisition instead of
 * every 4,096th; it begins and ends at the number of contexts (theirs begins two above and ends five below); changes of
 * mode are not limited in number (theirs blocks for seconds after eight). A timed wait polls without queueing. */
#define FGI_LOCK_HAS_BARE_FORK
#include <limits.h>

#include "locks/parts/load_sampler.h"
#include "locks/parts/mcs_queue.h"
#include "locks/parts/owner_word.h"

struct fg_lock {
	uint32_t word;
	uint32_t control;
	uint64_t queue;
};

/* ---- the load ---- */

#define EVIDENCE_MIN 4u    /* samples in a row without overload; the authors', as at the head */
#define EVIDENCE_MAX 8192u /* 0.8 s */

static struct {
	uint32_t overloaded;
	uint32_t quiet; /* samples in a row without overload, since the change to BLOCK */
	uint32_t evidence;
} load = {.evidence = EVIDENCE_MIN};

/* An unknown load is FGI_LOAD_UNKNOWN, the greatest: then blocking is the safe choice. */
static void on_sample(int excess)
{
	if (excess > 0) {
		load.quiet = 0;
		if (load.overloaded)
			return;
		load.evidence = load.evidence < EVIDENCE_MAX / 4 ? 4 * load.evidence : EVIDENCE_MAX;
		fg_store_relaxed(&load.overloaded, 1);
	} else if (!load.overloaded) {
		if (load.evidence > EVIDENCE_MIN)
			load.evidence--;
	} else if (++load.quiet >= load.evidence) {
		fg_store_relaxed(&load.overloaded, 0);
	}
}

static struct fgi_load_sampler sampler = {.on_sample = on_sample};

__attribute__((constructor)) static void start_sampler(void)
{
	fgi_load_sampler_start(&sampler);
}

static inline void fgi_lock_after_bare_fork(void)
{
	fgi_load_sampler_after_bare_fork();
}

static inline void spin_or_yield(void)
{
	fgi_load_sampler_want(&sampler);
	if (fg_unlikely(fg_load_relaxed(&load.overloaded)))
		fgi_spin_yield();
	else
		fgi_spin_once();
}

/* ---- the mode ---- */

enum mode { TICKET = 0, MCS = 1, BLOCK = 2 };
#define MODE_MASK 3u
#define COUNT_ONE (1u << 2) /* bits 2 to 13 */
#define COUNT_MASK (4095u << 2)
#define SAMPLE_MASK (127u << 2) /* a count with these bits 0 is a sample, 32 of them in 4,096 */
#define SAMPLES 32u
#define LENGTH_ONE (1u << 14) /* bits 14 to 31: the sum may reach SAMPLES * LONG */
#define LONG 5u               /* a longer queue counts as this: leave_nodes looks no further */
_Static_assert((uint64_t)LENGTH_ONE *(SAMPLES *LONG + 1) < UINT32_MAX, "the sum must fit");

static inline enum mode mode_of(const struct fg_lock *l)
{
	return (enum mode)(fg_load_relaxed(&l->control) & MODE_MASK);
}

/* The caller owns the lock; `waiters` queued behind it as it took it. From BLOCK it goes to TICKET, as published. */
static inline void consider(struct fg_lock *l, uint32_t waiters)
{
	uint32_t control = l->control, mode = control & MODE_MASK;
	bool overloaded = fg_load_relaxed(&load.overloaded);

	if (fg_unlikely((control & SAMPLE_MASK) == 0))
		control += LENGTH_ONE * (waiters < LONG ? waiters + 1 : LONG);
	if (fg_unlikely(overloaded != (mode == BLOCK))) {
		control = overloaded ? BLOCK : TICKET;
	} else if (fg_unlikely((control & COUNT_MASK) == COUNT_MASK)) {
		uint32_t length = control / LENGTH_ONE;

		if (mode == TICKET && length >= 3 * SAMPLES)
			mode = MCS;
		else if (mode == MCS && length < 2 * SAMPLES)
			mode = TICKET;
		control = mode;
	} else {
		control += COUNT_ONE;
	}
	fg_store_relaxed(&l->control, control);
}

/* ---- the ticket queue: bit 0 is 1, bits 1 to 23 serving, bits 24 to 46 next ---- */

#define TICKETS 0x7fffffu /* tickets are counted modulo 2^23: Linux has 2^22 threads at most */

static inline uint32_t serving_of(uint64_t queue)
{
	return (uint32_t)(queue >> 1) & TICKETS;
}

static inline uint32_t next_of(uint64_t queue)
{
	return (uint32_t)(queue >> 24) & TICKETS;
}

static inline uint64_t tickets(uint32_t serving, uint32_t next)
{
	return fgi_tail_tag() | (uint64_t)(next & TICKETS) << 24 | (uint64_t)(serving & TICKETS) << 1 | 1;
}

/* Waits until its ticket is served. */
static void queue_with_ticket(struct fg_lock *l, struct fg_queue_node *node)
{
	uint64_t queue = fg_load_relaxed(&l->queue), found;
	uint32_t ticket;

	for (;; queue = found) {
		bool other_kind = queue != 0 && !(queue & 1);

		ticket = queue ? next_of(queue) : 0;
		if (!other_kind) {
			found = fg_cas_acq_rel(&l->queue, queue,
					       queue ? tickets(serving_of(queue), ticket + 1) : tickets(0, 1));
			if (found == queue)
				break;
		} else {
			spin_or_yield();
			found = fg_load_relaxed(&l->queue);
		}
	}
	/* acquire: pairs with the head's release in leave_tickets */
	while (serving_of(fg_load_acquire(&l->queue)) != ticket)
		spin_or_yield();
	fg_store_relaxed(&node->state, FG_NODE_GRANTED); /* tells the monitor */
}

/* The head leaves. Returns how many threads stay in the queue. Lowers `held`. */
static uint32_t leave_tickets(struct fg_lock *l)
{
	uint64_t queue = fg_load_relaxed(&l->queue), found;

	for (;; queue = found) {
		uint32_t left = (next_of(queue) - serving_of(queue) - 1) & TICKETS;

		found = fgi_drop_cas64(&l->queue, queue, left ? tickets(serving_of(queue) + 1, next_of(queue)) : 0);
		if (found == queue)
			return left;
	}
}

/* ---- the MCS queue ---- */

/* fgi_enqueue does not serve, since the queue word may be of the other kind. The queue is cut between the
 * compare-and-swap and the link, so the thread is critical there, and says so from before the compare-and-swap on. */
static void queue_with_node(struct fg_lock *l, struct fg_queue_node *node)
{
	uint64_t queue = fg_load_relaxed(&l->queue), found;

	for (;; queue = found) {
		if (!(queue & 1)) {
			fgi_held_raise();
			found = fg_cas_acq_rel(&l->queue, queue, fgi_tail_word(node));
			if (found == queue)
				break;
			fgi_held_lower();
		} else {
			spin_or_yield();
			found = fg_load_relaxed(&l->queue);
		}
	}
	if (queue)
		fg_store_release(&fgi_tail_node(queue)->next, fgi_node_word(node)); /* pairs with fgi_node_next */
	else
		fg_store_relaxed(&node->state, FG_NODE_GRANTED);
	fgi_held_lower();
	while (fgi_queue_state(node) == FG_NODE_WAITING)
		spin_or_yield();
}

/* The same for nodes; counts to 4 at most. All links but the first may change meanwhile. */
static uint32_t leave_nodes(struct fg_lock *l, struct fg_queue_node *node)
{
	struct fg_queue_node *next = fgi_queue_retire(&l->queue, node), *after = next;
	uint32_t left = 0;

	if (!next)
		return 0;
	for (; after && left < 4; after = fgi_node_next(after))
		left++;
	fgi_drop_store32(&next->state, FG_NODE_GRANTED);
	return left;
}

/* ---- waiting ---- */

/* Returns true with the lock, false if the mode has changed. */
static bool wait_in_queue(struct fg_lock *l, enum mode mode)
{
	struct fg_queue_node *node = fgi_node_need(&l->queue);
	uint32_t waiters;
	bool mine;

	fgi_publish_node(node);
	if (mode == TICKET)
		queue_with_ticket(l, node);
	else
		queue_with_node(l, node);
	while (!(mine = fgi_word_try(&l->word, 0)) && mode_of(l) == mode)
		spin_or_yield();
	fgi_held_raise(); /* from here on `held` says that the head is critical, no longer the node's state */
	fgi_publish_node(NULL);
	waiters = mode == TICKET ? leave_tickets(l) : leave_nodes(l, node);
	fgi_node_put(node);
	if (mine)
		consider(l, waiters);
	return mine;
}

static bool wait_asleep(struct fg_lock *l)
{
	const struct fgi_spin_budget p = FGI_NO_DEADLINE;
	uint32_t flags = 0;

	for (;;) {
		if (fgi_word_try(&l->word, flags)) {
			consider(l, 0);
			return true;
		}
		if (mode_of(l) != BLOCK)
			break;
		fgi_load_sampler_want(&sampler);
		fgi_word_park(&l->word, &p);
		flags = FGI_WORD_SLEEPERS;
	}
	if (flags)
		fgi_futex_wake(&l->word, INT_MAX); /* the wake-up was for all that wait in the old mode */
	return false;
}

__attribute__((noinline)) static void wait_by_mode(struct fg_lock *l)
{
	bool mine;

	fgi_tail_mind_fork(&l->queue, NULL);
	do {
		enum mode mode = mode_of(l);

		mine = mode == BLOCK ? wait_asleep(l) : wait_in_queue(l, mode);
	} while (!mine);
}

/* ---- the lock ---- */

static inline bool fgi_trylock(struct fg_lock *l)
{
	if (!fgi_word_try(&l->word, 0))
		return false;
	consider(l, 0);
	return true;
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (fg_likely(fg_load_relaxed(&l->queue) == 0 && fgi_trylock(l)))
		return;
	wait_by_mode(l);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_poll(l, clock, abs);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	fgi_word_drop(&l->word);
}
