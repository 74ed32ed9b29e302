/* SPDX-License-Identifier: MIT */
/* Another thread changes a read-write lock between two steps of a call (sync/rwlock.c, sync/handover.c). The test plays
 * that thread: just before a step, by a function that runs there. */
#include <errno.h>

#include "tests/unit/steps.h"

#include "sync/handover.h"

static uint64_t *find_and_step(const void *lock);

#define fgi_readers_find find_and_step
#include "sync/handover.c"
#undef fgi_readers_find
#include "sync/rwlock.c"
#include "tests/check.h"
#include "tests/unit/rwlock_word.h"

static struct fgi_rwlock l;
static struct fgi_parked node;
static void (*after_search)(void);

static uint64_t *find_and_step(const void *lock)
{
	uint64_t *entry = fgi_readers_find(lock);

	if (after_search)
		after_search();
	after_search = NULL;
	return entry;
}

/* ---- the other thread ---- */

static uint64_t becomes;

static void sets_word(void)
{
	l.word = becomes;
}

static void make(uint64_t word, uint64_t then)
{
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);

	l = (struct fgi_rwlock){.word = word};
	fgi_rw_rest(&l.unbiased_until, now, FGI_RW_LONGEST_REST_NS);
	fgi_rw_rest(&l.unreserved_until, now, 0);
	becomes = then;
	watched = &l.word;
	other = sets_word;
	fg_thread.held = 0;
	fg_thread.pending = 0;
	fg_thread.parks = 0;
	fgi_reading = 0;
}

static void check(const char *what, uint64_t word)
{
	CHECK(!other, "%s: no such step", what);
	CHECK(l.word == word, "%s: %lx, not %lx", what, l.word, word);
}

static struct fgi_parked_list *park(bool writer, bool due)
{
	struct fgi_parked_list *list = fgi_parked_lock(&l);

	node = (struct fgi_parked){.object = &l,
				   .writer = writer,
				   .reserved = due,
				   .self = OTHER,
				   .since_ns = due ? 0 : UINT64_MAX,
				   .state = FGI_PARKED_ASLEEP};
	fgi_parked_add(list, &node, false);
	return list;
}

static void stays_parked(const char *what, struct fgi_parked_list *list)
{
	CHECK(node.state == FGI_PARKED_ASLEEP, "%s: told %u", what, node.state);
	CHECK(fgi_parked_next(list, &l, NULL) == &node, "%s: taken out", what);
	fgi_parked_remove(list, &node);
	fgi_parked_unlock(list);
}

/* ---- releases ---- */

static void read_unlock(void)
{
	fgi_rwlock_read_unlock_slow(&l, false);
}

static void write_unlock(void)
{
	fgi_rwlock_write_unlock_slow(&l);
}

static void unlock_any(void)
{
	fgi_rwlock_unlock(&l);
}

/* Another reader comes while the last one hands the lock over: it is not the last any more. */
static void a_reader_comes(bool due)
{
	make(READ(1) | P, READ(2) | P);
	fgi_parked_unlock(park(true, due));
	read_unlock();
	check("a reader comes", READ(1) | P);
	CHECK(!fgi_rw_rests(&l.unreserved_until, fgi_now_ns(CLOCK_MONOTONIC)), "it was handed over");
	stays_parked("a reader comes", fgi_parked_lock(&l));
}

/* The others leave before a reader that has seen them: it is the last, and wakes the writer that has parked. */
static void others_leave(void)
{
	make(READ(2) | P, READ(1) | P);
	fgi_parked_unlock(park(true, false));
	read_unlock();
	check("others leave", K);
	CHECK_IS(node.state, FGI_PARKED_RETRY);
}

/* Or one that was woken does, which is on its way. */
static void others_leave_and_one_is_woken(void)
{
	make(READ(2) | P | K, READ(1) | P | K);
	fgi_parked_unlock(park(true, false));
	read_unlock();
	check("one is woken", P | K);
	stays_parked("one is woken", fgi_parked_lock(&l));
}

