/* SPDX-License-Identifier: MIT */
/* A stream that is compressed and in which repeats are stored once, as a pipeline (section 5.3, figure 3 i-l, which is
 * PARSEC's Dedup). An operation takes one piece of work through one stage:
 *
 *   chunk     takes the next fragment of 32 KB and cuts it where the last 64 bytes say so (2.5 KB on average)
 *   hash      hashes a chunk and looks it up in the table; if it is new, enters it
 *   compress  compresses a new chunk
 *   write     puts chunks into the order of the stream; a chunk is written where it comes first, later as a reference
 *
 * Locks: about 266,000, as the paper counts them; two at a time at most, the second being a stored chunk's.
 *   table     --buckets of them; once a chunk, by any thread: a walk of one entry, a line that is in no cache
 *   stored    one for each distinct chunk: by the thread that compressed it, and by the writer
 *   queues    of each stage one for 4 threads, first in, first out: twice a chunk and stage
 *   input     once a fragment
 *   output    once a chunk, for 0.4 us: copies what has become ready; the longest and the hottest
 * A chunk takes 12 us (2-context AMD EPYC, one thread), of which the output's lock is held for 3 %.
 * Differs from the original: every thread runs every stage, the last that has work first, where the original has
 * threads for each stage and condition variables; it is the table's buckets that bring the locks to the paper's number;
 * SHA-1 and zlib are a mixer and a small LZ77. The stream is made with a seed, half of it repeats of earlier parts, and
 * begins again when it ends, with an empty table. With --divide N the threads cut, hash and compress one chunk of N. Of
 * the others they take what the sequential run has found out: the sections are the same, the work outside is an Nth.
 *
 * Times are those of one section of the operation: the output's if it writes, otherwise that in which it took the work.
 *
 * Checked: after each fragment the output so far is what a sequential run has written, chunks are neither lost nor
 * doubled, and what is stored is read back and compared with the stream. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "worker/compress.h"
#include "worker/json.h"

#define FGB_DEDUP_FRAGMENT 32768
#define FGB_DEDUP_LEAST 512 /* bytes of a chunk */
#define FGB_DEDUP_MOST 8192
#define FGB_DEDUP_CUT 53 /* the upper 11 bits of the rolling hash are 0: every 2048 bytes */
#define FGB_DEDUP_PIECES (FGB_DEDUP_FRAGMENT / FGB_DEDUP_LEAST) /* chunks of a fragment, at most */
#define FGB_DEDUP_UNDERWAY 64                                   /* fragments between input and output */
#define FGB_DEDUP_CHUNKS (FGB_DEDUP_UNDERWAY * FGB_DEDUP_PIECES)
#define FGB_DEDUP_QUEUES 16 /* of a stage, at most */
#define FGB_DEDUP_WRITTEN (1u << 20)

enum fgb_dedup_stage { FGB_DEDUP_HASH, FGB_DEDUP_COMPRESS, FGB_DEDUP_WRITE, FGB_DEDUP_STAGES };

struct fgb_dedup_chunk { /* between input and output; one thread has it at a time */
	uint64_t hash;
	uint32_t from, length; /* in the stream */
	uint32_t stored;       /* its number in the table */
	bool last;             /* of its fragment */
};

struct fgb_dedup_stored { /* a distinct chunk */
	struct fg_lock lock;
	uint64_t hash, sum;    /* of the chunk, of what is stored of it */
	uint32_t from, length; /* where it first was found; its bytes are stored at the same place */
	uint32_t next;         /* in its bucket: one past the number; 0: none */
	uint32_t bytes;        /* stored; 0: not yet */
	bool written;
};

struct fgb_dedup_known { /* a chunk, as the sequential run has it */
	uint64_t hash, sum;
	uint32_t length, bytes;
};

struct fgb_dedup_bucket {
	struct fg_lock lock;
	uint32_t head; /* one past the number; 0: none */
	uint32_t pass; /* that it is of: in a later one it is empty */
};

