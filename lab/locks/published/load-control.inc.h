/* SPDX-License-Identifier: MIT */
/* Load control (Johnson et al., ASPLOS 2010; section 2.2): contention is managed by spinning, load by a controller that
 * decides how many of all the spinning threads, whatever lock they wait for, should rather sleep.
 *
 * Every 100 us the controller (locks/parts/load_sampler.h) compares the runnable threads with the hardware contexts,
 * and sets the size of the sleep-slot buffer to the difference: so many threads should sleep. A spinning thread that
 * finds the buffer not full takes a slot, leaves its queue and sleeps in the slot. When the load falls the controller
 * wakes the threads in the slots that are too many, eldest first.
 *
 *   word    locks/parts/owner_word.h: 0 free, or the owner's tid
 *   queue   the MCS tail of the threads that spin (locks/parts/mcs_queue.h), of which only the head looks at the word
 *
 *   slot         meaning                            left by
 *   EMPTY        free                               a spinning thread: -> TAKEN
 *   TAKEN        its thread sleeps or is about to   the controller: -> WOKEN and a wake-up;  its thread: -> EMPTY
 *   WOKEN        its thread is to come back         its thread: -> EMPTY
 *
 * A release wakes no thread in a slot, as published. So the head never takes a slot: a free lock always has a successor
 * that is awake. (The paper relies on there being spinning threads.) No sleep in a slot is longer than 100 ms, whatever
 * becomes of the controller.
 *
 * Waiting policy: spin in the queue until a slot is to be had; the head spins on the word for up to a time slice, then
 * sleeps on it, since beside a holder that sleeps it would burn its CPU.
 * I1  The word alone. I2  The controller wakes the thread in a slot, or its sleep ends. I3  locks/parts/mcs_queue.h.
 * I4  The queue is in order of arrival; a thread that slept queues anew, and arrivals may take the free word.
 *     I5  Exactly: the owner by intent, the head by its node's state.
 * Memory: 16 bytes; one node (64 bytes) a thread, and up to 8 more in queues that it left; 1 KiB of slots.
 * Deviations: the head, as above; the spinlock below is this queue, the paper's is a time-published lock; the
 * controller counts the threads of all processes as load, so beside enough of them all waiters but the heads sleep.
 * Measured (the scene `load` of lab/scenes/published-locks.toml): fairness 0.60, 0.81, 0.85, 0.99 with 2, 4, 8, 16
 * threads, since threads in slots stay there; 2,700 to 3,800 transitions a second, where locks without a controller,
 * which wakes every 100 us and takes a CPU from a thread, have 400 at most. */
#define FGI_LOCK_HAS_BARE_FORK
#include <string.h>

#include "locks/parts/load_sampler.h"
#include "locks/parts/mcs_queue.h"
#include "locks/parts/owner_word.h"

struct fg_lock {
	uint32_t word;
	uint32_t unused;
	uint64_t queue;
};

/* ---- the sleep-slot buffer ---- */

enum { EMPTY = 0, TAKEN = 1, WOKEN = 2 };

/* Ours; not verified against the paper (docs/design/locks.md). A slot is for a thread that a CPU has no time for, so
 * 256 are more than are of use; a sleep that no controller ends costs a tenth of a second. */
#define SLOTS 256u
#define LONGEST_SLEEP_NS 100000000u

static struct {
	uint32_t target;   /* how many should sleep; the controller writes it */
	uint32_t sleepers; /* how many do, or are about to */
	uint32_t newest;   /* where to look for an empty slot: slots are taken round-robin */
	uint32_t eldest;   /* where to look for the next thread to wake; only the controller uses it */
	uint32_t slot[SLOTS];
} buffer;

static void wake_eldest(void)
{
	for (uint32_t i = 0; i < SLOTS; i++) {
		uint32_t *slot = &buffer.slot[buffer.eldest++ % SLOTS];

		if (fg_load_relaxed(slot) == TAKEN && fg_cas_relaxed(slot, TAKEN, WOKEN) == TAKEN) {
			fgi_futex_wake(slot, 1);
			return;
		}
	}
}

static void on_sample(int excess)
{
	int sleepers = (int)fg_load_relaxed(&buffer.sleepers), target;

	if (excess == FGI_LOAD_UNKNOWN)
		excess = -sleepers; /* the load is unknown: no thread sleeps */
	target = sleepers + excess;
	if (target > (int)SLOTS)
		target = (int)SLOTS;
	fg_store_relaxed(&buffer.target, target > 0 ? (uint32_t)target : 0);
	for (; sleepers > target && sleepers > 0; sleepers--)
		wake_eldest();
}

/* The sleepers stayed in the parent. */
static void fork_child(void)
{
	memset(&buffer, 0, sizeof(buffer));
}

