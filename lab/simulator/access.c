/* SPDX-License-Identifier: MIT */
/* What the instrumented code calls: its accesses to memory, the spin hint, the cycle counter.
 *
 * A call returns when the access is done in virtual time, and the caller then makes it in the host's memory, at once:
 * no other simulated thread runs in between.
 *
 * A store is in the store buffer by then, and a load that is no atomic one is under way: the thread goes on, until it
 * needs both done (fgs_cpu.stored_at, loaded_at). Where others wait for the line, the access waits its turn among them,
 * and its CPU with it. The request of another access takes a part of its time to reach the line's owner, which can use
 * the line meanwhile. */
#include <string.h>

#include "simulator/engine.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#define LOOKS_AHEAD (50 * FGS_NS) /* what a processor holds of instructions that are not done */

static bool is_buffered(enum fgs_access access)
{
	return access == FGS_STORE || access == FGS_PUBLISH;
}

static bool is_hit(const struct fgs_line *l, const struct fgs_cpu *c, enum fgs_access access)
{
	return access == FGS_LOAD || access == FGS_FETCH ? l->copies[c->word] & c->bit : l->owner == c->id + 1;
}

/* ---- who gets the line ------------------------------------------------------------------------------------------ */

static void remove_waiter(struct fgs_line *l, struct fgs_cpu *before, struct fgs_cpu *c)
{
	if (before)
		before->next_waiter = c->next_waiter;
	else
		l->first = c->next_waiter;
	if (l->last == c->id + 1)
		l->last = before ? (uint16_t)(before->id + 1) : 0;
	c->line = NULL;
	c->granted = true;
}

/* First come, first served; but now and then the nearest to where the line is, unless that bypasses one too often. */
void fgs_arbitrate(struct fgs_line *l, struct fgs_cpu **winner)
{
	struct fgs_cpu *c = &fgs_cpus[l->first - 1], *before = NULL, *best = c, *before_best = NULL;

	if (c->next_waiter && l->owner && c->bypassed < fgs_machine.key[FGS_bypasses] &&
	    fgs_chance(fgs_machine.key[FGS_nearest_first])) {
		fgs_ps least = fgs_distance(l->owner - 1u, c->id);

		for (c->bypassed++; c->next_waiter;) {
			fgs_ps distance;

			before = c;
			c = &fgs_cpus[c->next_waiter - 1];
			distance = fgs_distance(l->owner - 1u, c->id);
			if (distance < least) {
				least = distance;
				best = c;
				before_best = before;
			}
		}
	}
	remove_waiter(l, before_best, best);
	*winner = best;
}

static void serve_next(struct fgs_line *l)
{
	if (l->first)
		fgs_cpu_at(&fgs_cpus[l->first - 1], l->free_at);
}

/* ---- the store buffer ------------------------------------------------------------------------------------------- */

static void buffer_store(struct fgs_cpu *c, struct fgs_line *l, enum fgs_access access, fgs_ps done)
{
	fgs_ps *place = &c->store[c->store_place];

	if (c->stored_at < c->loaded_at)
		c->stored_at = c->loaded_at;
	if (c->stored_at < done)
		c->stored_at = done;
	else if (access == FGS_PUBLISH && l->free_at < c->stored_at)
		l->free_at = c->stored_at;
	if (*place > c->now)
		c->now = *place;
	*place = c->stored_at;
	c->store_place = (c->store_place + 1) % (uint32_t)fgs_machine.key[FGS_store_buffer];
	c->now += c->hit;
}

/* ---- an access -------------------------------------------------------------------------------------------------- */

/* When a load began that the CPU comes to now: the processor looks ahead while a locked access waits for its line. */
static fgs_ps began(const struct fgs_cpu *c)
{
	fgs_ps from = c->changes_from + fgs_costs.behind;

	return fgs_costs.behind && c->changed_at && c->now - c->changed_at < LOOKS_AHEAD && from < c->now ? from
													  : c->now;
}

