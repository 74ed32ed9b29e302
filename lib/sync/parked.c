/* SPDX-License-Identifier: MIT */
#include "sync/parked.h"

#include <errno.h>
#include <stddef.h>

#include "runtime/futex.h"

#define POSTS 8 /* what handlers want within the ten instructions of one locked bucket; more: P7 */
#define KINDS 2 /* of objects: what each does then */

struct fgi_parked_list fgi_parked_lists[FGI_BUCKETS];
uintptr_t fgi_bucket_owners[FGI_OWN_BUCKETS];

unsigned int fgi_bucket_find(const void *object, unsigned int hash)
{
	uintptr_t wanted = (uintptr_t)object;

	for (unsigned int i = hash; i < hash + FGI_BUCKET_TRIES; i++) {
		uintptr_t *owner = &fgi_bucket_owners[i % FGI_OWN_BUCKETS], found = fg_load_relaxed(owner);

		if (!found)
			found = fg_cas_relaxed(owner, 0, wanted);
		if (!found || found == wanted)
			return i % FGI_OWN_BUCKETS;
	}
	return FGI_OWN_BUCKETS + hash;
}

/* How many buckets this thread has locked, or waits for, and what it does after that (P7). A handler may interrupt
 * another one, or the thread that empties a post, between any two instructions. So a post is claimed by a
 * compare-and-swap before it is written or read:
 *
 *   state     what moves it on
 *   EMPTY     a handler: -> CLAIMED
 *   CLAIMED   the handler, once it has written it: -> FULL;  the thread, once it has read it: -> EMPTY
 *   FULL      the thread that unlocks: -> CLAIMED
 *
 * A handler that jumps out leaves its post CLAIMED: one less. */
static __thread uint32_t inside __attribute__((tls_model("initial-exec")));
static __thread uint32_t postponed __attribute__((tls_model("initial-exec"))); /* is there anything to do? */
static __thread uint32_t forked __attribute__((tls_model("initial-exec")));    /* a handler has, while `inside` */
static __thread void (*overflows[KINDS])(void) __attribute__((tls_model("initial-exec")));
static __thread struct post {
	uint32_t state;
	void (*run)(void *object);
	void *object;
} posts[POSTS] __attribute__((tls_model("initial-exec")));

enum { EMPTY, CLAIMED, FULL };

void fgi_parked_lock_list(struct fgi_parked_list *list)
{
	inside++;
	fg_compiler_barrier();
	fgi_bucket_lock(&list->word);
}

struct fgi_parked_list *fgi_parked_lock(const void *object)
{
	struct fgi_parked_list *list = fgi_parked_list_of(object);

	fgi_parked_lock_list(list);
	return list;
}

/* Moves a post on, before what follows and after what precedes in this thread. */
static bool moves_on(struct post *post, uint32_t from, uint32_t to)
{
	bool moved;

	fg_compiler_barrier();
	moved = fg_cas_relaxed(&post->state, from, to) == from;
	fg_compiler_barrier();
	return moved;
}

bool fgi_parked_is_inside(void)
{
	return inside;
}

bool fgi_parked_postpone(void (*run)(void *object), void *object, void (*all)(void))
{
	struct post *post = posts;
	void (*found)(void);

	if (fg_likely(!inside))
		return false;
	while (post < posts + POSTS && !moves_on(post, EMPTY, CLAIMED))
		post++;
	if (post < posts + POSTS) {
		post->run = run;
		post->object = object;
		moves_on(post, CLAIMED, FULL);
	} else {
		for (int i = 0; i < KINDS; i++) {
			found = fg_cas_relaxed(&overflows[i], NULL, all);
			if (!found || found == all)
				break;
		}
	}
	fg_store_relaxed(&postponed, 1);
	return true;
}

__attribute__((noinline, cold)) static void run_postponed(void)
{
	void (*all)(void);

	fg_store_relaxed(&postponed, 0);
	fg_compiler_barrier();
	if (fg_load_relaxed(&forked)) { /* what was interrupted has gone on with nodes of the parent's threads */
		fg_store_relaxed(&forked, 0);
		fgi_parked_after_fork();
	}
	for (struct post *post = posts; post < posts + POSTS; post++) {
		if (moves_on(post, FULL, CLAIMED)) {
			struct post copy = *post;

			moves_on(post, CLAIMED, EMPTY);
			copy.run(copy.object);
		}
	}
	for (int i = 0; i < KINDS; i++) {
		all = fg_load_relaxed(&overflows[i]);
		fg_compiler_barrier();
		if (all) {
			fg_store_relaxed(&overflows[i], NULL);
			all();
		}
	}
}

void fgi_parked_unlock(struct fgi_parked_list *list)
{
	bool wakes = fgi_bucket_unlock(&list->word);

	fg_compiler_barrier();
	inside--; /* before the system call: handlers run at its end, and may jump out */
	fg_compiler_barrier();
	if (fg_unlikely(wakes))
		fgi_futex_wake(&list->word, 1);
	while (fg_unlikely(fg_load_relaxed(&postponed)) && !inside)
		run_postponed();
}

/* Of two objects, the one with the higher rank is above the other in the treap. */
static uint64_t rank(const void *object)
{
	uint64_t mixed = fgi_hash_of(object, 64);

	return fgi_hash(mixed ^ mixed >> 32, 64);
}

/* On which side of p's object? */
static struct fgi_parked **side(struct fgi_parked *p, const void *object)
{
	return (uintptr_t)object < (uintptr_t)p->object ? &p->lower : &p->higher;
}

/* Where the bucket has the object, or NULL below the last that was looked at. */
static struct fgi_parked **place_of(struct fgi_parked_list *list, const void *object)
{
	struct fgi_parked **link = &list->queues;

