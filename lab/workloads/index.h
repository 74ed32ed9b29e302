/* SPDX-License-Identifier: MIT */
/* A database index: a B+-tree with a lock in each node, half look-ups and half inserts of skewed keys (section 5.3,
 * figure 3 e-h, which drives the tree of OptiQL by PiBench).
 *
 * Locks: one a node (256 bytes with a lock of 16), of which a thread holds two at a time at most. It goes down from the
 * root hand over hand: it locks the child, then unlocks the parent. An insert splits a full node on the way, under the
 * locks of the node and its parent. So the root's lock is taken by every operation, for one binary search (some 20 to
 * 50 ns), and those of the next level by every 8th to 14th: few locks are hot, all others nearly unused. The paper says
 * 14 of 16 million; --keys 100000000 makes as many nodes, in 4 GB.
 * Keys: a self-similar distribution (Gray and others, SIGMOD 1994) with skew 0.2, so that a fifth of the keys gets four
 * fifths of the operations, and so on within that fifth; multiplied by an odd number, so that hot keys are in different
 * leaves. An insert of a key that is there adds to its value.
 * Differs from the original: its locks are readers-writer locks that the paper replaces by mutexes, its nodes are
 * allocated by malloc; here all nodes are allocated before the threads start, for half of the keys that may come.
 *
 * Checked: the tree is in order, and the value of each key is what a sequential run of the same operations leaves. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker/json.h"

#define FGB_INDEX_FAN 14   /* keys in a node */
#define FGB_INDEX_DEPTH 32 /* more than any tree has: a lock that excludes nobody may make a ring */

struct fgb_index_node {
	struct fg_lock lock;
	uint32_t count; /* keys */
	uint32_t leaf;
	uint64_t key[FGB_INDEX_FAN]; /* in order; of an inner node: child i has the keys below key[i], and no others */
	uint64_t at[FGB_INDEX_FAN + 1]; /* of a leaf: values, how often the key was inserted; otherwise children */
} __attribute__((aligned(64)));

struct fgb_index_thread { /* its own sequence of operations */
	uint64_t seed, random, ops;
} __attribute__((aligned(FGB_ALONE)));

static struct {
	uint64_t keys;
	double skew, insert_ratio;
	struct fgb_index_node *node; /* node 0 is the root for ever */
	uint64_t nodes;
	uint64_t used; /* by fetch_add: nodes in the tree */
	struct fgb_index_thread *thread;
	uint64_t threads;
	double exponent;
	uint64_t insert_below; /* of 2^32 */
} fgb_index = {200000, 0.2, 0.5, NULL, 0, 0, NULL, 0, 0, 0};

/* ---- one thread's view; the caller holds the locks ---- */

/* Read once, and never more than there are places: with a lock that excludes nobody it changes meanwhile. */
static inline uint32_t fgb_index_count(const struct fgb_index_node *n)
{
	uint32_t count = fg_load_relaxed(&n->count);

	return count < FGB_INDEX_FAN ? count : FGB_INDEX_FAN;
}

