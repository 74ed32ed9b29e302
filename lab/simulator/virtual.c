/* SPDX-License-Identifier: MIT */
#include "simulator/virtual.h"

#include <string.h>

#include "simulator/guest_host.h"

static struct fgs_thread hosted[FGS_CPUS]; /* the host's thread of each virtual CPU */

static uint32_t guest_of(const struct fgs_cpu *v)
{
	return v->id / (uint32_t)fgs_machine.key[FGS_vcpus];
}

static void allow(struct fgs_set *set, uint32_t from, uint32_t to)
{
	memset(set, 0, sizeof(*set));
	for (uint32_t i = from; i < to; i++)
		set->word[i / 64] |= 1ull << i % 64;
}

void fgs_virtual_confine(struct fgs_thread *t)
{
	uint32_t guests = (uint32_t)fgs_machine.key[FGS_guests], each = (uint32_t)fgs_machine.key[FGS_vcpus];
	uint32_t guest = t->process && guests > 1 ? 1 + (t->process - 1) % (guests - 1) : 0;

	if (guests)
		allow(&t->allowed, guest * each, (guest + 1) * each);
}

void fgs_virtual_start(void)
{
	uint32_t count = fgs_virtual_count(&fgs_machine);

	fgs_pause_limit = count ? fgs_cost(FGS_ple) : 0;
	for (uint32_t i = 0; i < fgs_cpu_count && count; i++) {
		struct fgs_cpu *c = &fgs_cpus[i];

		c->hosts = i >= count;
		if (c->hosts)
			continue;
		c->off = true;
		c->hosted = &hosted[i];
		hosted[i] = (struct fgs_thread){
			.id = i,
			.process = FGS_THREADS + 1 + guest_of(c),
			.state = FGS_SLEEPING,
			.virtual_cpu = c,
			.cpu = count + i % (fgs_cpu_count - count),
			.slice = fgs_cost(FGS_slice),
		};
		allow(&hosted[i].allowed, count, fgs_cpu_count);
		fgs_set_nice(&hosted[i], 0);
	}
}

/* ---- entry and exit --------------------------------------------------------------------------------------------- */

static void enter(struct fgs_cpu *v, fgs_ps now)
{
	v->off = v->spun = false;
	v->entries++;
	if (v->now < now) {
		v->began += now - v->now; /* the guest charges no thread for what the host took */
		v->now = now;
	}
	fgs_cpu_at(v, v->now);
}

/* Another thread runs on the host's CPU, or goes on, or none does. */
static void reschedule(struct fgs_cpu *host, enum fgs_leaves why)
{
	fgs_schedule(host, why);
	host->buddy = NULL;
	if (!host->thread)
		return;
	if (host->thread->virtual_cpu->off)
		enter(host->thread->virtual_cpu, host->now);
	fgs_cpu_at(host, host->next_tick);
}

void fgs_virtual_leaves(struct fgs_cpu *v, enum fgs_leaves why)
{
	struct fgs_cpu *host = &fgs_cpus[v->hosted->cpu];

	v->now += fgs_cost(FGS_exit);
	v->leaves = false;
	v->off = true;
	fgs_cpu_at(v, FGS_NEVER);
	if (host->now < v->now)
		host->now = v->now;
	if (why == FGS_SLEEPS)
		v->hosted->state = FGS_SLEEPING;
	reschedule(host, why);
}

void fgs_virtual_wakes(struct fgs_cpu *v, fgs_ps now)
{
	if (v->hosted->state == FGS_SLEEPING)
		fgs_wake(v->hosted, now, NULL);
}

void fgs_host_interrupts(struct fgs_cpu *host, fgs_ps now)
{
	struct fgs_cpu *v = host->thread->virtual_cpu;

	host->resched = true;
	v->leaves = true;
	if (v == fgs_here) {
		fgs_stop = fgs_limit = fgs_exact = 0;
		return;
	}
	if (v->line || v->granted)
		return;
	if (v->now < now && v->lags)
		v->now = now;
	fgs_cpu_at(v, v->now);
}

void fgs_host_goes_on(struct fgs_cpu *host)
{
	host->now += host->debt;
	host->debt = 0;
	if (!host->thread) {
		reschedule(host, FGS_GOES_ON);
		return;
	}
	if (host->now >= host->next_tick) {
		host->thread->virtual_cpu->debt += fgs_cost(FGS_exit) + fgs_cost(FGS_tick_work);
		fgs_tick(host);
	}
	if (host->resched)
		fgs_host_interrupts(host, host->now);
	fgs_cpu_at(host, host->next_tick);
}

