/* SPDX-License-Identifier: MIT */
/* A hash table with a lock for each of its buckets, in the manner of figure 3 a-d (section 5.2); the authors' own is
 * workloads/hotlock.h. Keys are drawn from a Zipf distribution that is moved to another place of the key range at
 * intervals, so that other locks become hot.
 *
 * An operation looks a key up, inserts it or removes it, in a chain that it walks under the bucket's lock. Half of the
 * keys are in the table, at the start and on average. A key has one entry for ever, in or out of its chain: nothing is
 * allocated, and the lock alone protects the entry. */
#ifndef FGB_HASHTABLE_H
#define FGB_HASHTABLE_H

#include "worker/clock.h"
#include "worker/json.h"
#include "worker/zipf.h"

struct fgb_entry {
	struct fgb_entry *next;
	uint64_t key;
	uint64_t value;
} __attribute__((aligned(64)));

struct fgb_bucket {
	struct fg_lock lock;
	struct fgb_entry *head;
	uint64_t entries;
	uint64_t ops;
} __attribute__((aligned(FGB_ALONE)));

enum fgb_table_operation { FGB_LOOK_UP, FGB_INSERT, FGB_REMOVE };

static struct {
	uint64_t buckets, keys, shift_ms;
	double theta, update_ratio;
	struct fgb_bucket *bucket;
	struct fgb_entry *entry; /* by key */
	struct fgb_zipf zipf;
	uint64_t insert_below, remove_below; /* of 2^32 */
	uint64_t start, shift_cycles;
	bool contiguous; /* hotlock.h: a bucket has neighbouring keys; none is there at first or removed */
} fgb_table = {100, 1000, 100, 0.99, 0.2, NULL, NULL, {0, NULL}, 0, 0, 0, 0, false};

/* Where the distribution begins at this time: all threads find the same place without telling one another. scratch[0]
 * is when this thread's place became right, [1] the place. Counters of different CPUs may differ a little: a reading
 * from before [0] looks up the place of its own time. */
static inline uint64_t fgb_table_place(struct fgb_thread *self, uint64_t now)
{
	if (fg_unlikely(now - self->scratch[0] >= fgb_table.shift_cycles)) {
		uint64_t epoch = (now - fgb_table.start) / fgb_table.shift_cycles;

		self->scratch[0] = fgb_table.start + epoch * fgb_table.shift_cycles;
		self->scratch[1] = fgb_below(fgb_mix((epoch + 1) * FGB_GOLDEN), fgb_table.keys);
	}
	return self->scratch[1];
}

/* The key in the lower half, what to do with it in the upper. */
static inline uint64_t fgb_table_choose(struct fgb_thread *self, uint64_t now)
{
	uint64_t key = fgb_table_place(self, now) + fgb_zipf_draw(&fgb_table.zipf, fgb_random(&self->random));
	uint64_t dice = fgb_random(&self->random) >> 32, operation = FGB_LOOK_UP;

	if (dice < fgb_table.remove_below)
		operation = dice < fgb_table.insert_below ? FGB_INSERT : FGB_REMOVE;
	if (key >= fgb_table.keys)
		key -= fgb_table.keys;
	return operation << 32 | key;
}

static inline struct fgb_bucket *fgb_table_bucket(uint64_t choice)
{
	uint64_t key = (uint32_t)choice;

	return &fgb_table.bucket[fgb_table.contiguous ? key * fgb_table.buckets / fgb_table.keys
						      : key % fgb_table.buckets];
}

static inline struct fg_lock *fgb_table_lock(uint64_t choice)
{
	return &fgb_table_bucket(choice)->lock;
}

/* The link that leads to the key, or the one that ends the chain. Takes at most as many steps as there are keys: a lock
 * that excludes nobody may have made the chain a ring, and that is to be reported, not walked for ever. */
static inline struct fgb_entry **fgb_table_find(struct fgb_bucket *bucket, uint32_t key)
{
	struct fgb_entry **link = &bucket->head, *e;

	for (uint64_t left = fgb_table.keys; left && (e = *link) && e->key != key; left--)
		link = &e->next;
	return link;
}

