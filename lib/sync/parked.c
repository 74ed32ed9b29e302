/* SPDX-License-Identifier: MIT */
#include "sync/parked.h"

#include <errno.h>
#include <stddef.h>

#include "runtime/futex.h"

#define POSTPONED 8 /* signals of handlers, within the ten instructions of one locked bucket */

struct fgi_parked_list fgi_parked_lists[FGI_BUCKETS];

/* How many buckets this thread has locked, or waits for, and what it does after that (P7). */
static __thread uint32_t inside __attribute__((tls_model("initial-exec")));
static __thread uint32_t postponed __attribute__((tls_model("initial-exec")));
static __thread struct post {
	void (*run)(void *object);
	void *object;
} posts[POSTPONED] __attribute__((tls_model("initial-exec")));

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

bool fgi_parked_postpone(void (*run)(void *object), void *object)
{
	if (fg_likely(!inside))
		return false;
	if (postponed < POSTPONED)
		posts[postponed++] = (struct post){run, object};
	return true;
}

void fgi_parked_unlock(struct fgi_parked_list *list)
{
	fgi_bucket_unlock(&list->word);
	fg_compiler_barrier();
	inside--;
	fg_compiler_barrier();
	while (fg_unlikely(postponed) && !inside) {
		postponed--; /* no handler adds one before `run` locks a bucket */
		posts[postponed].run(posts[postponed].object);
	}
}

/* Where the bucket has the first node of that queue. */
static struct fgi_parked **find(struct fgi_parked_list *list, const void *object, uint32_t number)
{
	struct fgi_parked **link = &list->queues;

	while (*link && ((*link)->object != object ||
			 ((*link)->number != number && (number != FGI_PARKED_NUMBERED || (*link)->number == 0))))
		link = &(*link)->sibling;
	return link;
}

struct fgi_parked *fgi_parked_first(const struct fgi_parked_list *list, const void *object, uint32_t number)
{
	return *find((struct fgi_parked_list *)(uintptr_t)list, object, number);
}

struct fgi_parked *fgi_parked_next(const struct fgi_parked_list *list, const void *object, const struct fgi_parked *p)
{
	return p ? p->next : fgi_parked_first(list, object, 0);
}

/* A new queue comes before older ones. */
void fgi_parked_add(struct fgi_parked_list *list, struct fgi_parked *p, bool first)
{
	struct fgi_parked **link = find(list, p->object, p->number), *head = *link;

	p->next = NULL;
	p->prev = p;
	if (!head) {
		p->sibling = list->queues;
		list->queues = p;
		return;
	}
	p->prev = head->prev;
	if (first) {
		p->next = head;
		p->sibling = head->sibling;
		*link = p;
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
		*link = p->next;
	} else {
		*link = p->sibling;
	}
	p->prev = NULL;
}

void fgi_parked_tell(struct fgi_parked *p, enum fgi_parked_state state)
{
	uint32_t *word = &p->state;

	if (fg_xchg_release(word, state) != FGI_PARKED_AWAKE)
		fgi_futex_wake(word, 1);
}

int fgi_parked_sleep(struct fgi_parked *p, enum fgi_parked_state as, const struct fgi_spin_budget *deadline,
		     uint64_t until_ns)
{
	uint32_t found = fg_cas_relaxed(&p->state, FGI_PARKED_AWAKE, as);

	if (found != FGI_PARKED_AWAKE && found != as)
		return EAGAIN;
	fg_thread.parks++;
	if (until_ns)
		return fgi_sleep_until(&p->state, as, deadline, until_ns, FGI_ANYBODY);
	return fgi_futex_wait(&p->state, as, deadline->clock, deadline->deadline);
}

bool fgi_parked_await(struct fgi_parked *p)
{
	while (!fgi_parked_told(p) && p->forks == fgi_forks)
		fgi_parked_sleep(p, fgi_parked_watches(p) ? FGI_PARKED_WATCHES : FGI_PARKED_ASLEEP, &FGI_NO_DEADLINE,
				 0);
	return fgi_parked_told(p);
}

void fgi_parked_after_fork(void)
{
	for (uint32_t i = 0; i < FGI_BUCKETS; i++)
		fgi_parked_lists[i] = (struct fgi_parked_list){.numbered = fgi_parked_lists[i].numbered};
}
