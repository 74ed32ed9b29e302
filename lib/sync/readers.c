/* SPDX-License-Identifier: MIT */
#include "sync/readers.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "runtime/futex.h"
#include "runtime/system.h"

uint64_t fgi_readers[FGI_READER_ROWS][FGI_READERS_A_ROW] __attribute__((aligned(FG_CACHE_LINE)));
_Static_assert(sizeof(fgi_readers[0]) == FG_CACHE_LINE, "a row is one line");
uint32_t fgi_readers_used;

__thread int32_t fgi_reading __attribute__((tls_model("initial-exec")));
static __thread uint32_t forker __attribute__((tls_model("initial-exec"))); /* by its tid in the parent */

uint64_t *fgi_readers_find(const void *lock)
{
	uint64_t column = fgi_readers_column(lock);

	for (uint32_t row = 0; row < FGI_READER_ROWS; row++) {
		uint64_t *entry = &fgi_readers[row][column];

		if ((fg_load_seq_cst(entry) & ~(uint64_t)1) == (uint64_t)(uintptr_t)lock)
			return entry;
	}
	return NULL;
}

/* The futex is the half of the entry that has bit 0. */
static uint32_t *futex_of(uint64_t *entry)
{
	return (uint32_t *)(void *)entry + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

void fgi_readers_wake(uint64_t *entry)
{
	fgi_futex_wake(futex_of(entry), INT_MAX);
}

void fgi_readers_sleep(uint64_t *entry, const void *lock, struct fgi_deadline until)
{
	uint64_t unmarked = (uint64_t)(uintptr_t)lock, marked = unmarked | 1;

	if ((fg_cas_relaxed(entry, unmarked, marked) | 1) != marked)
		return;
	fg_thread.parks++;
	fgi_futex_wait(futex_of(entry), (uint32_t)marked, until.clock, until.time);
}

uint32_t fgi_readers_forget_slow(const void *lock)
{
	uint64_t *entry;
	uint32_t entries = 0;

	while ((entry = fgi_readers_find(lock)) != NULL)
		entries += fgi_readers_leave(entry, lock);
	return entries;
}

void fgi_readers_before_fork(void)
{
	forker = fg_thread.self;
}

/* The handler that renews fg_thread.self may run after this one, so the kernel is asked. */
void fgi_readers_after_fork(void)
{
	uint64_t own[FGI_READERS_A_ROW];

	if (!fgi_readers_used)
		return;
	memcpy(own, fgi_readers[forker % FGI_READER_ROWS], sizeof(own));
	memset(fgi_readers, 0, sizeof(fgi_readers));
	if (fgi_reading > 0)
		memcpy(fgi_readers[fgi_system_tid() % FGI_READER_ROWS], own, sizeof(own));
}