static void takes_a_free_lock(void)
{
	if (!(l.word & FGI_RW_HELD))
		l.word |= OTHER + 1;
}

static void leaves_and_takes_a_free_lock(void)
{
	l.word -= READ(1);
	other = takes_a_free_lock;
}

/* Others leave before a reader that has seen them. It is the last, and hands the lock over before a thread that runs
 * can take it. */
static void hands_over_at_once(void (*unlock)(void))
{
	make(READ(2) | P | R, 0);
	fgi_parked_unlock(park(true, true));
	other = leaves_and_takes_a_free_lock;
	unlock();
	check("hands over at once", OTHER);
	CHECK_IS(node.state, FGI_PARKED_OWNER);
}

/* A writer has the lock, or a woken thread is on its way, by the time that the last reader looks into the list. */
static void another_goes_on(uint64_t word)
{
	make(word, 0);
	other = NULL;
	fgi_parked_unlock(park(true, false));
	fgi_rw_left(&l);
	CHECK(l.word == word, "%lx, not %lx", l.word, word);
	stays_parked("another goes on", fgi_parked_lock(&l));
}

/* The lock is gone, and in its memory is a mutex, free or taken, at which a thread of a condition variable waits. */
static void a_mutex_is_there(uint64_t word)
{
	struct fgi_parked_list *list;

	make(word, 0);
	other = NULL;
	list = park(false, false);
	node.list = list;
	fgi_parked_unlock(list);
	fgi_rw_left(&l);
	CHECK(l.word == word, "%lx", l.word);
	stays_parked("a mutex is there", fgi_parked_lock(&l));
}

/* A woken thread gives up while the writer leaves: now it has to wake the one that is parked. */
static void a_turn_comes_back(void)
{
	make(OTHER | P | K, OTHER | P);
	other = NULL;
	fgi_parked_unlock(park(true, false));
	other = sets_word;
	write_unlock();
	check("a turn comes back", K);
	CHECK_IS(node.state, FGI_PARKED_RETRY);
}

static void nobody_is_let_into_a_taken_lock(void)
{
	enum fgi_parked_state state = FGI_PARKED_AWAKE;
	struct fgi_parked_list *list;

	make(P | R, OTHER | P | R);
	list = park(false, false);
	CHECK(!fgi_rw_let_in(&l, list, &state), "a writer has it");
	check("let in", OTHER | P | R);
	stays_parked("let in", list);
}

static void flags_keep_what_else_changes(void)
{
	struct fgi_parked_list *list;

	make(READ(1) | P | R, READ(2) | P | R);
	list = fgi_parked_lock(&l);
	fgi_rw_set_flags(&l, list);
	fgi_parked_unlock(list);
	check("flags", READ(2));
}

/* ---- calls ---- */

static int read_it(void)
{
	return fgi_rwlock_read(&l, FGI_NEVER);
}

static int read_slowly(void)
{
	return fgi_rwlock_read_slow(&l, FGI_NEVER);
}

static int write_it(void)
{
	return fgi_rwlock_write(&l, FGI_NEVER);
}

static int write_slowly(void)
{
	return fgi_rwlock_write_slow(&l, FGI_NEVER);
}

static int try_read(void)
{
	return fgi_rwlock_try_read(&l);
}

static int try_write(void)
{
	return fgi_rwlock_try_write(&l);
}

static int unlock_read(void)
{
	read_unlock();
	return 0;
}

static int unlock_write(void)
{
	write_unlock();
	return 0;
}

static int unlock(void)
{
	fgi_rwlock_unlock(&l);
	return 0;
}

enum { WRITES = 1 }; /* the word then has this thread's tid */