struct fgb_dedup_queue {
	struct fg_lock lock;
	uint64_t pushed, popped;
	uint32_t chunk[FGB_DEDUP_CHUNKS]; /* all that there are have space */
} __attribute__((aligned(FGB_ALONE)));

struct fgb_dedup_thread {
	uint64_t index, ops, fragments, chunks, popped;
} __attribute__((aligned(FGB_ALONE)));

static struct {
	uint64_t megabytes, buckets, seed, divide;
} fgb_dedup_given = {16, 261600, 1, 1};

static struct {
	uint8_t *stream, *kept; /* kept: what is stored */
	uint32_t bytes, fragments;
	uint64_t gear[256];
	uint64_t *expected;            /* the output's hash after each fragment, as a sequential run has it */
	struct fgb_dedup_known *known; /* by fragment and piece */
	struct fgb_dedup_bucket *bucket;
	struct fgb_dedup_stored *stored;
	uint32_t distinct, used; /* distinct: chunks of a pass; used: by fetch_add */
	bool learns;             /* the sequential run writes `expected` */
	struct fgb_dedup_queue *queue;
	uint64_t queues; /* of a stage */
	struct fgb_dedup_thread *thread;
	uint64_t threads;
	struct fgb_dedup_chunk chunk[FGB_DEDUP_CHUNKS];
	struct {
		struct fg_lock lock;
		uint64_t next; /* fragment, over all passes */
	} input __attribute__((aligned(FGB_ALONE)));
	struct {
		struct fg_lock lock;
		bool ready[FGB_DEDUP_CHUNKS];
		uint64_t fragments, chunks, hash, piece, wrong, bytes;
		uint8_t written[FGB_DEDUP_WRITTEN];
	} output __attribute__((aligned(FGB_ALONE)));
} fgb_dedup;

static inline uint32_t fgb_dedup_pass(uint64_t fragment)
{
	return (uint32_t)(fragment / fgb_dedup.fragments);
}

static uint64_t fgb_dedup_sum(const uint8_t *at, uint32_t length)
{
	uint64_t sum = length, word = 0;

	for (; length >= sizeof(word); length -= sizeof(word), at += sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		sum = fgb_mix(sum ^ word) + word;
	}
	for (word = 0; length; length--)
		word = word << 8 | *at++;
	return fgb_mix(sum ^ word);
}

/* ---- sections that are timed ---- */

struct fgb_dedup_section { /* cycles */
	uint64_t asked, acquired, released;
};

static inline void fgb_dedup_lock(struct fg_lock *lock, struct fgb_dedup_section *section)
{
	section->asked = fg_cycles_ordered();
	fgb_call_lock(lock);
	section->acquired = fg_cycles_ordered();
}

static inline void fgb_dedup_unlock(struct fg_lock *lock, struct fgb_dedup_section *section)
{
	fgb_call_unlock(lock);
	section->released = fg_cycles_ordered();
}

/* ---- queues ---- */

static inline struct fgb_dedup_queue *fgb_dedup_queue(uint32_t stage, uint64_t which)
{
	return &fgb_dedup.queue[stage * fgb_dedup.queues + which % fgb_dedup.queues];
}

static void fgb_dedup_push(uint32_t stage, const struct fgb_dedup_thread *t, uint32_t chunk)
{
	struct fgb_dedup_queue *q = fgb_dedup_queue(stage, t->index);
	uint64_t pushed;

	fgb_call_lock(&q->lock);
	pushed = q->pushed;
	q->chunk[pushed % FGB_DEDUP_CHUNKS] = chunk;
	fg_store_relaxed(&q->pushed, pushed + 1);
	fgb_call_unlock(&q->lock);
}