static void take_line(struct fgs_cpu *c, struct fgs_line *l, enum fgs_access access, fgs_ps asked, double part)
{
	fgs_ps begin = access == FGS_FETCH ? began(c) : c->now, done;
	fgs_ps start = begin > l->free_at ? begin : l->free_at;

	if (fgs_costs.dram_remote)
		fgs_find_home(l, c->id);
	if (fgs_takes_away(l, access))
		fgs_lose_copies(l);
	done = fgs_transfer(l, c->id, access, start, part * (1 + fgs_plus_minus() * fgs_costs.spread));
	c->granted = false;
	fgs_statistics.transfers++;
	if (is_buffered(access)) {
		buffer_store(c, l, access, done);
	} else if (access == FGS_FETCH) {
		c->now += c->hit;
		if (done < c->now)
			done = c->now;
		if (c->loaded_at < done)
			c->loaded_at = done;
	} else {
		c->now = done + (access == FGS_CHANGE ? c->atomic : c->hit);
		if (access == FGS_CHANGE) {
			c->changes_from = asked;
			c->changed_at = c->now;
		}
	}
	l->lost += (c->now > done ? c->now : done) - asked;
	serve_next(l);
}

/* What is under way is done first; meanwhile others may take the line of a locked access. */
static void await_all(struct fgs_cpu *c)
{
	if (c->stored_at > c->now)
		c->now = c->stored_at;
	if (c->loaded_at > c->now)
		c->now = c->loaded_at;
}

static void hit(struct fgs_cpu *c, struct fgs_line *l, enum fgs_access access)
{
	l->dirty |= access != FGS_LOAD && access != FGS_FETCH;
	if (access == FGS_CHANGE) {
		c->paused = false;
		c->now += c->atomic;
		return;
	}
	if (access == FGS_PUBLISH && c->stored_at > c->now && l->free_at < c->stored_at)
		l->free_at = c->stored_at;
	c->now += c->hit;
}

static __attribute__((noinline)) void access_slow(struct fgs_line *l, enum fgs_access access)
{
	struct fgs_cpu *c = fgs_here;
	fgs_ps asked = 0;
	bool arrived = is_buffered(access) || access == FGS_FETCH;

	if (UNLIKELY(fgs_checks)) {
		fgs_turn();
		return;
	}
	if (UNLIKELY(fgs_in_kernel)) {
		fgs_kernel_line(c, l, access);
		return;
	}
	if (access == FGS_CHANGE)
		await_all(c);
	for (;; c = fgs_here) {
		bool hits = is_hit(l, c, access);

		if (c->now > (hits && access != FGS_CHANGE ? fgs_limit : fgs_exact) && !c->granted) {
			fgs_turn();
			continue;
		}
		if (hits) {
			hit(c, l, access);
			if (c->granted)
				serve_next(l);
			c->granted = false;
			return;
		}
		c->paused = false;
		if (!asked)
			asked = c->now;
		if (!arrived) {
			arrived = true;
			if (fgs_costs.dram_remote)
				fgs_find_home(l, c->id);
			c->now += (fgs_ps)((double)fgs_latency(l, c->id, access) * fgs_costs.request);
			continue;
		}
		if (l->free_at > c->now || (l->first && !c->granted)) {
			fgs_wait_for_line(l);
			continue;
		}
		if (fgs_takes_away(l, access) && fgs_has_laggards(l, c)) {
			fgs_catch_up(l);
			continue;
		}
		take_line(c, l, access, asked, access == FGS_LOAD || access == FGS_CHANGE ? 1 - fgs_costs.request : 1);
		return;
	}
}

void fgs_kernel_line(struct fgs_cpu *c, struct fgs_line *l, enum fgs_access access)
{
	if (is_hit(l, c, access)) {
		l->dirty |= access != FGS_LOAD && access != FGS_FETCH;
		c->now += access == FGS_CHANGE ? c->atomic : c->hit;
	} else {
		take_line(c, l, access, c->now, 1);
	}
}

void fgs_kernel_access(struct fgs_cpu *c, const void *address, enum fgs_access access)
{
	struct fgs_line *l = fgs_line_of(address);

	if (l)
		fgs_kernel_line(c, l, access);
}

/* NULL: the code is not simulated, or the address is in no line that others share, and the access a hit. */
static inline __attribute__((always_inline)) struct fgs_line *line_at(struct fgs_cpu *c, const void *address)
{
	struct fgs_line *l;

	if (UNLIKELY(!c))
		return NULL;
	l = fgs_line_of(address);
	if (UNLIKELY(!l))
		c->now += c->hit;
	return l;
}

static inline __attribute__((always_inline)) void load(const void *address, enum fgs_access access)
{
	struct fgs_cpu *c = fgs_here;
	struct fgs_line *l = line_at(c, address);

	if (UNLIKELY(!l))
		return;
	if (LIKELY(l->copies[c->word] & c->bit) && LIKELY(c->now <= fgs_limit))
		c->now += c->hit;
	else
		access_slow(l, access);
}