static const struct {
	int (*call)(void);
	uint64_t word, then;
	int result, more;
	uint64_t next;
} calls[] = {
	{read_it, 0, READ(1), 0, 0, READ(2)},
	{read_slowly, 0, READ(1), 0, 0, READ(2)},
	{try_read, 0, READ(1), 0, 0, READ(2)},
	{try_read, 0, OTHER, EBUSY, 0, OTHER},
	{try_read, 0, FGI_RW_FULL, EAGAIN, 0, FGI_RW_FULL},
	{write_it, 0, P, 0, WRITES, P},
	{write_slowly, 0, P, 0, WRITES, P},
	{try_write, 0, K, 0, WRITES, K},
	{try_write, 0, READ(1), EBUSY, 0, READ(1)},
	{unlock_read, READ(1), READ(2), 0, 0, READ(1)},
	{unlock_read, READ(2), READ(1), 0, 0, 0},
	{unlock, READ(2), READ(1), 0, 0, 0},
	{unlock, READ(2), READ(1) | P, 0, 0, P},
	{unlock, READ(1), READ(2), 0, 0, READ(1)},
	{unlock_write, OTHER, OTHER | P | K, 0, 0, P | K},
};

static void calls_try_again(void)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		make(calls[i].word, calls[i].then);
		CHECK(calls[i].call() == calls[i].result, "call %zu", i);
		CHECK(!other, "call %zu: no such step", i);
		CHECK(l.word == calls[i].next + (calls[i].more & WRITES ? fgi_self() : 0), "call %zu: %lx", i, l.word);
	}
}

/* ---- a reader that counts itself beside a writer ---- */

static int read_late(void)
{
	static const struct timespec past;

	return fgi_rwlock_read(&l, FGI_DEADLINE(CLOCK_MONOTONIC, &past));
}

static int no_longer_free(void)
{
	int result = read_late();

	CHECK(fg_thread.held == 0 && fgi_reading == 0, "it takes itself for a reader");
	return result;
}

/* A writer takes the lock in between: the reader is none. */
static void a_writer_comes_first(void)
{
	make(0, OTHER);
	CHECK_IS(no_longer_free(), ETIMEDOUT);
	check("a writer comes first", OTHER);
	make(0, READ(1) | R);
	CHECK_IS(no_longer_free(), ETIMEDOUT);
	check("the lock is reserved", READ(1) | R);
	make(0, OTHER);
	CHECK_IS(try_read(), EBUSY);
	check("a writer comes before a try", OTHER);
}

/* And others are parked: they wait for that writer's release, not for the reader that takes its count back. */
static void a_writer_comes_first_beside_parked_ones(void)
{
	make(0, OTHER | P);
	fgi_parked_unlock(park(true, true));
	CHECK_IS(no_longer_free(), ETIMEDOUT);
	check("a writer comes first", OTHER | P);
	stays_parked("a writer comes first", fgi_parked_lock(&l));
}

/* By the time that it takes its count back the writer has left, and another has parked because of it. */
static void a_writer_parks_for_it(void)
{
	becomes = READ(1) | P;
	other = sets_word;
}

static void takes_the_lock(void)
{
	l.word = OTHER;
	other = a_writer_parks_for_it;
	other();
}

static void wakes_what_it_has_kept_out(void)
{
	make(0, 0);
	fgi_parked_unlock(park(true, false));
	other = takes_the_lock;
	CHECK_IS(read_late(), 0);
	check("it has kept a writer out", READ(1) | K);
	CHECK_IS(node.state, FGI_PARKED_RETRY);
}

/* ---- a thread that pauses ---- */

/* Whatever its history says. */
static void pauses_after_its_sleep(void)
{
	struct wait w = wait_at(&l, true, FGI_NEVER);

	make(0, 0);
	other = NULL;
	w.slept = true;
	CHECK(stay_awake(&w), "it does not look");
}

/* ---- an awake writer ---- */

