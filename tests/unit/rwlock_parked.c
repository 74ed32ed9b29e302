/* SPDX-License-Identifier: MIT */
/* What a thread does that parks at a read-write lock: to the word as it parks and leaves, by its own clock, and when it
 * was woken in vain (sync/rwlock.h, I2 and I4). A thread waits; the test plays all others, by nodes without threads. */
#include <errno.h>
#include <sched.h>

#include "runtime/clock.h"
#include "runtime/futex.h"
#include "sync/handover.h"
#include "tests/check.h"
#include "tests/unit/rwlock_word.h"

#define PASSES 5

static struct fgi_rwlock l;

/* ---- the thread that waits ---- */

struct waiter {
	bool writer;
	struct timespec deadline;
	int result;
	uint64_t word; /* with the lock */
	long parks;
	bool over;
	pthread_t thread;
	struct fgi_parked *node;
};
#define NEVER ((struct timespec){INT32_MAX, 0})

static void *wait_for_it(void *argument)
{
	struct waiter *w = argument;
	uint64_t free_again = w->writer ? fgi_self() : READ(1);

	w->result = w->writer ? fgi_rwlock_write(&l, FGI_DEADLINE(CLOCK_MONOTONIC, &w->deadline))
			      : fgi_rwlock_read(&l, FGI_DEADLINE(CLOCK_MONOTONIC, &w->deadline));
	w->word = __atomic_load_n(&l.word, __ATOMIC_RELAXED);
	w->parks = (long)fg_thread.parks;
	if (!w->result) {
		__atomic_store_n(&l.word, free_again, __ATOMIC_RELAXED);
		fgi_rwlock_unlock(&l);
	}
	__atomic_store_n(&w->over, true, __ATOMIC_RELEASE);
	return NULL;
}

static void begin(struct waiter *w)
{
	w->thread = check_thread(wait_for_it, w);
}

/* Its deadline has passed; it sees that when it wakes, perhaps by its own clock. */
static void is_late(struct waiter *w)
{
	__atomic_store_n(&w->deadline.tv_sec, 0, __ATOMIC_RELAXED);
}

static void make(uint64_t word, bool writers_first)
{
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);

	l = (struct fgi_rwlock){.word = word, .unbiased_until = writers_first * FGI_RW_WRITERS_FIRST};
	if (!writers_first)
		fgi_rw_rest(&l.unbiased_until, now, 0);
	fgi_rw_rest(&l.unreserved_until, now, 0);
}

/* ---- the others ---- */

static struct fgi_parked played[PASSES];

static void play(struct fgi_parked *p, bool writer, bool reserved)
{
	struct fgi_parked_list *list = fgi_parked_lock(&l);

	*p = (struct fgi_parked){.object = &l,
				 .writer = writer,
				 .reserved = reserved,
				 .since_ns = fgi_now_ns(CLOCK_MONOTONIC),
				 .state = FGI_PARKED_ASLEEP};
	fgi_parked_add(list, p, false);
	fgi_parked_unlock(list);
}

static bool is_played(const struct fgi_parked *p)
{
	return p >= played && p < played + PASSES;
}

/* With the list locked: the node of the thread that waits, or NULL. */
static struct fgi_parked *its_node(const struct fgi_parked_list *list)
{
	struct fgi_parked *p = NULL;

	do
		p = fgi_parked_next(list, &l, p);
	while (p && is_played(p));
	return p;
}

/* NULL: it has let itself in. */
static struct fgi_parked_list *lock_when_parked(struct waiter *w)
{
	while (!__atomic_load_n(&w->over, __ATOMIC_ACQUIRE)) {
		struct fgi_parked_list *list = fgi_parked_lock(&l);

		w->node = its_node(list);
		if (w->node)
			return list;
		fgi_parked_unlock(list);
		sched_yield();
	}
	return NULL;
}

/* With the list locked. Takes it out, as a release does that wakes it; the word is `word` then. Returns the word at the
 * end of its call. */
static uint64_t take_out(struct waiter *w, struct fgi_parked_list *list, uint64_t word)
{
	fgi_parked_remove(list, w->node);
	__atomic_store_n(&l.word, word, __ATOMIC_RELAXED);
	fgi_parked_unlock(list);
	fgi_parked_tell(w->node, FGI_PARKED_RETRY);
	check_join(w->thread);
	return w->word;
}

static uint64_t wake(struct waiter *w, uint64_t word)
{
	struct fgi_parked_list *list = lock_when_parked(w);

	if (list)
		return take_out(w, list, word);
	check_join(w->thread);
	return w->word;
}

static void remove_played(struct fgi_parked *p)
{
	struct fgi_parked_list *list = fgi_parked_lock(&l);

	fgi_parked_remove(list, p);
	fgi_parked_unlock(list);
}