static inline void do_load(const void *address)
{
	load(address, FGS_LOAD);
}

static inline void do_fetch(const void *address)
{
	load(address, FGS_FETCH);
}

static inline __attribute__((always_inline)) void store(const void *address, enum fgs_access access)
{
	struct fgs_cpu *c = fgs_here;
	struct fgs_line *l = line_at(c, address);

	if (UNLIKELY(!l))
		return;
	if (LIKELY(l->owner == c->id + 1) && LIKELY(c->now <= fgs_limit) &&
	    (access == FGS_STORE || c->stored_at <= c->now)) {
		l->dirty = true;
		c->now += c->hit;
	} else {
		access_slow(l, access);
	}
}

static inline void do_store(const void *address)
{
	store(address, FGS_STORE);
}

static inline void do_publish(const void *address)
{
	store(address, FGS_PUBLISH);
}

static inline void do_change(const void *address)
{
	struct fgs_line *l;

	if (UNLIKELY(!fgs_here))
		return;
	l = fgs_line_of(address);
	if (LIKELY(l))
		access_slow(l, FGS_CHANGE);
	else
		fgs_here->now += fgs_here->atomic;
}

void fgs_write(void *word)
{
	do_publish(word);
}

void fgs_change(void *word)
{
	do_change(word);
}

/* ---- what needs no other CPU ------------------------------------------------------------------------------------ */

static inline void spend(fgs_ps time)
{
	struct fgs_cpu *c = fgs_here;

	c->now += time;
	if (UNLIKELY(c->now >= fgs_stop))
		fgs_turn();
}

fgs_ps fgs_pause_limit = 0;

void fgs_pause(void)
{
	struct fgs_cpu *c = fgs_here;

	if (UNLIKELY(!c))
		return;
	if (!c->paused)
		c->paused_since = c->now;
	c->paused = true;
	spend(c->pause);
	if (UNLIKELY(fgs_pause_limit) && fgs_here->now - fgs_here->paused_since > fgs_pause_limit) {
		fgs_here->paused_since = fgs_here->now;
		fgs_pause_exit();
	}
}

void fgs_compute(fgs_ps time)
{
	if (UNLIKELY(fgs_checks)) {
		fgs_here->now += time;
		fgs_turn();
		return;
	}
	while (time) {
		struct fgs_cpu *c = fgs_here;
		fgs_ps left = fgs_stop > c->now ? fgs_stop - c->now : 0, part = time < left ? time : left;

		c->now += part;
		time -= part;
		if (c->now >= fgs_stop)
			fgs_turn();
	}
}

static uint64_t read_counter(void)
{
	fgs_ps step = fgs_cost(FGS_counter_step), now = step ? fgs_here->now / step * step : fgs_here->now;

	return (uint64_t)((double)now * fgs_machine.key[FGS_ghz] * 1e-3);
}

uint64_t fgs_counter(void)
{
	if (UNLIKELY(!fgs_here))
		return 0;
	spend(fgs_here->counter);
	return read_counter();
}

/* The loads that are under way are done first, and none behind it has begun; stores need not be done. */
uint64_t fgs_counter_ordered(void)
{
	if (UNLIKELY(!fgs_here))
		return 0;
	if (fgs_here->loaded_at > fgs_here->now)
		fgs_here->now = fgs_here->loaded_at;
	fgs_here->changed_at = 0;
	spend(fgs_here->ordered);
	return read_counter();
}

/* ---- the names that the compiler calls -------------------------------------------------------------------------- */

void __tsan_init(void);
void __tsan_init(void)
{
}

#define TSAN(name, function)                                                                                           \
	void name(void *address);                                                                                      \
	void name(void *address)                                                                                       \
	{                                                                                                              \
		function(address);                                                                                     \
	}
