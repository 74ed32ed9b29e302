/* SPDX-License-Identifier: MIT */
/* Who gets a read-write lock when it is given up, and what its word says then (sync/handover.c): a table of situations.
 * Nodes without threads play the waiters. */
#include "runtime/clock.h"
#include "sync/handover.h"
#include "tests/check.h"
#include "tests/unit/rwlock_word.h"

#define MOST 3
#define NODE(i) (1000ull + (i)) /* the thread of waiter i */

enum {
	READER = 1,
	WRITER = 2,
	DUE = 4,
	RESERVED = 8,
	URGENT = 16, /* of a higher priority */
};

struct situation {
	int waiters[MOST];
	uint64_t word;
	bool writers_first, rests;
	enum fgi_parked_state state; /* of those that are told */
	uint32_t told;               /* a bit each */
	uint64_t next;
};
#define NOBODY FGI_PARKED_AWAKE, 0
#define OWNER FGI_PARKED_OWNER
#define RETRY FGI_PARKED_RETRY

static const struct situation after_a_reader[] = {
	{{0}, READ(1) | P, false, false, NOBODY, 0},
	{{0}, READ(1) | P | R | K, false, false, NOBODY, K},
	{{0}, READ(1) | P | E | B, false, false, NOBODY, E | B},        /* the waiter has left meanwhile */
	{{WRITER | DUE}, READ(1) | P | K, false, false, NOBODY, P | K}, /* another comes */
	{{WRITER}, READ(2) | P, false, false, NOBODY, READ(1) | P},
	{{WRITER | DUE}, OTHER | READ(1) | P | R, false, false, NOBODY, OTHER | P | R}, /* it takes its count back */
	{{WRITER | DUE}, READ(2) | P | R, false, false, NOBODY, READ(1) | P | R},
	{{WRITER}, READ(1) | P, false, false, RETRY, 1, K},
	{{WRITER}, READ(1) | P, true, false, RETRY, 1, K | P | R},
	{{WRITER, WRITER}, READ(1) | P, false, false, RETRY, 1, K | P},
	{{WRITER, WRITER | RESERVED}, READ(1) | P | R, false, false, RETRY, 1, K | P | R},
	{{WRITER | RESERVED, WRITER | URGENT}, READ(1) | P | R, false, false, RETRY, 2, K | P | R},
	{{WRITER, WRITER | URGENT}, READ(1) | P, false, false, RETRY, 2, K | P},
	{{WRITER | URGENT, WRITER}, READ(1) | P, false, false, RETRY, 1, K | P},
	{{WRITER | DUE}, READ(1) | P | R, false, false, OWNER, 1, NODE(0)},
	{{WRITER | DUE}, READ(1) | P, false, true, RETRY, 1, K},
	{{WRITER | DUE}, READ(1) | P | R | K, false, false, OWNER, 1, K | NODE(0)},
	{{WRITER, WRITER | DUE}, READ(1) | P, false, false, OWNER, 1, P | NODE(0)},
	{{WRITER, WRITER | DUE | RESERVED}, READ(1) | P | R, false, false, OWNER, 1, P | R | NODE(0)},
	{{WRITER | DUE, WRITER | URGENT}, READ(1) | P, false, false, OWNER, 2, P | NODE(1)},
	{{WRITER | DUE, WRITER | RESERVED}, READ(1) | P | R, false, false, OWNER, 1, P | NODE(0)},
	{{WRITER | DUE, WRITER | RESERVED}, READ(1) | P | R, true, false, OWNER, 1, P | R | NODE(0)},
	{{WRITER | DUE, READER}, READ(1) | P | R, true, false, OWNER, 1, P | NODE(0)},
	{{READER, WRITER}, READ(1) | P, false, false, RETRY, 2, K | P},
	{{READER | RESERVED, WRITER}, READ(1) | P | R, false, false, RETRY, 2, K | P | R},
	{{READER | DUE, WRITER}, READ(1) | P, false, false, OWNER, 2, P | NODE(1)},
	{{READER}, READ(1) | P | R, false, false, RETRY, 1, K},
	{{READER | DUE}, READ(1) | P | E, false, false, OWNER, 1, READ(1) | E},
	{{WRITER | DUE}, READ(1) | P | E, false, false, RETRY, 1, K | E},
};