/* A chunk of the last stage that has one; this thread's own queue first. Sets *stage. False: all are empty. */
static bool fgb_dedup_pop(const struct fgb_dedup_thread *t, uint32_t *stage, uint32_t *chunk,
			  struct fgb_dedup_section *section)
{
	for (uint32_t s = FGB_DEDUP_STAGES; s-- > 0;) {
		for (uint64_t i = 0; i < fgb_dedup.queues; i++) {
			struct fgb_dedup_queue *q = fgb_dedup_queue(s, t->index + i);
			uint64_t popped;
			bool found;

			if (fg_load_relaxed(&q->pushed) == fg_load_relaxed(&q->popped))
				continue;
			fgb_dedup_lock(&q->lock, section);
			popped = q->popped;
			FGB_IN_SECTION();
			found = popped != q->pushed;
			*chunk = q->chunk[popped % FGB_DEDUP_CHUNKS] % FGB_DEDUP_CHUNKS;
			if (found)
				fg_store_relaxed(&q->popped, popped + 1);
			fgb_dedup_unlock(&q->lock, section);
			*stage = s;
			if (found)
				return true;
		}
	}
	return false;
}

/* ---- stages ---- */

/* What the sequential run finds out of the chunk that begins at `from`. */
static struct fgb_dedup_known *fgb_dedup_known(uint32_t from, uint32_t number)
{
	return &fgb_dedup.known[from / FGB_DEDUP_FRAGMENT * FGB_DEDUP_PIECES + number % FGB_DEDUP_PIECES];
}

/* Whether the threads do the work on the chunk, or take what is known. */
static bool fgb_dedup_works(const struct fgb_dedup_known *known)
{
	return fgb_mix((uint64_t)(known - fgb_dedup.known)) % fgb_dedup_given.divide == 0;
}

/* Where the chunk that begins at `from` ends. */
static uint32_t fgb_dedup_cut(uint32_t from, uint32_t end)
{
	uint32_t most = end - from <= FGB_DEDUP_MOST ? end : from + FGB_DEDUP_MOST - FGB_DEDUP_LEAST;
	uint64_t roll = 0;

	/* What remains of the fragment is never less than a chunk may have. */
	for (uint32_t at = from; at < most; at++) {
		roll = (roll << 1) + fgb_dedup.gear[fgb_dedup.stream[at]];
		if (roll >> FGB_DEDUP_CUT == 0 && at + 1 - from >= FGB_DEDUP_LEAST && end - at > FGB_DEDUP_LEAST)
			return at + 1;
	}
	return most;
}

/* The next fragment, of which the output waits for none more than FGB_DEDUP_UNDERWAY before; a pass begins when the one
 * before it is all written. False: none yet. */
static bool fgb_dedup_take(uint64_t *fragment, struct fgb_dedup_section *section)
{
	uint64_t written, next;
	bool may;

	fgb_dedup_lock(&fgb_dedup.input.lock, section);
	next = fg_load_relaxed(&fgb_dedup.input.next);
	written = fg_load_acquire(&fgb_dedup.output.fragments); /* of fgb_dedup_drain */
	may = next == written ||
	      (next < written + FGB_DEDUP_UNDERWAY && fgb_dedup_pass(next) == fgb_dedup_pass(written));
	if (may && next % fgb_dedup.fragments == 0)
		fg_store_relaxed(&fgb_dedup.used, 0);
	if (may)
		fg_store_relaxed(&fgb_dedup.input.next, next + 1);
	fgb_dedup_unlock(&fgb_dedup.input.lock, section);
	*fragment = next;
	return may;
}

static void fgb_dedup_split(struct fgb_dedup_thread *t, uint64_t fragment)
{
	uint32_t at = (uint32_t)(fragment % fgb_dedup.fragments) * FGB_DEDUP_FRAGMENT, end = at + FGB_DEDUP_FRAGMENT;
	uint32_t number = (uint32_t)(fragment % FGB_DEDUP_UNDERWAY) * FGB_DEDUP_PIECES;

	for (t->fragments++; at < end; number++) {
		struct fgb_dedup_chunk *c = &fgb_dedup.chunk[number];
		struct fgb_dedup_known *known = fgb_dedup_known(at, number);
		bool cuts = fgb_dedup.learns || fgb_dedup_works(known);
		uint32_t cut = cuts ? fgb_dedup_cut(at, end) : at + known->length;

		c->from = at;
		c->length = cut - at;
		c->last = cut == end;
		at = cut;
		t->chunks++;
		fgb_dedup_push(FGB_DEDUP_HASH, t, number);
	}
}