	while (*link && (*link)->object != object)
		link = side(*link, object);
	return link;
}

/* Where the bucket has the first node of that queue. */
static struct fgi_parked **find(struct fgi_parked_list *list, const void *object, uint32_t number)
{
	struct fgi_parked **link = place_of(list, object);

	while (*link && (*link)->number != number && (number != FGI_PARKED_NUMBERED || (*link)->number == 0))
		link = &(*link)->sibling;
	return link;
}

/* A place for an object that the bucket does not have: what is below goes to one side of it or the other. */
static void insert(struct fgi_parked_list *list, struct fgi_parked *p)
{
	struct fgi_parked **link = &list->queues, **lower = &p->lower, **higher = &p->higher, *below;

	while (*link && rank((*link)->object) >= rank(p->object))
		link = side(*link, p->object);
	below = *link;
	*link = p;
	while (below) {
		struct fgi_parked ***end = (uintptr_t)below->object < (uintptr_t)p->object ? &lower : &higher;

		**end = below;
		*end = side(below, p->object);
		below = **end;
	}
	*lower = *higher = NULL;
}

/* The place at `link` goes. */
static void extract(struct fgi_parked **link)
{
	struct fgi_parked *lower = (*link)->lower, *higher = (*link)->higher;

	while (lower && higher) {
		if (rank(lower->object) > rank(higher->object)) {
			*link = lower;
			link = &lower->higher;
			lower = *link;
		} else {
			*link = higher;
			link = &higher->lower;
			higher = *link;
		}
	}
	*link = lower ? lower : higher;
}

/* What is around the first node of a queue is around p, which takes its place. */
static void replace(struct fgi_parked **link, struct fgi_parked *p)
{
	p->lower = (*link)->lower;
	p->higher = (*link)->higher;
	*link = p;
}

struct fgi_parked *fgi_parked_first(const struct fgi_parked_list *list, const void *object, uint32_t number)
{
	return *find((struct fgi_parked_list *)(uintptr_t)list, object, number);
}

struct fgi_parked *fgi_parked_next(const struct fgi_parked_list *list, const void *object, const struct fgi_parked *p)
{
	return p ? p->next : fgi_parked_first(list, object, 0);
}

struct fgi_parked *fgi_parked_after(const struct fgi_parked_list *list, const void *object)
{
	struct fgi_parked *after = NULL;

	for (struct fgi_parked *p = list->queues; p; p = *side(p, object))
		if ((uintptr_t)p->object > (uintptr_t)object)
			after = p;
	return after;
}

/* A new queue comes before the object's older ones. */
static void add_queue(struct fgi_parked_list *list, struct fgi_parked *p)
{
	struct fgi_parked **link = place_of(list, p->object);

	p->sibling = *link;
	if (*link)
		replace(link, p);
	else
		insert(list, p);
}

void fgi_parked_add(struct fgi_parked_list *list, struct fgi_parked *p, bool first)
{
	struct fgi_parked **link = find(list, p->object, p->number), *head = *link;

	p->next = NULL;
	p->prev = p;
	if (!head) {
		add_queue(list, p);
		return;
	}
	p->prev = head->prev;
	if (first) {
		p->next = head;
		p->sibling = head->sibling;
		replace(link, p);
	} else {
		head->prev->next = p;
	}
	head->prev = p;
}

void fgi_parked_remove(struct fgi_parked_list *list, struct fgi_parked *p)
{
	struct fgi_parked **link = find(list, p->object, p->number), *head = *link;

	if (!head)
		return; /* never: p is queued */
	if (p != head) {
		p->prev->next = p->next;
		(p->next ? p->next : head)->prev = p->prev;
	} else if (p->next) {
		p->next->prev = p->prev;
		p->next->sibling = p->sibling;
		replace(link, p->next);
	} else if (p->sibling) {
		replace(link, p->sibling);
	} else if (link == place_of(list, p->object)) {
		extract(link);
	} else {
		*link = NULL;
	}
	p->prev = NULL;
}

void fgi_parked_tell(struct fgi_parked *p, enum fgi_parked_state state)
{
	uint32_t *word = &p->state;

	if (fg_xchg_release(word, state) != FGI_PARKED_AWAKE)
		fgi_futex_wake(word, 1);
}

int fgi_parked_sleep(struct fgi_parked *p, enum fgi_parked_state as, const struct fgi_deadline *deadline,
		     uint64_t until_ns)
{
	uint32_t found = fg_cas_relaxed(&p->state, FGI_PARKED_AWAKE, as);

	if (found != FGI_PARKED_AWAKE && found != as)
		return EAGAIN;
	fg_thread.parks++;
	if (until_ns)
		return fgi_sleep_until(&p->state, as, deadline, until_ns, FGI_ANYBODY);
	return fgi_futex_wait(&p->state, as, deadline->clock, deadline->time);
}

bool fgi_parked_await(struct fgi_parked *p)
{
	while (!fgi_parked_told(p) && p->forks == fgi_forks)
		fgi_parked_sleep(p, fgi_parked_watches(p) ? FGI_PARKED_WATCHES : FGI_PARKED_ASLEEP, &FGI_NEVER, 0);
	return fgi_parked_told(p);
}

void fgi_parked_after_fork(void)
{
	for (uint32_t i = 0; i < FGI_BUCKETS; i++) {
		struct fgi_parked_list *list = &fgi_parked_lists[i];

		if (list->word || list->queues) /* what is not written need not be copied */
			*list = (struct fgi_parked_list){.numbered = list->numbered};
	}
	if (inside) {
		fg_store_relaxed(&forked, 1);
		fg_store_relaxed(&postponed, 1);
	}
}
