/* SPDX-License-Identifier: MIT */
/* The default lock's ledger, on counts that a machine might have produced: faked, so each run sees the same. */
#include "locks/default/ledger.h"

#include <stdbool.h>

#include "tests/check.h"

#define LOCKS 4096

static char memory[LOCKS][16] __attribute__((aligned(16))); /* locks: only their addresses matter */
static uint64_t now = 1000000000000u;
static uint32_t ops;

/* Lets the sample go by at this many acquisitions per ms; returns what ruled it. */
static enum fgi_regime sample(const void *lock, uint32_t rate)
{
	struct fgi_ledger *ledger = fgi_ledger(lock);
	enum fgi_regime ruled = fgi_ledger_regime(lock);
	uint64_t length = ledger->until_ns > now ? ledger->until_ns - now : fgi_tune.sample_ns;

	now += length;
	ops += (uint32_t)(rate * length / 1000000);
	fgi_ledger_close(ledger, lock, ops, now);
	return ruled;
}

/* How many of `samples` were ruled by LEASED, on a machine where the regimes bring so much. */
static int leased_of(const void *lock, int samples, uint32_t greedy, uint32_t leased)
{
	int count = 0;

	for (int i = 0; i < samples; i++)
		count += sample(lock, fgi_ledger_regime(lock) == FGI_LEASED ? leased : greedy) == FGI_LEASED;
	return count;
}

/* The place of this lock is its own from here on. */
static void begin(const void *lock)
{
	now += 1000 * fgi_tune.sample_ns;
	fgi_ledger_close(fgi_ledger(lock), lock, ops, now);
	CHECK(fgi_ledger(lock)->lock == (uintptr_t)lock);
}

static void test_better_regime(void)
{
	const struct {
		uint32_t greedy, leased;
	} machines[] = {{2000, 6000}, {6000, 2000}, {3000, 5000}, {5000, 3000}, {500, 50000}, {50000, 500}};

	for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
		int leased;

		begin(memory[i]);
		leased = leased_of(memory[i], 640, machines[i].greedy, machines[i].leased);
		CHECK(machines[i].leased > machines[i].greedy ? leased >= 590 : leased <= 50,
		      "%u greedy, %u leased: leased in %d of 640 samples", machines[i].greedy, machines[i].leased,
		      leased);
		CHECK(leased > 0 && leased < 640, "one of them was never tried");
	}
}

/* The host moves its CPUs, and what was better is not any more. */
static void test_change(void)
{
	begin(memory);
	leased_of(memory, 200, 3000, 6000);
	CHECK(leased_of(memory, 640, 6000, 3000) < 200, "it stays with what was better");
	CHECK(leased_of(memory, 640, 3000, 6000) > 440, "it stays with what was better");
}

static void test_cold(void)
{
	const uint32_t cold = 1000000 / FGI_COLD_NS / 2;

	begin(memory);
	leased_of(memory, 64, 3000, 6000);
	leased_of(memory, 2, cold, cold);
	CHECK(leased_of(memory, 200, cold, cold + 50) == 0, "a lock that is seldom taken was leased");
	CHECK(fgi_ledger_pace_ns(memory) > FGI_COLD_NS);
	CHECK(leased_of(memory, 640, 3000, 6000) > 500, "it is not seldom taken any more");
	leased_of(memory, 1, 0, 0);
	CHECK(fgi_ledger_pace_ns(memory) >= fgi_tune.sample_ns, "no acquisition in a sample");
}

/* A sample that nobody closed for long says nothing: in between nobody wanted the lock. */
static void test_gap(void)
{
	struct fgi_ledger *ledger = fgi_ledger(memory);
	struct fgi_ledger before;

	begin(memory);
	leased_of(memory, 64, 3000, 6000);
	before = *ledger;
	now = ledger->until_ns + 100 * fgi_tune.sample_ns;
	fgi_ledger_close(ledger, memory, ops += 17, now);
	CHECK(memcmp(before.rates, ledger->rates, sizeof(before.rates)) == 0 && before.samples == ledger->samples);
	CHECK(before.pace_ns == ledger->pace_ns);
	CHECK(ledger->until_ns == now + fgi_tune.sample_ns, "no new sample was begun");
}

static bool same(const struct fgi_ledger *a, const struct fgi_ledger *b)
{
	return a->lock == b->lock && a->from_ns == b->from_ns && a->until_ns == b->until_ns && a->ops == b->ops &&
	       a->regime == b->regime && a->busy == b->busy && a->samples == b->samples && a->pace_ns == b->pace_ns &&
	       a->rotated_us == b->rotated_us && memcmp(a->rates, b->rates, sizeof(a->rates)) == 0;
}

/* Who comes too early, or while another is at it, changes nothing. */
static void test_nothing_to_close(void)
{
	struct fgi_ledger *ledger = fgi_ledger(memory);
	struct fgi_ledger before;

	begin(memory);
	before = *ledger;
	fgi_ledger_close(ledger, memory, ops + 5, ledger->until_ns - 1);
	CHECK(same(&before, ledger));
	ledger->busy = fgi_forks + 1;
	fgi_ledger_close(ledger, memory, ops + 5, ledger->until_ns);
	ledger->busy = 0;
	CHECK(same(&before, ledger));
}