/* The chunk's number in the table. Sets *fresh if it was not there. */
static uint32_t fgb_dedup_enter(const struct fgb_dedup_chunk *c, uint32_t pass, bool *fresh)
{
	struct fgb_dedup_bucket *b = &fgb_dedup.bucket[c->hash % fgb_dedup_given.buckets];
	struct fgb_dedup_stored *s = NULL;
	uint32_t number, steps = 0;

	fgb_call_lock(&b->lock);
	if (b->pass != pass)
		b->head = 0;
	b->pass = pass;
	for (number = b->head; number && steps < fgb_dedup.distinct; number = s->next, steps++) {
		s = &fgb_dedup.stored[number - 1];
		if (s->hash == c->hash && s->length == c->length &&
		    memcmp(&fgb_dedup.stream[s->from], &fgb_dedup.stream[c->from], c->length) == 0)
			break;
	}
	*fresh = !number;
	if (!number) {
		number = fg_fetch_add_relaxed(&fgb_dedup.used, 1) % fgb_dedup.distinct + 1;
		s = &fgb_dedup.stored[number - 1];
		s->hash = c->hash;
		s->from = c->from;
		s->length = c->length;
		s->next = b->head;
		s->bytes = 0;
		s->written = false;
		b->head = number;
	}
	fgb_call_unlock(&b->lock);
	return number - 1;
}

/* The bytes to be stored, in their place. */
static uint32_t fgb_dedup_compress(const struct fgb_dedup_chunk *c, uint64_t *sum)
{
	uint32_t bytes = fgb_compress(&fgb_dedup.stream[c->from], c->length, &fgb_dedup.kept[c->from]);

	*sum = fgb_dedup_sum(&fgb_dedup.kept[c->from], bytes);
	return bytes;
}

/* The sequential run finds out all of a chunk at once, also of repeats: in other runs another one may come first. */
static void fgb_dedup_learn(const struct fgb_dedup_chunk *c, struct fgb_dedup_known *known)
{
	known->length = c->length;
	known->hash = fgb_dedup_sum(&fgb_dedup.stream[c->from], c->length);
	known->bytes = fgb_dedup_compress(c, &known->sum);
}

static void fgb_dedup_store(const struct fgb_dedup_chunk *c, const struct fgb_dedup_known *known)
{
	struct fgb_dedup_stored *s = &fgb_dedup.stored[c->stored];
	uint64_t sum = known->sum;
	uint32_t bytes = known->bytes;

	if (!fgb_dedup.learns && fgb_dedup_works(known))
		bytes = fgb_dedup_compress(c, &sum);
	fgb_call_lock(&s->lock);
	s->bytes = bytes;
	s->sum = sum;
	fgb_call_unlock(&s->lock);
}

/* Writes a chunk, under the output's lock: what is stored, or a reference. False: it is not compressed yet. */
static bool fgb_dedup_append(const struct fgb_dedup_chunk *c)
{
	struct fgb_dedup_stored *s = &fgb_dedup.stored[c->stored];
	uint8_t *place = &fgb_dedup.output.written[fgb_dedup.output.bytes % (FGB_DEDUP_WRITTEN - FGB_DEDUP_MOST)];
	uint32_t bytes;
	uint64_t sum;
	bool first;

	fgb_call_lock(&s->lock);
	bytes = s->bytes;
	sum = s->sum;
	first = bytes && !s->written;
	if (first)
		s->written = true;
	fgb_call_unlock(&s->lock);
	if (!bytes)
		return false;
	if (first)
		memcpy(place, &fgb_dedup.kept[s->from], bytes < FGB_DEDUP_MOST ? bytes : FGB_DEDUP_MOST);
	else
		memcpy(place, &c->hash, sizeof(c->hash));
	fgb_dedup.output.bytes += first ? bytes : sizeof(c->hash);
	fgb_dedup.output.hash = fgb_mix(fgb_dedup.output.hash ^ (first ? sum : c->hash)) + first;
	return true;
}