/* The first position whose key is not below `key`. */
static inline uint32_t fgb_index_find(const struct fgb_index_node *n, uint64_t key)
{
	uint32_t low = 0, high = fgb_index_count(n);

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (n->key[middle] < key)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The child that has `key`: child i has the keys from key[i - 1] to below key[i]. */
static inline uint32_t fgb_index_child(const struct fgb_index_node *n, uint64_t key)
{
	uint32_t i = fgb_index_find(n, key);

	return i < fgb_index_count(n) && n->key[i] == key ? i + 1 : i;
}

static inline struct fgb_index_node *fgb_index_at(uint64_t number)
{
	return &fgb_index.node[number < fgb_index.nodes ? number : 0];
}

/* Makes space at `position` for a key and, at `position` + shift, what belongs to it. */
static inline void fgb_index_open(struct fgb_index_node *n, uint32_t position, uint32_t shift)
{
	uint32_t count = fgb_index_count(n), moved = count > position ? count - position : 0;

	if (position + moved >= FGB_INDEX_FAN) /* full: no lock that excludes comes here */
		return;
	memmove(&n->key[position + 1], &n->key[position], moved * sizeof(n->key[0]));
	memmove(&n->at[position + shift + 1], &n->at[position + shift], moved * sizeof(n->at[0]));
	n->count++;
}

/* Moves the upper half of `low` to the empty node `high`. Returns the key that divides them: of a leaf it stays the
 * first of `high`, of an inner node it moves up. */
static uint64_t fgb_index_halve(struct fgb_index_node *low, struct fgb_index_node *high)
{
	uint32_t count = fgb_index_count(low), keep = count / 2, inner = !fg_load_relaxed(&low->leaf);
	uint32_t first = keep + inner, moved = count > first ? count - first : 0;
	uint64_t key = low->key[keep];

	high->leaf = !inner;
	high->count = moved;
	memcpy(high->key, &low->key[first], moved * sizeof(high->key[0]));
	memcpy(high->at, &low->at[first], (moved + inner) * sizeof(high->at[0]));
	low->count = keep;
	return key;
}

/* Splits the full root in place: both halves become new nodes. */
static bool fgb_index_grow(struct fgb_index_node *root)
{
	uint64_t first = fg_fetch_add_relaxed(&fgb_index.used, 2);
	struct fgb_index_node *low, *high;

	if (first + 2 > fgb_index.nodes)
		return false;
	low = fgb_index_at(first);
	high = fgb_index_at(first + 1);
	low->leaf = root->leaf;
	low->count = root->count;
	memcpy(low->key, root->key, sizeof(low->key));
	memcpy(low->at, root->at, sizeof(low->at));
	root->key[0] = fgb_index_halve(low, high);
	root->at[0] = first;
	root->at[1] = first + 1;
	root->count = 1;
	root->leaf = 0;
	return true;
}

/* Splits the full child at `position` of the parent, which has space. */
static bool fgb_index_split(struct fgb_index_node *parent, uint32_t position, struct fgb_index_node *child)
{
	uint64_t number = fg_fetch_add_relaxed(&fgb_index.used, 1), key;

	if (number >= fgb_index.nodes || parent->count >= FGB_INDEX_FAN || position >= FGB_INDEX_FAN)
		return false;
	key = fgb_index_halve(child, fgb_index_at(number));
	fgb_index_open(parent, position, 1);
	parent->key[position] = key;
	parent->at[position + 1] = number;
	return true;
}

/* ---- operations ---- */

/* The leaf that has, or would have, the key, locked; with space for it if `adding`. NULL: a node that is full, or a
 * tree that is too deep, which only happens if locks exclude nobody. */
static struct fgb_index_node *fgb_index_descend(uint64_t key, bool adding)
{
	struct fgb_index_node *n = fgb_index.node;

	fgb_call_lock(&n->lock);
	if (adding && n->count >= FGB_INDEX_FAN && !fgb_index_grow(n)) {
		fgb_call_unlock(&n->lock);
		return NULL;
	}
	for (uint32_t depth = 0; !n->leaf && depth < FGB_INDEX_DEPTH; depth++) {
		uint32_t position = fgb_index_child(n, key);
		struct fgb_index_node *child = fgb_index_at(n->at[position]);

		if (child == fgb_index.node) /* no parent has the root */
			break;
		fgb_call_lock(&child->lock);
		if (adding && child->count >= FGB_INDEX_FAN && fgb_index_split(n, position, child) &&
		    key >= n->key[position]) {
			fgb_call_unlock(&child->lock);             /* first, so that no thread holds three */
			child = fgb_index_at(n->at[position + 1]); /* none comes to it but through n, which is locked */
			fgb_call_lock(&child->lock);
		}
		fgb_call_unlock(&n->lock);
		n = child;
	}
	if (n->leaf && (!adding || n->count < FGB_INDEX_FAN))
		return n;
	fgb_call_unlock(&n->lock);
	return NULL;
}

/* Adds `times` to the value of the key, which is made if it is not there. */
static void fgb_index_put(struct fgb_index_node *leaf, uint64_t key, uint64_t times)
{
	uint32_t i = fgb_index_find(leaf, key);
	uint64_t had;

	if (i == FGB_INDEX_FAN)
		return;
	if (i == fgb_index_count(leaf) || leaf->key[i] != key) {
		fgb_index_open(leaf, i, 0);
		leaf->key[i] = key;
		leaf->at[i] = 0;
	}
	had = fg_load_relaxed(&leaf->at[i]);
	FGB_IN_SECTION();
	fg_store_relaxed(&leaf->at[i], had + times);
}

/* The value of the key; 0 if it is not there. */
static uint64_t fgb_index_get(const struct fgb_index_node *leaf, uint64_t key)
{
	uint32_t i = fgb_index_find(leaf, key);

	return i < fgb_index_count(leaf) && leaf->key[i] == key ? leaf->at[i] : 0;
}

/* Which key the next operation is for, below `keys`, and whether it inserts. */
static inline uint64_t fgb_index_draw(struct fgb_index_thread *t, bool *inserts)
{
	double share = (double)(fgb_random(&t->random) >> 11) * 0x1p-53;
	uint64_t id = (uint64_t)((double)fgb_index.keys * pow(share, fgb_index.exponent));

	*inserts = fgb_random(&t->random) >> 32 < fgb_index.insert_below;
	return id < fgb_index.keys ? id : fgb_index.keys - 1;
}

__attribute__((noinline)) static void fgb_index_loop(const struct fgb_run *run, uint32_t phase, struct fgb_thread *self)
{
	struct fgb_index_thread *t = &fgb_index.thread[self->index];
	struct fgb_counts *counts = &self->counts[phase];

	while (fg_load_relaxed(&run->phase) == phase) {
		bool inserts;
		uint64_t key = fgb_index_draw(t, &inserts) * FGB_GOLDEN, asked, acquired;
		struct fgb_index_node *leaf;

		asked = fg_cycles_ordered();
		leaf = fgb_index_descend(key, inserts);
		acquired = fg_cycles_ordered();
		t->ops++;
		if (leaf) {
			if (inserts)
				fgb_index_put(leaf, key, 1);
			else
				self->scratch[0] += fgb_index_get(leaf, key);
			fgb_call_unlock(&leaf->lock);
		}
		fgb_count(counts, asked, acquired, fg_cycles_ordered());
	}
}

/* ---- before and after ---- */

static inline bool fgb_index_loaded(uint64_t id)
{
	return fgb_mix(id) % 2 == 0;
}

static int fgb_index_prepare(const struct fgb_run *run)
{
	fgb_index.exponent = log(fgb_index.skew) / log(1 - fgb_index.skew);
	fgb_index.insert_below = (uint64_t)(fgb_index.insert_ratio * 0x1p32);
	fgb_index.threads = run->threads;
	fgb_index.thread = (struct fgb_index_thread *)fgb_allocate(run->threads, sizeof(*fgb_index.thread));
	/* A split leaves half of a node at least, so a node has 6 keys at least: 1/6 leaves, 1/42 above them, ... */
	fgb_index.nodes = fgb_index.keys / 5 + 64;
	fgb_index.node = (struct fgb_index_node *)fgb_allocate(fgb_index.nodes, sizeof(*fgb_index.node));
	if (!fgb_index.thread || !fgb_index.node)
		return FGB_FAILED;
	for (uint64_t i = 0; i < run->threads; i++)
		fgb_index.thread[i].seed = fgb_index.thread[i].random = fgb_mix(i + 1);
	fgb_index.node[0].leaf = 1;
	fgb_index.used = 1;
	for (uint64_t id = 0; id < fgb_index.keys; id++) {
		struct fgb_index_node *leaf;

		if (!fgb_index_loaded(id))
			continue;
		leaf = fgb_index_descend(id * FGB_GOLDEN, true);
		if (!leaf)
			return FGB_FAILED;
		fgb_index_put(leaf, id * FGB_GOLDEN, 0);
		fgb_call_unlock(&leaf->lock);
	}
	return 0;
}

/* Takes what the subtree has from `expected`, which is by id. Returns how many keys it has, or UINT64_MAX if a node is
 * not as it must be: its keys in order, from `from` to `to`. */
static uint64_t fgb_index_walk(const struct fgb_index_node *n, uint64_t from, uint64_t to, uint32_t *expected,
			       uint32_t depth)
{
	uint64_t sum = 0, inverse = FGB_GOLDEN;

	if (depth == FGB_INDEX_DEPTH || n->count > FGB_INDEX_FAN || (depth && n == fgb_index.node))
		return UINT64_MAX;
	for (int i = 0; i < 5; i++) /* Newton's: FGB_GOLDEN is odd, so it has an inverse */
		inverse *= 2 - FGB_GOLDEN * inverse;
	for (uint32_t i = 0; i < n->count; i++) {
		uint64_t id = n->key[i] * inverse;

		if (n->key[i] < from || n->key[i] > to || (i && n->key[i] <= n->key[i - 1]) || id >= fgb_index.keys)
			return UINT64_MAX;
		if (n->leaf)
			expected[id] -= (uint32_t)n->at[i];
	}
	for (uint32_t i = 0; !n->leaf && i <= n->count; i++) {
		uint64_t below = fgb_index_walk(fgb_index_at(n->at[i]), i ? n->key[i - 1] : from,
						i < n->count ? n->key[i] - 1 : to, expected, depth + 1);

		if (below == UINT64_MAX)
			return UINT64_MAX;
		sum += below;
	}
	return n->leaf ? n->count : sum;
}

static bool fgb_index_adds_up(uint64_t ops)
{
	uint32_t *expected = (uint32_t *)fgb_allocate(fgb_index.keys, sizeof(*expected));
	uint8_t *present = (uint8_t *)fgb_allocate(fgb_index.keys, sizeof(*present));
	uint64_t keys = 0, sum = 0;
	bool whole = expected && present;

	for (uint64_t i = 0; whole && i < fgb_index.threads; i++) {
		struct fgb_index_thread *t = &fgb_index.thread[i];

		sum += t->ops;
		t->random = t->seed;
		for (uint64_t op = 0; op < t->ops; op++) {
			bool inserts;
			uint64_t id = fgb_index_draw(t, &inserts);

			expected[id] += inserts;
			present[id] |= inserts;
		}
	}
	for (uint64_t id = 0; whole && id < fgb_index.keys; id++)
		keys += present[id] || fgb_index_loaded(id);
	whole = whole && sum == ops && fgb_index_walk(fgb_index.node, 0, UINT64_MAX, expected, 0) == keys;
	for (uint64_t id = 0; whole && id < fgb_index.keys; id++)
		whole = expected[id] == 0;
	free(expected);
	free(present);
	return whole;
}

static uint64_t fgb_index_locks(void)
{
	return fgb_index.nodes;
}

static void fgb_index_describe(void)
{
	fgb_json_count("keys", fgb_index.keys);
	fgb_json_real("skew", fgb_index.skew);
	fgb_json_real("insert_ratio", fgb_index.insert_ratio);
	fgb_json_count("nodes", fg_load_relaxed(&fgb_index.used));
}

static const struct fgb_option fgb_index_options[] = {
	FGB_OPTION_NUMBER("--keys", "keys that may be in the tree; half are at the start", 100, 1e9, &fgb_index.keys),
	FGB_OPTION_REAL("--skew", "this share of the keys gets the rest of the operations", 0.01, 0.5, &fgb_index.skew),
	FGB_OPTION_REAL("--insert-ratio", "share of inserts; the others look up", 0, 1, &fgb_index.insert_ratio),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_index = {
	.name = "index",
	.brief = "a B+-tree with a lock in each node; wait: from the root to the leaf",
	.sample = 1,
	.own_loop = true,
	.options = fgb_index_options,
	.prepare = fgb_index_prepare,
	.loop = fgb_index_loop,
	.adds_up = fgb_index_adds_up,
	.locks = fgb_index_locks,
	.describe = fgb_index_describe,
};