/* It keeps further readers out where several read, until it has the lock or goes to sleep. */
static void a_writer_waits_for_several(void)
{
	static const struct timespec past;
	struct wait w = wait_at(&l, true, FGI_NEVER), r, late;

	make(READ(1), 0);
	other = NULL;
	CHECK(!worth_a_try(&w) && !(l.word & A), "one reader");
	l.word = READ(2);
	CHECK(!worth_a_try(&w) && (l.word & A), "two readers");
	r = wait_at(&l, false, FGI_NEVER);
	CHECK(!worth_a_try(&r), "a reader is kept out");
	fgi_reading = 1;
	r = wait_at(&l, false, FGI_NEVER);
	fgi_reading = 0;
	CHECK(worth_a_try(&r), "a thread that reads is not");
	late = wait_at(&l, false, FGI_DEADLINE(CLOCK_MONOTONIC, &past));
	CHECK(read_wait(&late) == 0, "kept out beyond its deadline");
	end_wait(&late, 0);
	CHECK(l.word == READ(3), "%lx", l.word);
	CHECK(!(l.word & A), "nobody is awake any more");
	l.word = A;
	CHECK(fgi_rwlock_write_slow(&l, FGI_NEVER) == 0 && !(l.word & A), "the writer has the lock");
	fgi_rwlock_unlock(&l);
}

/* ---- parking ---- */

/* Its deadline has passed: a thread that parks here does not sleep. */
static struct wait late_waiter(bool writer)
{
	static const struct timespec past;
	struct wait w = wait_at(&l, writer, FGI_DEADLINE(CLOCK_MONOTONIC, &past));

	w.node.since_ns = fgi_now_ns(CLOCK_MONOTONIC);
	return w;
}

static void does_not_park(bool writer)
{
	struct wait w;

	make(OTHER, 0);
	w = late_waiter(writer);
	CHECK(!enter_list(&w), "it parks at a free lock");
	check("parks", 0);
}

static void reserves_no_free_lock(bool writer)
{
	struct fgi_parked_list *list;
	struct wait w;

	make(OTHER, P);
	other = NULL;
	w = late_waiter(writer);
	CHECK(enter_list(&w), "the lock is taken");
	other = sets_word;
	list = fgi_parked_lock(&l);
	reserve(&w, list);
	CHECK(!fgi_parked_next(list, &l, NULL), "it stays parked at a free lock");
	fgi_parked_unlock(list);
	check("reserves", 0);
	CHECK_IS(w.node.state, FGI_PARKED_RETRY);
	CHECK(!w.node.reserved, "it keeps readers out");
}

/* The thread that was handed the lock got a CPU after 10 ms: none is handed it for nine times as long. */
static void comes_late(void)
{
	uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);
	struct wait w;

	make(0, 0);
	other = NULL;
	w = late_waiter(true);
	w.node.told_ns = now - 10000000;
	handed(&w);
	CHECK((int32_t)(l.unreserved_until - fgi_rw_ticks(now + 80000000)) > 0, "it rests too short");
}

/* ---- a signal handler jumps out of the sleep, or a cancellation ends it ---- */

static struct wait asleep(bool writer, uint64_t word, enum fgi_parked_state state)
{
	struct wait w;

	make(word, 0);
	other = NULL;
	w = late_waiter(writer);
	w.node.forks = fgi_forks;
	w.node.state = state;
	w.parked = true;
	if (writer)
		fgi_intent_set(fgi_rw_owner(&l));
	return w;
}

static void is_abandoned(struct wait *w, uint64_t next)
{
	abandoned(w);
	CHECK(l.word == next, "%lx, not %lx", l.word, next);
	CHECK(fg_thread.pending == 0, "it still means to write");
}

static void is_abandoned_with_the_lock(void)
{
	struct wait w = asleep(true, fgi_self(), FGI_PARKED_OWNER);

	is_abandoned(&w, 0);
	w = asleep(false, READ(2), FGI_PARKED_OWNER);
	is_abandoned(&w, READ(1));
}