static struct fgi_load_sampler controller = {.on_sample = on_sample, .fork_child = fork_child};

__attribute__((constructor)) static void start_controller(void)
{
	fgi_load_sampler_start(&controller);
}

static inline void fgi_lock_after_bare_fork(void)
{
	fgi_load_sampler_after_bare_fork();
}

static inline bool has_slot(void)
{
	return fg_load_relaxed(&buffer.sleepers) < fg_load_relaxed(&buffer.target);
}

/* Returns a slot that is this thread's, or NULL. */
static uint32_t *take_slot(void)
{
	uint32_t n = fg_load_relaxed(&buffer.sleepers), found;

	for (;; n = found) {
		if (n >= fg_load_relaxed(&buffer.target))
			return NULL;
		found = fg_cas_relaxed(&buffer.sleepers, n, n + 1);
		if (found == n)
			break;
	}
	for (;;) { /* there are as many slots as sleepers at most, so one is empty now or in a moment */
		uint32_t *slot = &buffer.slot[fg_fetch_add_relaxed(&buffer.newest, 1) % SLOTS];

		if (fg_load_relaxed(slot) == EMPTY && fg_cas_relaxed(slot, EMPTY, TAKEN) == EMPTY)
			return slot;
	}
}

static void sleep_in(uint32_t *slot)
{
	struct timespec end = fgi_timespec(fgi_now_ns(CLOCK_MONOTONIC) + LONGEST_SLEEP_NS);

	while (fg_load_relaxed(slot) == TAKEN) {
		fg_thread.parks++;
		if (fgi_futex_wait(slot, TAKEN, CLOCK_MONOTONIC, &end) == ETIMEDOUT)
			break;
	}
	fg_store_relaxed(slot, EMPTY);
	fg_fetch_sub_release(&buffer.sleepers, 1); /* after the slot is empty, see take_slot */
}

/* ---- waiting ---- */

/* A waiter whose deadline is near goes on spinning. */
static bool may_sleep(const struct fgi_spin_budget *p)
{
	if (!p->deadline)
		return true;
	return (uint64_t)p->deadline->tv_sec * 1000000000u + (uint64_t)p->deadline->tv_nsec >
	       fgi_now_ns(p->clock) + 2 * (uint64_t)LONGEST_SLEEP_NS;
}

/* Spins until it has the lock (0), the deadline has passed (ETIMEDOUT) or a slot is to be had (EAGAIN). Without a node
 * to queue with, the thread spins on the word as the head does, and takes no slot either. EBUSY: it had become the head
 * when it left the queue for a slot. */
static int spin(struct fg_lock *l, const struct fgi_spin_budget *p)
{
	struct fg_queue_node *node = fgi_queue_join(&l->queue);
	struct fgi_spin_budget budget = FGI_NO_DEADLINE;
	int result = -1;

	while (result < 0) {
		bool head = node && fgi_queue_state(node) == FG_NODE_GRANTED;
		bool slice_over = fgi_spun_for(&budget, FGI_SPIN_SLICE_NS);

		fgi_load_sampler_want(&controller);
		if ((head || !node) && fgi_word_try(&l->word, 0)) {
			result = 0;
		} else if (budget.spins % FGI_SPINS_PER_LOOK != 0) {
			fgi_spin_once();
		} else if (fgi_past_deadline(p)) {
			result = ETIMEDOUT;
		} else if (node && !head && has_slot() && may_sleep(p)) {
			result = EAGAIN;
		} else if (slice_over && head) {
			fgi_word_park(&l->word, p);
			budget = FGI_NO_DEADLINE;
		}
	}
	if (node && fgi_queue_leave(&l->queue, node) && result == EAGAIN)
		result = EBUSY;
	return result;
}

__attribute__((noinline)) static int wait_for_lock(struct fg_lock *l, const struct fgi_spin_budget *p)
{
	for (;;) {
		int result = spin(l, p);
		uint32_t *slot = result == EAGAIN ? take_slot() : NULL;

		if (slot)
			sleep_in(slot);
		else if (result != EAGAIN && result != EBUSY)
			return result;
	}
}

/* ---- the lock ---- */

static inline bool fgi_trylock(struct fg_lock *l)
{
	return fgi_word_try(&l->word, 0);
}

static inline void fgi_lock(struct fg_lock *l)
{
	if (!fg_likely(fgi_trylock(l)))
		wait_for_lock(l, &FGI_NO_DEADLINE);
}

static inline int fgi_timedlock(struct fg_lock *l, clockid_t clock, const struct timespec *abs)
{
	return fgi_trylock(l) ? 0 : wait_for_lock(l, &FGI_SPIN_BUDGET(clock, abs));
}

static inline void fgi_unlock(struct fg_lock *l)
{
	fgi_word_drop(&l->word);
}
