/* SPDX-License-Identifier: MIT */
/* The default lock and the calls by which the model drives it. src/order.h and src/hooks.rs say what stands for the
 * rest of the machine. */
#include "locks/default/flexguard.c"

#include "runtime/spin_budget.c"

__thread struct fg_thread_block fg_thread __attribute__((aligned(FG_CACHE_LINE)));
uint32_t fgi_forks;

/* Leases and turns of a microsecond, and a clock that goes a millisecond further each time it is read: so whoever waits
 * has always waited for long enough to take the next step, up to the sleep. Samples that no test outlives. */
struct fgi_tune fgi_tune = {
	.regime = FGI_ANY_REGIME,
	.lease_ns = 1000,
	.rotate_ns = 3600000000000u,
	.sample_ns = 1000000000,
};

const struct fg_shared fgi_no_monitor;
const struct fg_shared *fgi_monitor_page = &fgi_no_monitor;

bool fgi_monitor_alive(uint64_t now_ns)
{
	(void)now_ns;
	return false;
}

/* arm64's release is one atomic operation, so there is nothing that an interrupt would have to hurry. */
bool fgi_membarrier(void)
{
	return true;
}

/* The model sets `self` where it starts a thread. */
uint32_t fgi_thread_init(void)
{
	return fg_thread.self;
}

struct fgo {
	struct fg_lock lock;
	uint32_t data; /* what the lock, the seat or `busy` protects */
} __attribute__((aligned(16)));

/* As the model asks for it: src/lib.rs. */
struct fgo_setup {
	bool leased;
	uint32_t pace_ns;
	bool rotate;
	uint32_t seats;
};

struct fgo_place {
	void *at;
	size_t size;
};

/* Next to each other, so that no two share a ledger: its hash spreads neighbours. */
#define FGO_LOCKS 16
static struct fgo fgo_locks[FGO_LOCKS];

/* The nth lock, new. NULL: there are no more. */
struct fgo *fgo_new(uint32_t n, const struct fgo_setup *setup)
{
	struct fgo *o = &fgo_locks[n];
	struct fgi_ledger *ledger = fgi_ledger(o);

	if (n >= FGO_LOCKS || (ledger->lock && ledger->lock != (uintptr_t)o))
		return NULL;
	*o = (struct fgo){.lock.room.seats = setup->seats};
	*ledger = (struct fgi_ledger){
		.lock = (uintptr_t)o,
		.until_ns = UINT64_MAX,
		.regime = setup->leased ? FGI_LEASED : FGI_GREEDY,
		.pace_ns = setup->pace_ns,
		.rotated_us =
			setup->rotate ? 1u << 29 : 0, /* more than rotate_ns ago, or not, as the clock begins at 0 */
	};
	return o;
}

/* What threads share of it: `places`, at most 20. With `ledger` also the account, whose sample is over then. */
size_t fgo_places(struct fgo *o, bool ledger, struct fgo_place *places)
{
	struct fgi_ledger *l = fgi_ledger(o);
	char *at = (char *)l;
	size_t n = 0;

	for (size_t i = 0; i < sizeof(o->lock) / 4; i++)
		places[n++] = (struct fgo_place){(uint32_t *)&o->lock + i, 4};
	places[n++] = (struct fgo_place){&o->data, 4};
	if (!ledger)
		return n;
	l->until_ns = 0;
	for (size_t i = 0; i < offsetof(struct fgi_ledger, rotated_us) + 4;) {
		size_t size = i < offsetof(struct fgi_ledger, ops) ? 8 : 4;

		places[n++] = (struct fgo_place){at + i, size};
		i += size;
	}
	return n;
}

/* ---- what a thread of the model may do -------------------------------------------------------------------------- */

struct fg_thread_block *fgo_thread(void)
{
	return &fg_thread;
}

void fgo_touch(struct fgo *o)
{
	o->data++;
}

void fgo_lock(struct fgo *o)
{
	fgi_lock(&o->lock);
}

void fgo_unlock(struct fgo *o)
{
	fgi_unlock(&o->lock);
}

/* With a deadline that has passed. */
int fgo_timedlock(struct fgo *o)
{
	return fgi_timedlock(&o->lock, CLOCK_MONOTONIC, &(struct timespec){0});
}

/* Until it is the alpha: here there is no lock that it might take instead. */
static int fgo_parked(struct fgo *o, struct fgi_place *at)
{
	int result;

	do
		result = fgi_room_park(&o->lock.room, at, &FGI_SPIN_BUDGET(CLOCK_MONOTONIC, NULL));
	while (result == EAGAIN);
	return result;
}

int fgo_enter(struct fgo *o, bool rotate)
{
	struct fgi_place at;

	return fgi_room_enter(&o->lock.room, fgi_tune.lease_ns, rotate, &at) ? 0 : fgo_parked(o, &at);
}

/* As one that was counted in the room when the gate was at `gate`. */
int fgo_park(struct fgo *o, uint32_t gate)
{
	struct fgi_place at = {.gate = gate};

	fgi_room_renew_deadline(&at, fgi_tune.lease_ns);
	return fgo_parked(o, &at);
}

void fgo_leave(struct fgo *o, bool call)
{
	if (fgi_room_leave(&o->lock.room, call))
		fgi_room_wake(&o->lock.room);
}

void fgo_call(struct fgo *o)
{
	fgi_room_call(&o->lock.room);
}

void fgo_close(struct fgo *o, uint32_t ops, uint64_t now)
{
	fgi_ledger_close(fgi_ledger(o), o, ops, now);
}