static void is_abandoned_in_the_list(bool writer, uint64_t word, uint64_t next)
{
	struct wait w = asleep(writer, word | P, FGI_PARKED_ASLEEP);
	struct fgi_parked_list *list = fgi_parked_lock(&l);

	fgi_parked_add(list, &w.node, false);
	fgi_parked_unlock(list);
	is_abandoned(&w, next);
	list = fgi_parked_lock(&l);
	CHECK(!fgi_parked_next(list, &l, NULL), "its node stays in the list");
	fgi_parked_unlock(list);
}

/* Its turn goes on to one that is parked. */
static void is_abandoned_on_its_way(void)
{
	struct wait w = asleep(true, P | K, FGI_PARKED_RETRY);

	fgi_parked_unlock(park(true, false));
	is_abandoned(&w, P | K);
	CHECK_IS(node.state, FGI_PARKED_RETRY);
}

/* In the child of a fork, where nobody tells it anything. */
static void is_abandoned_in_a_child(void)
{
	struct wait w = asleep(true, READ(1), FGI_PARKED_ASLEEP);

	w.node.forks = fgi_forks + 2;
	is_abandoned(&w, READ(1));
}

static void end_late(void)
{
	struct wait w = asleep(false, OTHER, FGI_PARKED_RETRY);

	w.suspended = true;
	fgi_async_suspend();
	is_abandoned(&w, OTHER);
}

/* ---- the caller's asynchronous cancellation, which a release and a writer suspend ---- */

static void end_bias(void)
{
	CHECK(!fgi_rw_end_bias(&l), "nobody stands there");
}

static void call_asynchronously(void (*call)(void))
{
	int type;

	fgi_async = 1;
	CHECK_IS(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	call();
	CHECK_IS(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type), 0);
	fgi_async = 0;
	CHECK_IS(type, PTHREAD_CANCEL_ASYNCHRONOUS);
}

static void is_asynchronous_again(void (*call)(void), uint64_t word)
{
	make(word, 0);
	other = NULL;
	call_asynchronously(call);
}

/* The lock is not free before the cancellation is suspended, and so before the next thread is woken in any case. */
static void wakes_at_once(void (*unlock)(void))
{
	make(READ(2) | P, 0);
	fgi_parked_unlock(park(true, false));
	other = leaves_and_takes_a_free_lock;
	call_asynchronously(unlock);
	check("wakes at once", K);
	CHECK_IS(node.state, FGI_PARKED_RETRY);
}

/* ---- the table of readers ---- */

static uint64_t *entry;

static void ends_bias(void)
{
	l.word &= ~B;
}

/* A writer ends the bias while a reader enters, who must not stay there: the writer may have looked already. */
static void the_bias_ends(int (*read)(void), uint32_t counted)
{
	make((counted ? READ(counted) : 0) | B | E, 0);
	entry = fgi_readers_entry(&l);
	other = ends_bias;
	CHECK_IS(read(), 0);
	check("the bias ends", READ(counted + 1) | E);
	CHECK_IS(*entry, 0);
	CHECK_IS(fgi_reading, 1);
	CHECK_IS(fg_thread.held, 1);
}

/* And another reader of the lock, with the same entry, has left by it. Its own count in the word is now this one's. */
static void leaves_by_its_entry(void)
{
	*entry = 0;
	l.word = READ(1) | E;
}

static void the_bias_ends_and_a_reader_leaves(void)
{
	make(B | E, 0);
	entry = fgi_readers_entry(&l);
	other = leaves_by_its_entry;
	CHECK_IS(read_it(), 0);
	check("a reader leaves", READ(1) | E);
	CHECK_IS(*entry, 0);
	CHECK_IS(fgi_reading, 1);
}

static void biases_and_enters(void)
{
	l.word |= B;
	CHECK(fgi_readers_enter(entry, &l), "the entry is free");
}