static void await_told(const struct fgi_parked *p, enum fgi_parked_state state)
{
	enum fgi_parked_state is;

	while ((is = fgi_parked_state(p)) <= FGI_PARKED_ASLEEP)
		sched_yield();
	CHECK(is == state, "told %d", (int)is);
}

/* ---- as it parks ---- */

enum other { NONE, READER, WRITER, RESERVED_WRITER };

static const struct {
	bool writer, writers_first;
	enum other other; /* in the list */
	uint64_t word, parked;
} parks[] = {
	{false, false, NONE, OTHER, OTHER | P},
	{true, false, NONE, READ(1), READ(1) | P},
	{true, true, NONE, READ(1), READ(1) | P | R},
	{true, false, READER, OTHER | P | K, OTHER | P | K},
	{false, false, NONE, OTHER | P | R | K, OTHER | P}, /* the waiters stayed in the parent of a fork */
	{true, false, NONE, READ(1) | P | R | K, READ(1) | P},
	{true, true, NONE, READ(1) | P | R | K, READ(1) | P | R},
	{true, true, NONE, OTHER | P | R | K, OTHER | P | R},
	{false, true, NONE, OTHER | P | K, OTHER | P},
	{false, true, NONE, P | R | K, P | R | K}, /* the writer that was woken comes in a moment */
	{false, false, RESERVED_WRITER, READ(1) | P | R | K, READ(1) | P | R | K},
	{false, false, RESERVED_WRITER, READ(1) | E | P | R, READ(1) | E | P | R},
};

static void parks_so(size_t i)
{
	struct waiter w = {.writer = parks[i].writer, .deadline = NEVER};
	uint64_t began = fgi_now_ns(CLOCK_MONOTONIC);
	struct fgi_parked_list *list;
	bool acts;

	make(parks[i].word, parks[i].writers_first);
	if (parks[i].other != NONE)
		play(&played[0], parks[i].other != READER, parks[i].other == RESERVED_WRITER);
	begin(&w);
	list = lock_when_parked(&w);
	acts = fgi_now_ns(CLOCK_MONOTONIC) - began >=
	       FGI_RW_RESERVE_NS; /* it may have reserved the lock, or let itself in */
	CHECK(acts || (list && l.word == parks[i].parked), "case %zu: %lx", i, l.word);
	if (list)
		fgi_parked_unlock(list);
	if (parks[i].other != NONE)
		remove_played(&played[0]);
	wake(&w, 0);
	CHECK_IS(w.result, 0);
}

/* Behind those that wait; but before them once it was woken, and finds the lock taken again. It has waited all the time
 * since it came. */
static void parks_where(void)
{
	struct waiter w = {.writer = true, .deadline = NEVER};
	struct fgi_parked_list *list;
	uint64_t since_ns;

	make(OTHER | P, false);
	play(&played[0], true, false);
	begin(&w);
	list = lock_when_parked(&w);
	CHECK(fgi_parked_next(list, &l, NULL) == &played[0], "it came first");
	since_ns = w.node->since_ns;
	fgi_parked_remove(list, w.node);
	fgi_parked_unlock(list);
	fgi_parked_tell(w.node, FGI_PARKED_RETRY);
	list = lock_when_parked(&w);
	CHECK(fgi_parked_next(list, &l, NULL) == w.node, "it had to queue again");
	CHECK(w.node->since_ns == since_ns, "it has to wait anew for the lock to be handed over");
	fgi_parked_unlock(list);
	remove_played(&played[0]);
	wake(&w, 0);
}

/* Readers were kept out by a writer that stayed in the parent of a fork. */
static void is_kept_out_by_nobody(void)
{
	struct waiter w = {.deadline = NEVER};

	make(READ(1) | P | R | K, false);
	begin(&w);
	check_join(w.thread);
	CHECK_IS(w.word, READ(2));
	CHECK_IS(w.parks, 0);
}

/* Or by one that was woken there, and does not come here: it looks after a while. */
static void is_kept_out_in_vain(void)
{
	struct waiter w = {.deadline = NEVER};

	make(P | R | K, true);
	begin(&w);
	check_join(w.thread);
	CHECK_IS(w.word & ~K, READ(1));
}

/* The lock became free while it was on its way into the list: no release would wake it. */
static void does_not_park(bool writer, uint64_t word)
{
	struct waiter w = {.writer = writer, .deadline = NEVER};
	struct fgi_parked_list *list;

	make(OTHER, writer);
	list = fgi_parked_lock(&l);
	begin(&w);
	while (__atomic_load_n((uint32_t *)(void *)list, __ATOMIC_RELAXED) != 2) /* sync/bucket.h: waited for */
		sched_yield();
	__atomic_store_n(&l.word, word, __ATOMIC_RELAXED);
	fgi_parked_unlock(list);
	check_join(w.thread);
	CHECK_IS(w.result, 0);
	CHECK_IS(w.parks, 0);
}