/* Whoever was at it when a fork took place is not in the child. */
static void test_busy_before_fork(void)
{
	struct fgi_ledger *ledger = fgi_ledger(memory);
	uint32_t samples;

	begin(memory);
	samples = ledger->samples;
	ledger->busy = fgi_forks + 1;
	fgi_forks += 2;
	sample(memory, 3000);
	CHECK(ledger->samples == samples + 1 && ledger->busy == 0);
}

/* Another lock at the same address: its count is not a difference to the old one's. */
static void test_reborn(void)
{
	begin(memory);
	leased_of(memory, 64, 3000, 6000);
	CHECK(ops > 1000);
	ops = 10;
	sample(memory, 1);
	CHECK(fgi_ledger_pace_ns(memory) == 0 && fgi_ledger(memory)->samples == 0, "pace %u ns",
	      fgi_ledger_pace_ns(memory));
	CHECK(leased_of(memory, 640, 3000, 6000) >= 590);
}

/* A waiter that has slept for longer than any sample knows the pace better; a shorter sleep says nothing. */
static void test_slept(void)
{
	const uint64_t longest = FGI_STALE_SAMPLES * fgi_tune.sample_ns;

	begin(memory);
	leased_of(memory, 64, 3000, 6000);
	CHECK(fgi_ledger_pace_ns(memory) < FGI_COLD_NS);
	fgi_ledger_slept(memory, longest);
	fgi_ledger_slept(memory[0] + 16 * FGI_LEDGERS, 2 * longest);
	CHECK(fgi_ledger_pace_ns(memory) < FGI_COLD_NS);
	fgi_ledger_slept(memory, longest + 1);
	CHECK(fgi_ledger_pace_ns(memory) == longest + 1);
	fgi_ledger_slept(memory, UINT64_MAX);
	CHECK(fgi_ledger_pace_ns(memory) == UINT32_MAX);
}

static void test_count_wraps(void)
{
	ops = UINT32_MAX - 100;
	begin(memory);
	CHECK(leased_of(memory, 640, 3000, 6000) >= 590);
	CHECK(fgi_ledger_pace_ns(memory) < 1000, "pace %u ns", fgi_ledger_pace_ns(memory));
}

/* A regime that is told is the only one, whatever it brings. */
static void test_told(void)
{
	for (uint64_t regime = 0; regime < FGI_REGIMES; regime++) {
		fgi_tune.regime = regime;
		begin(memory);
		for (int i = 0; i < 300; i++)
			CHECK(sample(memory, (uint32_t)(i % 7) * 1000) == regime);
	}
	fgi_tune.regime = FGI_ANY_REGIME;
}

/* Two locks that fall on one place: it is the first one's until that has been idle for some samples. */
static void test_foreign(void)
{
	const void *first = memory[0], *second = NULL;
	struct fgi_ledger *place = fgi_ledger(first);

	for (int i = 1; i < LOCKS && !second; i++)
		if (fgi_ledger(memory[i]) == place)
			second = memory[i];
	CHECK(second, "no two of %d locks fall together", LOCKS);
	begin(first);
	for (int i = 0; i < 200; i++) {
		sample(first, fgi_ledger_regime(first) == FGI_LEASED ? 6000 : 3000);
		fgi_ledger_close(place, second, 4711, now);
		fgi_ledger_close(place, second, 4711, place->until_ns);
		CHECK(place->lock == (uintptr_t)first, "a busy lock lost its place");
		CHECK(fgi_ledger_regime(second) == FGI_GREEDY && fgi_ledger_pace_ns(second) == 0);
	}
	now = place->until_ns + (FGI_STALE_SAMPLES + 1) * fgi_tune.sample_ns;
	fgi_ledger_close(place, second, 4711, now);
	CHECK(place->lock == (uintptr_t)second, "an idle lock kept its place");
	CHECK(fgi_ledger_regime(first) == FGI_GREEDY && fgi_ledger_pace_ns(first) == 0);
	CHECK(place->samples == 0 && place->ops == 4711, "it began with what was the other's");
}

/* Neighbours, as in an array or a node of a tree, are not all sent to the same few places. */
static void test_spread(void)
{
	for (size_t stride = 1; stride <= 256; stride *= 2) {
		static bool used[FGI_LEDGERS];
		unsigned int places = 0;

		memset(used, 0, sizeof(used));
		for (uintptr_t i = 0; i < 512; i++) {
			const void *lock = (const void *)(0x5500001230 + i * stride * 16);

			places += !used[fgi_ledger(lock) - fgi_ledgers];
			used[fgi_ledger(lock) - fgi_ledgers] = true;
		}
		CHECK(places > 256, "512 locks, %zu bytes apart, have %u places", stride * 16, places);
	}
}

int main(void)
{
	check_watchdog(100);
	test_better_regime();
	test_change();
	test_cold();
	test_gap();
	test_nothing_to_close();
	test_busy_before_fork();
	test_reborn();
	test_slept();
	test_count_wraps();
	test_told();
	test_foreign();
	test_spread();
	return 0;
}