/* Readers bias the lock again, and one enters, while a writer finds the table without readers: it has not seen it. */
static void readers_come_back(void)
{
	make(B | E, 0);
	other = NULL;
	entry = fgi_readers_entry(&l);
	after_search = biases_and_enters;
	CHECK(fgi_rw_end_bias(&l) == entry, "a reader stands there");
	CHECK(!after_search, "no such step");
	check("readers come back", E);
	CHECK(fgi_readers_leave(entry, &l), "a reader stood there");
}

static void a_reader_counts_itself(void)
{
	make(B | E, READ(1) | E);
	CHECK(!fgi_rw_end_bias(&l), "nobody stands there");
	check("a reader counts itself", READ(1));
}

/* What no thread has locked stays free; a read lock in the table that another thread has taken is given up. */
static void gives_up_what_others_took(void)
{
	make(0, 0);
	other = NULL;
	unlock();
	CHECK_IS(l.word, 0);
	make(B | E, 0);
	other = NULL;
	entry = &fgi_readers[(fgi_self() + 1) % FGI_READER_ROWS][fgi_readers_column(&l)];
	CHECK(fgi_readers_enter(entry, &l), "the entry is free");
	unlock();
	CHECK_IS(l.word, B | E);
	CHECK_IS(*entry, 0);
	CHECK_IS(fg_thread.held, 0);
}

/* Two readers leave while a thread gives up what a third one has locked, which stands in the table: nothing is left in
 * the word that it could subtract. */
static void others_leave_beside_a_table(int (*gives_up)(void))
{
	uint64_t *entry = &fgi_readers[(fgi_self() + 1) % FGI_READER_ROWS][fgi_readers_column(&l)];

	make(READ(2) | B | E, B | E);
	CHECK(fgi_readers_enter(entry, &l), "the entry is free");
	gives_up();
	check("others leave beside a table", B | E);
	CHECK_IS(*entry, 0);
}

int main(void)
{
	check_watchdog(500);
	fgi_readers_used = 1;
	a_reader_comes(false);
	a_reader_comes(true);
	a_turn_comes_back();
	nobody_is_let_into_a_taken_lock();
	flags_keep_what_else_changes();
	calls_try_again();
	others_leave();
	others_leave_and_one_is_woken();
	hands_over_at_once(read_unlock);
	hands_over_at_once(unlock_any);
	another_goes_on(OTHER | P);
	another_goes_on(P | K);
	a_mutex_is_there(0);
	a_mutex_is_there(P);
	a_mutex_is_there(OTHER | P);
	a_writer_comes_first();
	a_writer_comes_first_beside_parked_ones();
	wakes_what_it_has_kept_out();
	pauses_after_its_sleep();
	a_writer_waits_for_several();
	is_asynchronous_again(read_unlock, READ(1) | P);
	is_asynchronous_again(write_unlock, OTHER | P);
	is_asynchronous_again(end_bias, E);
	is_asynchronous_again(end_late, OTHER);
	wakes_at_once(read_unlock);
	wakes_at_once(unlock_any);
	does_not_park(false);
	does_not_park(true);
	reserves_no_free_lock(false);
	reserves_no_free_lock(true);
	comes_late();
	is_abandoned_with_the_lock();
	is_abandoned_in_the_list(true, READ(1), READ(1));
	is_abandoned_in_the_list(false, READ(1) | R, READ(1));
	is_abandoned_in_the_list(false, OTHER, OTHER);
	is_abandoned_on_its_way();
	is_abandoned_in_a_child();
	for (uint32_t counted = 0; counted < 2; counted++) {
		the_bias_ends(read_it, counted);
		the_bias_ends(try_read, counted);
	}
	the_bias_ends_and_a_reader_leaves();
	readers_come_back();
	a_reader_counts_itself();
	gives_up_what_others_took();
	others_leave_beside_a_table(unlock);
	others_leave_beside_a_table(unlock_read);
	return 0;
}
