/* SPDX-License-Identifier: MIT */
/* The futex: a table of buckets, each with a lock and a queue. */
#include "simulator/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>

#include "runtime/hash.h"
#include "simulator/engine.h"

struct fgs_futex_bucket {
	struct fgs_thread *first, *last;
	fgs_ps free_at; /* of its lock */
	struct fgs_line line;
	uint32_t waiters; /* also threads that are about to wait: a waker that finds none leaves the lock alone */
};

static struct fgs_futex_bucket *buckets;
static uint32_t bucket_count;
struct fgs_futex_counts fgs_futex_counts;

void fgs_futex_start(void)
{
	for (bucket_count = 256; bucket_count < 256 * fgs_cpu_count;)
		bucket_count *= 2;
	buckets = calloc(bucket_count, sizeof(*buckets));
	if (!buckets)
		fgs_fail("not enough memory");
}

static struct fgs_futex_bucket *bucket_of(const uint32_t *word)
{
	return &buckets[fgi_hash((uintptr_t)word / 4, 32) % bucket_count];
}

/* The lock of a bucket: its line, and the time for which others hold it. */
static void lock_bucket(struct fgs_futex_bucket *b)
{
	struct fgs_cpu *c = fgs_here;

	fgs_kernel_line(c, &b->line, FGS_CHANGE);
	if (c->now < b->free_at)
		c->now = b->free_at;
	c->now += fgs_cost(FGS_bucket);
	b->free_at = c->now;
}

static void append(struct fgs_futex_bucket *b, struct fgs_thread *t)
{
	t->bucket = b;
	t->next = NULL;
	if (b->first)
		b->last->next = t;
	else
		b->first = t;
	b->last = t;
}

static void unlink_after(struct fgs_futex_bucket *b, struct fgs_thread *before, struct fgs_thread *t)
{
	if (before)
		before->next = t->next;
	else
		b->first = t->next;
	if (b->last == t)
		b->last = before;
	t->bucket = NULL;
	b->waiters--;
}

void fgs_futex_forget(struct fgs_thread *t)
{
	struct fgs_thread *before = NULL;

	if (!t->bucket)
		return;
	for (struct fgs_thread *other = t->bucket->first; other != t; other = other->next)
		before = other;
	unlink_after(t->bucket, before, t);
}

/* Enters a call. */
static void enter(void)
{
	fgs_here->paused = false;
	fgs_here->now += fgs_takes(fgs_here, FGS_syscall) / 2;
	fgs_here->now += fgs_takes(fgs_here, FGS_futex);
	fgs_settle();
}

static void return_to_user(void)
{
	fgs_here->now += fgs_takes(fgs_here, FGS_syscall) / 2;
}

int fgs_futex_wait(const uint32_t *word, uint32_t expected, const fgs_ps *until, uint32_t bits)
{
	struct fgs_futex_bucket *b = bucket_of(word);
	struct fgs_thread *t;
	struct fgs_cpu *c;

	enter();
	fgs_futex_counts.waits++;
	b->waiters++;
	lock_bucket(b);
	fgs_settle();
	c = fgs_here;
	t = c->thread;
	fgs_kernel_access(c, word, FGS_LOAD);
	if (*word != expected || (until && *until + t->slack <= c->now)) {
		fgs_futex_counts.refusals += *word != expected;
		b->waiters--;
		return_to_user();
		return *word != expected ? EAGAIN : ETIMEDOUT;
	}
	append(b, t);
	t->word = word;
	t->bits = bits;
	t->timed_out = false;
	t->generation++;
	if (until)
		fgs_timer_set(*until);
	fgs_sleep();
	fgs_timer_cancel();
	if (t->timed_out)
		fgs_futex_forget(t);
	return_to_user();
	return t->timed_out ? ETIMEDOUT : 0;
}

int fgs_futex_wake(const uint32_t *word, int most, uint32_t bits)
{
	struct fgs_futex_bucket *b = bucket_of(word);
	struct fgs_thread *woken = NULL, **last = &woken, *before = NULL, *next;
	int count = 0;

	enter();
	fgs_futex_counts.wakes++;
	fgs_kernel_line(fgs_here, &b->line, FGS_LOAD);
	if (!b->waiters) {
		return_to_user();
		return 0;
	}
	lock_bucket(b);
	fgs_settle();
	for (struct fgs_thread *t = b->first; t && count < most; t = next) {
		next = t->next;
		if (t->word != word || !(t->bits & bits) || t->timed_out) {
			before = t;
			continue;
		}
		unlink_after(b, before, t);
		t->next = NULL;
		*last = t;
		last = &t->next;
		count++;
	}
	for (struct fgs_thread *t = woken; t; t = next) {
		next = t->next;
		fgs_wake(t, fgs_here->now, fgs_here);
	}
	return_to_user();
	return count;
}