/* ---- pause-loop exiting ----------------------------------------------------------------------------------------- */

/* The next one of the guest, after the one that was helped last, that waits for a CPU of the host. As in KVM, one that
 * has itself exited since it only paused counts every other time. */
static struct fgs_cpu *preempted_in(uint32_t guest, const struct fgs_cpu *besides)
{
	static uint32_t helped[FGS_CPUS];
	uint32_t each = (uint32_t)fgs_machine.key[FGS_vcpus];

	for (uint32_t i = 1; i <= each; i++) {
		struct fgs_cpu *other = &fgs_cpus[guest * each + (helped[guest] + i) % each];

		if (other == besides || other->hosted->state != FGS_RUNNABLE)
			continue;
		if (other->spun) {
			other->passed = !other->passed;
			if (other->passed)
				continue;
		}
		helped[guest] = other->id % each;
		return other;
	}
	return NULL;
}

void fgs_virtual_spins(struct fgs_cpu *v)
{
	struct fgs_cpu *other = preempted_in(guest_of(v), v), *host;

	fgs_statistics.pause_exits++;
	if (!other) {
		v->now += fgs_cost(FGS_exit);
		fgs_cpu_at(v, v->now);
		return;
	}
	host = &fgs_cpus[other->hosted->cpu];
	host->buddy = other->hosted;
	/* The interrupt is on its way for so long: what has just entered goes on. */
	if (host->thread && host->thread != v->hosted && host->began + fgs_cost(FGS_exit) < v->now)
		fgs_host_interrupts(host, v->now);
	v->spun = true;
	v->passed = false;
	fgs_virtual_leaves(v, FGS_YIELDS);
}

/* ---- what a guest's kernel asks for ----------------------------------------------------------------------------- */

void fgs_guest_preemption(bool on)
{
	struct fgs_thread *t;

	if (!fgs_here)
		return;
	t = fgs_self();
	t->stays = !on;
	if (on && fgs_here->resched)
		fgs_turn();
}

/* A call of the host. */
static struct fgs_cpu *call(void)
{
	fgs_here->paused = false;
	fgs_here->now += fgs_cost(FGS_exit);
	fgs_settle();
	return fgs_here;
}

uint32_t fgs_guest_cpu(void)
{
	return fgs_here->id;
}

uint32_t fgs_guest_cpus(void)
{
	return (uint32_t)fgs_machine.key[FGS_vcpus];
}

void fgs_guest_halt(const uint32_t *word, uint32_t seen, uint32_t bits)
{
	static uint64_t halts;
	struct fgs_cpu *v = call();

	fgs_kernel_access(v, word, FGS_LOAD);
	if (*word != seen)
		return;
	v->halts_at = word;
	v->halt_bits = bits;
	v->halted = ++halts;
	fgs_exit(FGS_SLEEPS);
	v->halts_at = NULL;
}

void fgs_guest_kick(const uint32_t *word, int most, uint32_t bits)
{
	struct fgs_cpu *v = call();
	uint32_t each = (uint32_t)fgs_machine.key[FGS_vcpus], first = guest_of(v) * each;

	for (; most > 0; most--) {
		struct fgs_cpu *longest = NULL;

		for (uint32_t i = first; i < first + each; i++) {
			struct fgs_cpu *c = &fgs_cpus[i];

			if (c->halts_at == word && c->halt_bits & bits && (!longest || c->halted < longest->halted))
				longest = c;
		}
		if (!longest)
			return;
		longest->halts_at = NULL;
		v->now += fgs_takes(v, FGS_wake);
		fgs_virtual_wakes(longest, v->now);
	}
}

void fgs_guest_yield(void)
{
	call();
	fgs_exit(FGS_YIELDS);
}

bool fgs_guest_is_off(uint32_t cpu)
{
	fgs_compute(fgs_cost(FGS_hit));
	return fgs_cpus[cpu].off;
}

uint64_t fgs_guest_slice(void)
{
	fgs_compute(fgs_cost(FGS_hit));
	return fgs_here->entries;
}

/* At the tick after its virtual time has passed its deadline. */
uint64_t fgs_guest_slice_end(void)
{
	const struct fgs_thread *t = fgs_here->hosted;
	const struct fgs_cpu *host = &fgs_cpus[t->cpu];
	fgs_ps left = t->deadline > t->vruntime ? (fgs_ps)(t->deadline - t->vruntime) : 0, tick = fgs_cost(FGS_tick);

	return FGS_EPOCH_NS + ((host->began + left) / tick + 1) * tick / FGS_NS;
}