/* The fragment is written: is the output so far what it must be? */
static void fgb_dedup_compare(uint64_t fragment)
{
	uint64_t at = fragment % fgb_dedup.fragments;

	if (fgb_dedup.learns)
		fgb_dedup.expected[at] = fgb_dedup.output.hash;
	else if (fgb_dedup.expected[at] != fgb_dedup.output.hash)
		fgb_dedup.output.wrong++;
	if (at + 1 == fgb_dedup.fragments)
		fgb_dedup.output.hash = 0;
	fgb_dedup.output.piece = 0;
}

/* Adds a chunk to those that are ready, and writes what is next in the stream's order. */
static void fgb_dedup_write(uint32_t number, struct fgb_dedup_section *section)
{
	uint64_t fragment, chunks;

	fgb_dedup_lock(&fgb_dedup.output.lock, section);
	chunks = fgb_dedup.output.chunks;
	fragment = fg_load_relaxed(&fgb_dedup.output.fragments);
	fgb_dedup.output.ready[number] = true;
	for (;;) {
		uint64_t at = fragment % FGB_DEDUP_UNDERWAY * FGB_DEDUP_PIECES + fgb_dedup.output.piece;
		const struct fgb_dedup_chunk *c = &fgb_dedup.chunk[at % FGB_DEDUP_CHUNKS];

		if (!fgb_dedup.output.ready[at % FGB_DEDUP_CHUNKS] || !fgb_dedup_append(c))
			break;
		fgb_dedup.output.ready[at % FGB_DEDUP_CHUNKS] = false;
		chunks++;
		fgb_dedup.output.piece++;
		if (c->last)
			fgb_dedup_compare(fragment++);
	}
	fgb_dedup.output.chunks = chunks;
	fg_store_release(&fgb_dedup.output.fragments, fragment); /* to fgb_dedup_take: their chunks are free */
	fgb_dedup_unlock(&fgb_dedup.output.lock, section);
}

/* Takes one piece of work through its stage. False: there is none. Sets *section: the output's if it writes, otherwise
 * that in which it took the work. */
static bool fgb_dedup_step(struct fgb_dedup_thread *t, struct fgb_dedup_section *section)
{
	struct fgb_dedup_chunk *c;
	struct fgb_dedup_known *known;
	uint32_t stage, number;
	uint64_t fragment;
	bool fresh;

	if (!fgb_dedup_pop(t, &stage, &number, section)) {
		if (!fgb_dedup_take(&fragment, section))
			return false;
		fgb_dedup_split(t, fragment);
		return true;
	}
	t->popped++;
	c = &fgb_dedup.chunk[number];
	known = fgb_dedup_known(c->from, number);
	if (stage == FGB_DEDUP_HASH) {
		uint64_t written = fg_load_relaxed(&fgb_dedup.output.fragments); /* its pass is c's: c is not written */

		if (fgb_dedup.learns)
			fgb_dedup_learn(c, known);
		c->hash = fgb_dedup_works(known) ? fgb_dedup_sum(&fgb_dedup.stream[c->from], c->length) : known->hash;
		c->stored = fgb_dedup_enter(c, fgb_dedup_pass(written), &fresh);
		fgb_dedup_push(fresh ? FGB_DEDUP_COMPRESS : FGB_DEDUP_WRITE, t, number);
	} else if (stage == FGB_DEDUP_COMPRESS) {
		fgb_dedup_store(c, known);
		fgb_dedup_push(FGB_DEDUP_WRITE, t, number);
	} else {
		fgb_dedup_write(number, section);
	}
	return true;
}