/* As in the shm workload, a counter is read first and written last, so that an intruder leaves a trace. */
static inline void fgb_table_section(struct fgb_thread *self, uint64_t choice)
{
	struct fgb_bucket *bucket = fgb_table_bucket(choice);
	uint64_t operation = choice >> 32, ops = bucket->ops;
	struct fgb_entry **link, *found;

	fg_compiler_barrier();
	link = fgb_table_find(bucket, (uint32_t)choice);
	found = *link;
	if (operation == FGB_INSERT && !found) {
		found = &fgb_table.entry[(uint32_t)choice];
		found->next = bucket->head;
		bucket->head = found;
		bucket->entries++;
	} else if (operation == FGB_REMOVE && found) {
		*link = found->next;
		bucket->entries--;
	} else if (found) {
		self->scratch[2] += found->value;
	}
	fg_compiler_barrier();
	bucket->ops = ops + 1;
}

__attribute__((noinline)) static void fgb_table_loop(const struct fgb_run *run, uint32_t phase, struct fgb_thread *self)
{
	fgb_operate(run, phase, self, true, fgb_table_choose, fgb_table_lock, fgb_table_section);
}

static int fgb_table_prepare(const struct fgb_run *run)
{
	double shift_us = (double)fgb_table.shift_ms * 1e3, updates = fgb_table.update_ratio * 0x1p32;

	(void)run;
	fgb_table.bucket = (struct fgb_bucket *)fgb_allocate(fgb_table.buckets, sizeof(*fgb_table.bucket));
	fgb_table.entry = (struct fgb_entry *)fgb_allocate(fgb_table.keys, sizeof(*fgb_table.entry));
	if (!fgb_table.bucket || !fgb_table.entry ||
	    fgb_zipf_init(&fgb_table.zipf, (uint32_t)fgb_table.keys, fgb_table.theta))
		return FGB_FAILED;
	for (uint64_t key = 0; key < fgb_table.keys; key++) {
		struct fgb_bucket *bucket = fgb_table_bucket(key);
		struct fgb_entry *e = &fgb_table.entry[key];

		e->key = e->value = key;
		if (fgb_table.contiguous || fgb_mix(key) % 2)
			continue;
		e->next = bucket->head;
		bucket->head = e;
		bucket->entries++;
	}
	fgb_table.insert_below = (uint64_t)(fgb_table.contiguous ? updates : updates / 2);
	fgb_table.remove_below = (uint64_t)updates;
	fgb_table.shift_cycles = fgb_table.shift_ms ? (uint64_t)(shift_us * fgb_cycles_per_us()) : UINT64_MAX;
	fgb_table.start = fg_cycles();
	return 0;
}

/* Every chain holds as many entries as its bucket counted, and only its own; every operation was counted. */
static bool fgb_table_adds_up(uint64_t ops)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < fgb_table.buckets; i++) {
		const struct fgb_bucket *bucket = &fgb_table.bucket[i];
		uint64_t entries = 0;

		for (const struct fgb_entry *e = bucket->head; e && entries <= fgb_table.keys; e = e->next) {
			entries++;
			if (fgb_table_bucket(e->key) != bucket)
				return false;
		}
		if (entries != bucket->entries)
			return false;
		sum += bucket->ops;
	}
	return sum == ops;
}

static uint64_t fgb_table_locks(void)
{
	return fgb_table.buckets;
}

static void fgb_table_describe(void)
{
	fgb_json_count("buckets", fgb_table.buckets);
	fgb_json_count("keys", fgb_table.keys);
	fgb_json_real("theta", fgb_table.theta);
	fgb_json_count("shift_ms", fgb_table.shift_ms);
	fgb_json_real("update_ratio", fgb_table.update_ratio);
}

static const struct fgb_option fgb_table_options[] = {
	FGB_OPTION_NUMBER("--buckets", "buckets, a lock each", 1, 1e6, &fgb_table.buckets),
	FGB_OPTION_NUMBER("--keys", "the range that keys are drawn from", 1, 1e7, &fgb_table.keys),
	FGB_OPTION_REAL("--theta", "skew of the Zipf distribution; 0: uniform", 0, 10, &fgb_table.theta),
	FGB_OPTION_NUMBER("--shift-ms", "after so many ms the distribution moves elsewhere; 0: never", 0, 1e6,
			  &fgb_table.shift_ms),
	FGB_OPTION_REAL("--update-ratio", "share of inserts and removals; the others look up", 0, 1,
			&fgb_table.update_ratio),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_hashtable = {
	.name = "hashtable",
	.brief = "a hash table with a lock for each bucket; different buckets are hot in turn",
	.sample = 16,
	.options = fgb_table_options,
	.prepare = fgb_table_prepare,
	.loop = fgb_table_loop,
	.adds_up = fgb_table_adds_up,
	.locks = fgb_table_locks,
	.describe = fgb_table_describe,
};

#endif