/* ---- as it leaves ---- */

/* Wakes it for nothing, so that it looks around, until its call ends. */
static void disturb(struct waiter *w)
{
	while (!__atomic_load_n(&w->over, __ATOMIC_ACQUIRE)) {
		fgi_futex_wake(&w->node->state, 1);
		sched_yield();
	}
	check_join(w->thread);
}

/* A writer reaches its deadline: readers that it has kept out come in. */
static void a_writer_leaves(bool a_reader_waits)
{
	struct waiter w = {.writer = true, .deadline = NEVER};

	make(READ(1), true);
	if (a_reader_waits)
		play(&played[0], false, false);
	begin(&w);
	fgi_parked_unlock(lock_when_parked(&w));
	is_late(&w);
	disturb(&w);
	CHECK_IS(w.result, ETIMEDOUT);
	if (a_reader_waits)
		await_told(&played[0], FGI_PARKED_OWNER);
	CHECK_IS(l.word, READ(1 + a_reader_waits));
}

/* A signal handler has forked: in the child it is in no list, and nobody tells it anything. Nor does its deadline, if
 * it is `late`, end the wait with a list that it is not in: it tries for the lock. */
static void is_in_no_list(bool late)
{
	struct waiter w = {.writer = true, .deadline = NEVER};
	struct fgi_parked_list *list;

	make(OTHER, false);
	begin(&w);
	list = lock_when_parked(&w);
	fgi_parked_remove(list, w.node);
	w.node->forks = fgi_forks + 2;
	if (late)
		is_late(&w);
	__atomic_store_n(&l.word, 0, __ATOMIC_RELAXED);
	fgi_parked_unlock(list);
	if (late)
		check_join(w.thread); /* its own clock has it look */
	else
		disturb(&w);
	CHECK_IS(w.result, 0);
}

/* It is woken when its deadline has passed. */
static uint64_t woken_late(bool writer, uint64_t word, int result)
{
	struct waiter w = {.writer = writer, .deadline = NEVER};
	struct fgi_parked_list *list;

	begin(&w);
	list = lock_when_parked(&w);
	is_late(&w);
	word = take_out(&w, list, word);
	CHECK_IS(w.result, result);
	return word;
}

static void is_woken_late(void)
{
	make(OTHER, false);
	CHECK_IS(woken_late(false, READ(1) | K, 0), READ(2)); /* the lock is free all the same */
	make(OTHER, false);
	CHECK(woken_late(true, K, 0) < K, "a writer's, without flags");
	make(OTHER, false); /* its turn is the reader's */
	play(&played[0], false, false);
	CHECK_IS(woken_late(true, READ(1) | P | K, ETIMEDOUT), READ(2));
	await_told(&played[0], FGI_PARKED_OWNER);
	make(OTHER, false); /* or nobody's, and the flags are those of the waiters */
	play(&played[0], true, false);
	CHECK_IS(woken_late(true, READ(1) | P | R | K, ETIMEDOUT), READ(1) | P);
	played[0].reserved = true;
	make(OTHER, false);
	CHECK_IS(woken_late(true, READ(1) | P | K, ETIMEDOUT), READ(1) | P | R);
	make(OTHER, false);
	CHECK_IS(woken_late(false, OTHER | P | K, ETIMEDOUT), OTHER | P | R);
	remove_played(&played[0]);
}

/* A cancellation came while the call had it suspended: the thread ends without the lock. */
static void *is_cancelled(void *result)
{
	if (!result)
		CHECK_IS(fgi_rwlock_write(&l, FGI_NEVER), 0);
	CHECK_IS(pthread_cancel(pthread_self()), 0);
	fgi_rw_resume(&l, true, (int)(long)result);
	CHECK(!"cancelled", " ");
	return NULL;
}

static void ends_without_the_lock(void)
{
	make(0, false);
	CHECK(check_join(check_thread(is_cancelled, NULL)) == PTHREAD_CANCELED, "it went on");
	CHECK_IS(l.word, 0);
	make(OTHER, false);
	CHECK(check_join(check_thread(is_cancelled, (void *)(long)ETIMEDOUT)) == PTHREAD_CANCELED, "it went on");
	CHECK_IS(l.word, OTHER);
}

/* ---- by its own clock ---- */

static uint64_t await_flag(uint64_t flag)
{
	uint64_t word;

	while (!((word = __atomic_load_n(&l.word, __ATOMIC_RELAXED)) & flag))
		sched_yield();
	return word;
}