static const struct situation after_a_writer[] = {
	{{0}, OTHER | P, false, false, NOBODY, 0},
	{{WRITER}, OTHER | P, false, false, RETRY, 1, K},
	{{WRITER}, OTHER | P | R | K, true, false, NOBODY, P | R | K},
	{{WRITER | DUE}, OTHER | P | K, false, false, NOBODY, P | K},
	{{WRITER | DUE}, OTHER | P | R | K, false, false, OWNER, 1, K | NODE(0)},
	{{READER, WRITER, READER}, OTHER | P, false, false, RETRY, 5, K | P},
	{{READER}, OTHER | P, true, false, RETRY, 1, K},
	{{READER, WRITER}, OTHER | P | R, true, false, RETRY, 2, K | P | R},
	{{READER | RESERVED, WRITER | RESERVED}, OTHER | P | R, true, false, RETRY, 1, K | P | R},
	{{READER, WRITER | RESERVED, WRITER}, OTHER | P | R, false, false, RETRY, 1, K | P | R},
	{{READER, WRITER, WRITER | RESERVED}, OTHER | P | R, false, false, RETRY, 1, K | P | R},
	{{READER | DUE, WRITER, READER}, OTHER | P, false, false, OWNER, 5, READ(2) | P},
	{{READER | DUE, WRITER | RESERVED}, OTHER | P | R, false, false, OWNER, 1, READ(1) | P},
	{{READER, WRITER | DUE | RESERVED}, OTHER | P | R, false, false, OWNER, 1, READ(1) | P | R},
	{{READER | DUE, READER}, OTHER | P, false, false, OWNER, 3, READ(2)},
	{{READER | DUE}, OTHER | READ(1) | P, false, false, OWNER, 1, READ(2)}, /* that one takes its count back */
	{{WRITER | DUE}, OTHER | READ(1) | P, false, false, OWNER, 1, READ(1) | NODE(0)},
	{{WRITER}, OTHER | READ(1) | P, false, false, RETRY, 1, READ(1) | K},
	{{0}, OTHER | READ(1) | P, false, false, NOBODY, READ(1)},
};

/* A thread that was to come does not, or readers are no longer kept out. unit.rwlock_turns has the writers. */
static const struct situation let_in[] = {
	{{0}, 0, false, false, NOBODY, 0},
	{{READER, READER}, P | R, false, false, OWNER, 3, READ(2)},
	{{READER, WRITER, READER}, READ(1) | P | R, false, false, OWNER, 5, READ(3) | P},
	{{READER}, OTHER | P, false, false, NOBODY, OTHER | P},
	{{WRITER}, P, false, false, RETRY, 1, P | K},
	{{READER, WRITER, WRITER | RESERVED}, P | R, false, false, RETRY, 2, P | R | K},
	{{READER, WRITER | RESERVED, WRITER}, P | R, false, false, RETRY, 2, P | R | K},
	{{READER, WRITER | RESERVED}, READ(1) | P | R, false, false, NOBODY, READ(1) | P | R},
};

static struct fgi_rwlock l;
static struct fgi_parked nodes[MOST];

/* Returns the number of waiters. */
static int park(struct fgi_parked_list *list, const struct situation *s, uint64_t now)
{
	int n = 0;

	for (; n < MOST && s->waiters[n]; n++) {
		int as = s->waiters[n];

		nodes[n] = (struct fgi_parked){.object = &l,
					       .writer = as & WRITER,
					       .reserved = as & RESERVED,
					       .priority = as & URGENT ? 5 : 0,
					       .since_ns = as & DUE ? now - 2ull * FGI_RW_RESERVE_NS : UINT64_MAX,
					       .self = (uint32_t)NODE((uint32_t)n),
					       .state = FGI_PARKED_ASLEEP};
		fgi_parked_add(list, &nodes[n], false);
	}
	return n;
}

