/* SPDX-License-Identifier: MIT */
#include "sync/parked.h"

#include <stddef.h>
#include <string.h>
#include <time.h>

#include "abi/flexguard_abi.h"
#include "runtime/futex.h"

/* `word`: 0 free, 1 held, 2 held and perhaps waited for. It is held for moments, by threads that wait or wake. */
struct fgi_parked_list {
	uint32_t word;
	struct fgi_parked *first, *last;
} __attribute__((aligned(FG_CACHE_LINE)));

/* 16 KiB. Locks that share a list share moments only, so the number needs no tuning. */
#define LIST_BITS 8
static struct fgi_parked_list lists[1 << LIST_BITS];

struct fgi_parked_list *fgi_parked_lock(const void *lock)
{
	/* Fibonacci hashing: neighbouring objects spread evenly. */
	struct fgi_parked_list *list = &lists[(uint64_t)(uintptr_t)lock * 0x9e3779b97f4a7c15ull >> (64 - LIST_BITS)];

	if (fg_unlikely(fg_cas_acquire(&list->word, 0, 1) != 0))
		while (fg_xchg_acquire(&list->word, 2) != 0)
			fgi_futex_wait(&list->word, 2, CLOCK_MONOTONIC, NULL);
	return list;
}

void fgi_parked_unlock(struct fgi_parked_list *list)
{
	if (fg_unlikely(fg_xchg_release(&list->word, 0) == 2)) /* pairs with the acquires in fgi_parked_lock */
		fgi_futex_wake(&list->word, 1);
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