/* A writer waits for 20 ms before it keeps readers out, for 10 ms; the next times 20 and 20, 20 and 40, ... */
static void keeps_readers_out(void)
{
	struct waiter w = {.writer = true, .deadline = NEVER};
	uint64_t began = fgi_now_ns(CLOCK_MONOTONIC), least = 0;

	make(READ(1), false);
	begin(&w);
	for (uint32_t i = 0; i < PASSES; i++) {
		CHECK_IS(await_flag(R), READ(1 + i) | P | R);
		play(&played[i], false, false);
		await_told(&played[i], FGI_PARKED_OWNER);
		least += FGI_RW_RESERVE_NS + (10000000ull << i);
		CHECK(fgi_now_ns(CLOCK_MONOTONIC) - began >= least, "pass %u came early", i);
	}
	CHECK_IS(await_flag(R), READ(1 + PASSES) | P | R);
	while (__atomic_load_n(&l.word, __ATOMIC_RELAXED) & R) /* also those that come */
		sched_yield();
	wake(&w, 0);
}

/* Looks all the time for some of its turns to act. */
static void stays_so(struct waiter *w, bool reserved, uint64_t word)
{
	uint64_t end = fgi_now_ns(CLOCK_MONOTONIC) + 200000000;

	while (fgi_now_ns(CLOCK_MONOTONIC) < end) {
		struct fgi_parked_list *list = lock_when_parked(w);

		CHECK_IS(w->node->reserved, reserved);
		CHECK_IS(l.word, word);
		fgi_parked_unlock(list);
		sched_yield();
	}
}

/* One of a lock that prefers writers keeps them out all the time. */
static void keeps_readers_out_for_ever(void)
{
	struct waiter w = {.writer = true, .deadline = NEVER};

	make(READ(1), true);
	play(&played[0], false, false);
	begin(&w);
	stays_so(&w, true, READ(1) | P | R);
	while (fgi_parked_state(w.node) != FGI_PARKED_ASLEEP)
		sched_yield();
	remove_played(&played[0]);
	wake(&w, 0);
	CHECK(w.parks < 4, "%ld", w.parks);
}

static void rests_first(void)
{
	struct waiter w = {.writer = true, .deadline = NEVER};

	make(READ(1), false);
	fgi_rw_rest(&l.unreserved_until, fgi_now_ns(CLOCK_MONOTONIC), 200000000);
	begin(&w);
	await_flag(R);
	CHECK(!fgi_rw_rests(&l.unreserved_until, fgi_now_ns(CLOCK_MONOTONIC)), "reserved too early");
	wake(&w, 0);
}

static void await_reserved(struct waiter *w)
{
	bool reserved = false;

	while (!reserved) {
		struct fgi_parked_list *list = lock_when_parked(w);

		reserved = w->node->reserved;
		fgi_parked_unlock(list);
		sched_yield();
	}
}

/* A reader lets itself in where no writer waits that it would be kept out for; otherwise it reserves the lock. */
static void a_reader_acts(void)
{
	struct waiter w = {.deadline = NEVER};

	make(READ(1) | P | R, false);
	play(&played[0], true, true);
	begin(&w);
	await_reserved(&w); /* as the writer has */
	remove_played(&played[0]);
	check_join(w.thread);
	CHECK_IS(w.word, READ(2));

	w = (struct waiter){.deadline = NEVER};
	make(OTHER, false);
	begin(&w);
	await_reserved(&w);
	stays_so(&w, true, OTHER | P | R);
	wake(&w, 0);
	CHECK(w.parks < 15, "%ld: it looks again after 10 ms, 20, 40, ...", w.parks);
}

/* The lock became free, and no release woke it. */
static void finds_it_free(bool writer)
{
	struct waiter w = {.writer = writer, .deadline = NEVER};
	struct fgi_parked_list *list;

	make(OTHER, false);
	begin(&w);
	list = lock_when_parked(&w);
	__atomic_store_n(&l.word, P, __ATOMIC_RELAXED);
	fgi_parked_unlock(list);
	check_join(w.thread);
	CHECK_IS(w.result, 0);
	CHECK(!(w.word & (R | K)), "%lx", w.word); /* P may be left: the release looks */
}

int main(void)
{
	check_watchdog(500);
	fgi_forks = 2; /* as in the child of a fork */
	for (size_t i = 0; i < sizeof(parks) / sizeof(*parks); i++)
		parks_so(i);
	parks_where();
	is_kept_out_by_nobody();
	is_kept_out_in_vain();
	does_not_park(false, 0);
	does_not_park(true, 0);
	does_not_park(true, E); /* readers may stand in the table, and none does */
	a_writer_leaves(false);
	a_writer_leaves(true);
	is_in_no_list(false);
	is_in_no_list(true);
	is_woken_late();
	ends_without_the_lock();
	keeps_readers_out();
	keeps_readers_out_for_ever();
	rests_first();
	a_reader_acts();
	finds_it_free(false);
	finds_it_free(true);
	return 0;
}