#define TSAN_SIZE(n)                                                                                                   \
	TSAN(__tsan_read##n, do_fetch)                                                                                 \
	TSAN(__tsan_write##n, do_store)                                                                                \
	TSAN(__tsan_unaligned_read##n, do_fetch)                                                                       \
	TSAN(__tsan_unaligned_write##n, do_store)                                                                      \
	TSAN(__tsan_volatile_read##n, do_load)                                                                         \
	TSAN(__tsan_volatile_write##n, do_publish)
TSAN_SIZE(1)
TSAN_SIZE(2)
TSAN_SIZE(4)
TSAN_SIZE(8)
TSAN_SIZE(16)
TSAN(__tsan_vptr_read, do_fetch)

static void range(const char *address, size_t bytes, bool writes)
{
	for (size_t i = 0; i < bytes; i += 64) {
		if (writes)
			do_store(address + i);
		else
			do_fetch(address + i);
	}
}

void __tsan_read_range(void *address, size_t bytes);
void __tsan_read_range(void *address, size_t bytes)
{
	range(address, bytes, false);
}

void __tsan_write_range(void *address, size_t bytes);
void __tsan_write_range(void *address, size_t bytes)
{
	range(address, bytes, true);
}

void __tsan_func_entry(void *caller);
void __tsan_func_entry(void *caller)
{
	(void)caller;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

/* A full fence, or a sequentially consistent store: the store buffer is empty after it. */
static void drain(int order)
{
	struct fgs_cpu *c = fgs_here;

	if (!c || order != __ATOMIC_SEQ_CST)
		return;
	await_all(c);
	spend(c->atomic);
}

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	drain(order);
}

void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
	(void)order;
}

#define FETCH(bits, name, operation)                                                                                   \
	uint##bits##_t __tsan_atomic##bits##_fetch_##name(uint##bits##_t *p, uint##bits##_t v, int order);             \
	uint##bits##_t __tsan_atomic##bits##_fetch_##name(uint##bits##_t *p, uint##bits##_t v, int order)              \
	{                                                                                                              \
		uint##bits##_t found;                                                                                  \
                                                                                                                       \
		(void)order;                                                                                           \
		do_change(p);                                                                                          \
		found = *p;                                                                                            \
		*p = (uint##bits##_t)(operation);                                                                      \
		return found;                                                                                          \
	}
#define COMPARE(bits, name)                                                                                            \
	int __tsan_atomic##bits##_compare_exchange_##name(uint##bits##_t *p, uint##bits##_t *expected,                 \
							  uint##bits##_t desired, int order, int fail);                \
	int __tsan_atomic##bits##_compare_exchange_##name(uint##bits##_t *p, uint##bits##_t *expected,                 \
							  uint##bits##_t desired, int order, int fail)                 \
	{                                                                                                              \
		(void)order;                                                                                           \
		(void)fail;                                                                                            \
		do_change(p);                                                                                          \
		if (*p == *expected) {                                                                                 \
			*p = desired;                                                                                  \
			return 1;                                                                                      \
		}                                                                                                      \
		*expected = *p;                                                                                        \
		return 0;                                                                                              \
	}
#define ATOMIC(bits)                                                                                                   \
	uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t *p, int order);                                 \
	uint##bits##_t __tsan_atomic##bits##_load(const uint##bits##_t *p, int order)                                  \
	{                                                                                                              \
		(void)order;                                                                                           \
		do_load(p);                                                                                            \
		return *(const volatile uint##bits##_t *)p;                                                            \
	}                                                                                                              \
	void __tsan_atomic##bits##_store(uint##bits##_t *p, uint##bits##_t v, int order);                              \
	void __tsan_atomic##bits##_store(uint##bits##_t *p, uint##bits##_t v, int order)                               \
	{                                                                                                              \
		if (order == __ATOMIC_SEQ_CST)                                                                         \
			do_change(p);                                                                                  \
		else                                                                                                   \
			do_publish(p);                                                                                 \
		*(volatile uint##bits##_t *)p = v;                                                                     \
	}                                                                                                              \
	FETCH(bits, add, found + v)                                                                                    \
	FETCH(bits, sub, found - v)                                                                                    \
	FETCH(bits, and, found &v)                                                                                     \
	FETCH(bits, or, found | v)                                                                                     \
	FETCH(bits, xor, found ^ v)                                                                                    \
	COMPARE(bits, strong)                                                                                          \
	COMPARE(bits, weak)                                                                                            \
	uint##bits##_t __tsan_atomic##bits##_exchange(uint##bits##_t *p, uint##bits##_t v, int order);                 \
	uint##bits##_t __tsan_atomic##bits##_exchange(uint##bits##_t *p, uint##bits##_t v, int order)                  \
	{                                                                                                              \
		uint##bits##_t found;                                                                                  \
                                                                                                                       \
		(void)order;                                                                                           \
		do_change(p);                                                                                          \
		found = *p;                                                                                            \
		*p = v;                                                                                                \
		return found;                                                                                          \
	}
ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)