/* Whether the others have to wait anew. */
static bool is_handed_to_one_that_was_due(const struct situation *s)
{
	for (int i = 0; i < MOST; i++)
		if (s->state == OWNER && (s->told & 1u << i) && (s->waiters[i] & DUE))
			return true;
	return false;
}

static void look(const char *table, int index, const struct situation *s, int waiters, bool rests)
{
	bool paced = !s->rests && is_handed_to_one_that_was_due(s);
	struct fgi_parked_list *list;

	CHECK(l.word == s->next, "%s %d: %lx, not %lx", table, index, l.word, s->next);
	list = fgi_parked_lock(&l);
	for (int i = 0; i < waiters; i++) {
		bool told = s->told & 1u << i;
		enum fgi_parked_state should = told ? s->state : FGI_PARKED_ASLEEP;
		bool reserved = paced ? nodes[i].writer && s->writers_first : s->waiters[i] & RESERVED;

		CHECK(nodes[i].state == should, "%s %d: waiter %d is %d", table, index, i, (int)nodes[i].state);
		CHECK(!told || nodes[i].told_ns, "%s %d: waiter %d does not know since when", table, index, i);
		if (told)
			continue;
		CHECK(nodes[i].reserved == reserved, "%s %d: waiter %d", table, index, i);
		fgi_parked_remove(list, &nodes[i]);
	}
	CHECK(fgi_parked_next(list, &l, NULL) == NULL, "%s %d: a waiter that was told is still in the list", table,
	      index);
	fgi_parked_unlock(list);
	CHECK(rests == (s->rests || paced), "%s %d: %s rest", table, index, rests ? "a" : "no");
}

static void set_up(const struct situation *s, uint64_t now)
{
	l = (struct fgi_rwlock){.word = s->word, .unbiased_until = s->writers_first * FGI_RW_WRITERS_FIRST};
	fgi_rw_rest(&l.unreserved_until, now, s->rests ? FGI_RW_LONGEST_REST_NS : 0);
}

static void released(const char *table, const struct situation *all, size_t many, bool writer)
{
	for (size_t i = 0; i < many; i++) {
		uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);
		struct fgi_parked_list *list;
		int waiters;

		set_up(&all[i], now);
		list = fgi_parked_lock(&l);
		waiters = park(list, &all[i], now);
		fgi_parked_unlock(list);
		if (writer)
			fgi_rwlock_write_unlock_slow(&l);
		else
			fgi_rwlock_read_unlock_slow(&l, false);
		look(table, (int)i, &all[i], waiters, fgi_rw_rests(&l.unreserved_until, now));
	}
}

static void are_let_in(void)
{
	for (size_t i = 0; i < sizeof(let_in) / sizeof(*let_in); i++) {
		uint64_t now = fgi_now_ns(CLOCK_MONOTONIC);
		enum fgi_parked_state state = FGI_PARKED_AWAKE;
		struct fgi_parked_list *list;
		struct fgi_parked *chain;
		int waiters;

		set_up(&let_in[i], now);
		list = fgi_parked_lock(&l);
		waiters = park(list, &let_in[i], now);
		chain = fgi_rw_let_in(&l, list, &state);
		fgi_parked_unlock(list);
		fgi_rw_tell(chain, state);
		look("let in", (int)i, &let_in[i], waiters, false);
	}
}

int main(void)
{
	check_watchdog(500);
	released("after a reader", after_a_reader, sizeof(after_a_reader) / sizeof(*after_a_reader), false);
	released("after a writer", after_a_writer, sizeof(after_a_writer) / sizeof(*after_a_writer), true);
	are_let_in();
	return 0;
}