__attribute__((noinline)) static void fgb_dedup_loop(const struct fgb_run *run, uint32_t phase, struct fgb_thread *self)
{
	struct fgb_dedup_thread *t = &fgb_dedup.thread[self->index];

	while (fg_load_relaxed(&run->phase) == phase) {
		struct fgb_dedup_section section;

		if (!fgb_dedup_step(t, &section)) {
			sched_yield(); /* the others have all that there is */
			continue;
		}
		t->ops++;
		fgb_count(&self->counts[phase], section.asked, section.acquired, section.released);
	}
}

/* ---- before and after ---- */

/* Text of 256 words, and repeats of what came before, of up to 32 KB each. */
static void fgb_dedup_write_stream(void)
{
	uint64_t random = fgb_dedup_given.seed, word;
	uint32_t at = 0;

	for (int i = 0; i < 256; i++)
		fgb_dedup.gear[i] = fgb_random(&random);
	while (at < fgb_dedup.bytes) {
		uint32_t length = (uint32_t)(1 + fgb_below(fgb_random(&random), 4096)) * 8;
		uint32_t from = (uint32_t)fgb_below(fgb_random(&random), at + 1) / 8 * 8;

		length = length < fgb_dedup.bytes - at ? length : fgb_dedup.bytes - at;
		if (fgb_random(&random) % 2 && length <= at - from) {
			memcpy(&fgb_dedup.stream[at], &fgb_dedup.stream[from], length);
			at += length;
		} else {
			for (uint32_t end = at + length; at < end; at += 8) {
				word = fgb_mix(fgb_random(&random) % 256);
				memcpy(&fgb_dedup.stream[at], &word, 8);
			}
		}
	}
}

static int fgb_dedup_prepare(const struct fgb_run *run)
{
	struct fgb_dedup_section section;

	fgb_dedup.threads = run->threads;
	fgb_dedup.queues = (run->threads + 3) / 4 < FGB_DEDUP_QUEUES ? (run->threads + 3) / 4 : FGB_DEDUP_QUEUES;
	fgb_dedup.bytes = (uint32_t)fgb_dedup_given.megabytes << 20;
	fgb_dedup.fragments = fgb_dedup.bytes / FGB_DEDUP_FRAGMENT;
	fgb_dedup.distinct = fgb_dedup.fragments * FGB_DEDUP_PIECES;
	fgb_dedup.stream = (uint8_t *)fgb_allocate(fgb_dedup.bytes + FGB_DEDUP_MOST, 1);
	fgb_dedup.kept = (uint8_t *)fgb_allocate(fgb_dedup.bytes + FGB_DEDUP_MOST, 1);
	fgb_dedup.expected = (uint64_t *)fgb_allocate(fgb_dedup.fragments, sizeof(uint64_t));
	fgb_dedup.known = (struct fgb_dedup_known *)fgb_allocate(fgb_dedup.distinct, sizeof(*fgb_dedup.known));
	fgb_dedup.bucket = (struct fgb_dedup_bucket *)fgb_allocate(fgb_dedup_given.buckets, sizeof(*fgb_dedup.bucket));
	fgb_dedup.stored = (struct fgb_dedup_stored *)fgb_allocate(fgb_dedup.distinct, sizeof(*fgb_dedup.stored));
	fgb_dedup.queue =
		(struct fgb_dedup_queue *)fgb_allocate(FGB_DEDUP_STAGES * fgb_dedup.queues, sizeof(*fgb_dedup.queue));
	fgb_dedup.thread = (struct fgb_dedup_thread *)fgb_allocate(run->threads, sizeof(*fgb_dedup.thread));
	if (!fgb_dedup.stream || !fgb_dedup.kept || !fgb_dedup.expected || !fgb_dedup.known || !fgb_dedup.bucket ||
	    !fgb_dedup.stored || !fgb_dedup.queue || !fgb_dedup.thread)
		return FGB_FAILED;
	for (uint64_t i = 0; i < run->threads; i++)
		fgb_dedup.thread[i].index = i;
	fgb_dedup_write_stream();
	fgb_dedup.learns = true;
	while (fgb_dedup.output.fragments < fgb_dedup.fragments)
		fgb_dedup_step(&fgb_dedup.thread[0], &section);
	fgb_dedup.learns = false;
	fgb_dedup.distinct = fgb_dedup.used;
	return 0;
}

