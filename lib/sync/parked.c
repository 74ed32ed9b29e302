/* SPDX-License-Identifier: MIT */
#include "sync/parked.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

#include "abi/flexguard_abi.h"
#include "runtime/futex.h"
#include "sync/bucket.h"

struct fgi_parked_list {
	uint32_t word; /* sync/bucket.h */
	struct fgi_parked *first, *last;
} __attribute__((aligned(FG_CACHE_LINE)));

static struct fgi_parked_list lists[FGI_BUCKETS];

struct fgi_parked_list *fgi_parked_lock(const void *lock)
{
	struct fgi_parked_list *list = &lists[fgi_bucket_of(lock)];

	fgi_bucket_lock(&list->word);
	return list;
}

void fgi_parked_unlock(struct fgi_parked_list *list)
{
	fgi_bucket_unlock(&list->word);
}

void fgi_parked_add(struct fgi_parked_list *list, struct fgi_parked *p, bool first)
{
	p->next = first ? list->first : NULL;
	p->prev = first ? NULL : list->last;
	*(p->next ? &p->next->prev : &list->last) = p;
	*(p->prev ? &p->prev->next : &list->first) = p;
}

void fgi_parked_remove(struct fgi_parked_list *list, struct fgi_parked *p)
{
	*(p->next ? &p->next->prev : &list->last) = p->prev;
	*(p->prev ? &p->prev->next : &list->first) = p->next;
}

struct fgi_parked *fgi_parked_next(const struct fgi_parked_list *list, const void *lock, const struct fgi_parked *p)
{
	p = p ? p->next : list->first;
	while (p && p->lock != lock)
		p = p->next;
	return (struct fgi_parked *)(uintptr_t)p;
}

void fgi_parked_tell(struct fgi_parked *p, enum fgi_parked_state state)
{
	uint32_t *word = &p->state;

	if (fg_xchg_release(word, state) == FGI_PARKED_ASLEEP)
		fgi_futex_wake(word, 1);
}

void fgi_parked_after_fork(void)
{
	memset(lists, 0, sizeof(lists));
}