static bool fgb_dedup_adds_up(uint64_t ops)
{
	uint64_t made = 0, popped = 0, sum = 0, left = 0, fragments = 0;

	for (uint64_t i = 0; i < fgb_dedup.threads; i++) {
		made += fgb_dedup.thread[i].chunks;
		popped += fgb_dedup.thread[i].popped;
		sum += fgb_dedup.thread[i].ops;
		fragments += fgb_dedup.thread[i].fragments;
	}
	for (uint64_t i = 0; i < FGB_DEDUP_STAGES * fgb_dedup.queues; i++) {
		popped -= fgb_dedup.queue[i].popped;
		left += fgb_dedup.queue[i].pushed - fgb_dedup.queue[i].popped;
	}
	for (uint32_t i = 0; i < FGB_DEDUP_CHUNKS; i++)
		left += fgb_dedup.output.ready[i];
	if (fgb_dedup.used > fgb_dedup.distinct || fgb_dedup.output.wrong)
		return false;
	for (uint32_t i = 0; i < fgb_dedup.used; i++) {
		const struct fgb_dedup_stored *s = &fgb_dedup.stored[i];

		if (s->bytes &&
		    !fgb_stands_for(&fgb_dedup.kept[s->from], s->bytes, &fgb_dedup.stream[s->from], s->length))
			return false;
	}
	return sum == ops && popped == 0 && fragments == fgb_dedup.input.next && made == fgb_dedup.output.chunks + left;
}

static uint64_t fgb_dedup_locks(void)
{
	return fgb_dedup_given.buckets + fgb_dedup.distinct + FGB_DEDUP_STAGES * fgb_dedup.queues + 2;
}

static void fgb_dedup_describe(void)
{
	fgb_json_count("megabytes", fgb_dedup_given.megabytes);
	fgb_json_count("buckets", fgb_dedup_given.buckets);
	fgb_json_count("seed", fgb_dedup_given.seed);
	fgb_json_count("divide", fgb_dedup_given.divide);
	fgb_json_count("distinct", fgb_dedup.distinct);
	fgb_json_count("chunks", fgb_dedup.output.chunks);
	fgb_json_count("passes", fgb_dedup.output.fragments / fgb_dedup.fragments);
	fgb_json_count("locks", fgb_dedup_locks());
}

static const struct fgb_option fgb_dedup_options[] = {
	FGB_OPTION_NUMBER("--megabytes", "of the stream", 1, 1024, &fgb_dedup_given.megabytes),
	FGB_OPTION_NUMBER("--buckets", "of the table of chunks, a lock each", 1, 1e8, &fgb_dedup_given.buckets),
	FGB_OPTION_NUMBER("--seed", "of the stream", 0, 1e9, &fgb_dedup_given.seed),
	FGB_OPTION_NUMBER("--divide", "work on one chunk of so many; the others' results are known", 1, 1e6,
			  &fgb_dedup_given.divide),
	FGB_OPTIONS_END,
};

static const struct fgb_workload fgb_workload_dedup = {
	.name = "dedup",
	.brief = "a pipeline that chunks, hashes, compresses and writes; 266,000 locks; wait: for the first lock of a "
		 "stage",
	.sample = 1,
	.own_loop = true,
	.options = fgb_dedup_options,
	.prepare = fgb_dedup_prepare,
	.loop = fgb_dedup_loop,
	.adds_up = fgb_dedup_adds_up,
	.locks = fgb_dedup_locks,
	.describe = fgb_dedup_describe,
};
