/* SPDX-License-Identifier: MIT */
/* Locks that another thread has released than the one that took them, where the word names the owner.
 *
 * The releasing thread does not count the lock, the thread that took it goes on counting it, and neither can write the
 * other's block. So the former leaves a note, and the latter settles it when it next takes a second lock, waits, or
 * releases another thread's lock itself: two threads that use a mutex as a semaphore keep each other's notes few.
 *
 * There are NOTES notes, which name lock and owner. When all are open, releases are counted for each owner instead, in
 * a table that has a place for every tid, and whose pages are used as they are touched.
 *
 * In the child of a fork the word of a lock that was held then names the thread that forked. `carrier`, the child's
 * first thread, counts it. */
#include <errno.h>

#include "runtime/sandbox.h"
#include "runtime/thread.h"

#define NOTES 64
#define TAKEN 0xffffffffu   /* being written, or settled */
#define CALLS_PER_LOOK 1024 /* a look may be a system call */

/* owner: 0 free, TAKEN, or the tid of the thread that took the lock, and settles the note. */
static struct {
	uint32_t owner;
	uint64_t word;
} notes[NOTES];

/* By tid: releases without a note. Linux gives out no higher ones; other names of threads (runtime/system.c) go
 * without. */
#define TIDS (1u << 22)
static uint32_t *unnoted;

uint32_t fgi_foreign_notes;

/* The names that the carrier had when it forked with a lock: one for each fork since it last held none. Of more than
 * FORKERS the oldest is forgotten: then the carrier counts its locks for good. */
#define FORKERS 8
static uint32_t forkers[FORKERS], forks, carrier;

static bool is_forker(uint32_t tid)
{
	for (uint32_t i = 0; i < forks && i < FORKERS; i++)
		if (forkers[i] == tid)
			return true;
	return false;
}

/* A thread begins, maybe with a forker's tid. */
void fgi_foreign_born(void)
{
	for (uint32_t i = 0; i < forks && i < FORKERS; i++)
		fg_cas_relaxed(&forkers[i], fg_thread.self, 0);
}

bool fgi_foreign_carried(uint32_t owner)
{
	return fg_thread.self == carrier && fg_thread.held > 0 && is_forker(owner);
}

/* A thread that has ended settles nothing. */
static bool ended(uint32_t tid)
{
	return tid != TAKEN && !fg_load_relaxed(&fgi_enters_sandbox) &&
	       fgi_optional_call(SYS_tkill, tid, 0, 0) == -ESRCH;
}

static bool write_note(uint32_t owner, uint64_t word, bool of_ended)
{
	for (int i = 0; i < NOTES; i++) {
		uint32_t found = fg_load_relaxed(&notes[i].owner);

		if (found && !(of_ended && ended(found)))
			continue;
		if (fg_cas_relaxed(&notes[i].owner, found, TAKEN) != found)
			continue;
		fg_store_relaxed(&notes[i].word, word);
		if (!found)
			fg_fetch_add_relaxed(&fgi_foreign_notes, 1);
		fg_store_release(&notes[i].owner, owner); /* pairs with the acquire in fgi_foreign_settle */
		return true;
	}
	return false;
}

/* A thread that unlocks what it does not hold any more, where it does not notice, settles no note: one will do. */
static bool has_note(uint32_t owner, uint64_t word)
{
	for (int i = 0; i < NOTES; i++)
		if (fg_load_relaxed(&notes[i].owner) == owner && fg_load_relaxed(&notes[i].word) == word)
			return true;
	return false;
}

/* Several threads may map the table at once: the first one's stays. */
static uint32_t *table(void)
{
	const size_t size = TIDS * sizeof(unnoted[0]);
	uint32_t *nothing = NULL, *found = fg_load_acquire(&unnoted);
	void *space;

	if (fg_likely(found != NULL))
		return found;
	space = fgi_system_map(size, MAP_NORESERVE);
	if (!space)
		return NULL;
	found = fg_cas_acq_rel(&unnoted, nothing, (uint32_t *)space);
	if (!found)
		return space;
	fgi_system_unmap(space, size);
	return found;
}

static void count_release(uint32_t owner)
{
	uint32_t *counts = owner < TIDS ? table() : NULL;

	if (counts && fg_fetch_add_relaxed(&counts[owner], 1) == 0)
		fg_fetch_add_relaxed(&fgi_foreign_notes, 1);
}

void fgi_foreign_note(uint32_t owner, const uint32_t *word)
{
	uint64_t address = (uint64_t)(uintptr_t)word;

	static uint32_t overflows;

	if (is_forker(owner))
		owner = carrier;
	if (!owner || write_note(owner, address, false) || has_note(owner, address))
		return;
	if (fg_fetch_add_relaxed(&overflows, 1) % NOTES || !write_note(owner, address, true)) /* up to NOTES calls */
		count_release(owner);
}

void fgi_foreign_release(const uint32_t *word)
{
	uint32_t owner = fg_load_relaxed(word) & FG_OWNER_MASK;

	if (fgi_foreign_carried(owner))
		return;
	if (fg_load_relaxed(&fgi_foreign_notes))
		fgi_foreign_settle();
	fgi_held_raise(); /* the release lowers it again */
	fgi_foreign_note(owner, word);
}

/* Which locks they were is not known. What is counted in the end is right; until `pending` changes it may show one of
 * them, in the place of one that the thread still holds. */
static void settle_counted(uint32_t self)
{
	uint32_t *counts = self < TIDS ? fg_load_acquire(&unnoted) : NULL, number;
	uint64_t pending;

	if (!counts || fg_load_relaxed(&counts[self]) == 0)
		return;
	number = fg_xchg_relaxed(&counts[self], 0);
	if (!number) /* a signal handler has settled them just now */
		return;
	fg_fetch_add_relaxed(&fgi_foreign_notes, -1u);
	for (; number > 0; number--) {
		pending = fg_thread.pending;
		if (fg_thread.held > 0)
			fgi_held_lower();
		else if (pending)
			fgi_local_cas(&fg_thread.pending, pending, 0);
	}
}

/* The first open note from there on, if its thread has ended: while there is one, every thread looks for its own. */
static void drop_ended(uint32_t first)
{
	uint32_t i = first % NOTES, found;

	for (uint32_t n = 1; !(found = fg_load_relaxed(&notes[i].owner)) && n < NOTES; n++)
		i = (first + n) % NOTES;
	if (!found || !ended(found) || fg_cas_relaxed(&notes[i].owner, found, TAKEN) != found)
		return;
	fg_store_relaxed(&notes[i].owner, 0);
	fg_fetch_add_relaxed(&fgi_foreign_notes, -1u);
}

void fgi_foreign_settle(void)
{
	static __thread uint32_t calls __attribute__((tls_model("initial-exec")));
	uint32_t self = fg_thread.self;

	if (fg_unlikely(++calls % CALLS_PER_LOOK == 0))
		drop_ended(calls / CALLS_PER_LOOK);
	for (int i = 0; self && i < NOTES; i++) {
		uint64_t word;

		if (fg_load_relaxed(&notes[i].owner) != self || fg_cas_acquire(&notes[i].owner, self, TAKEN) != self)
			continue;
		word = fg_load_relaxed(&notes[i].word);
		fg_store_relaxed(&notes[i].owner, 0);
		fg_fetch_add_relaxed(&fgi_foreign_notes, -1u);
		if (fgi_local_cas(&fg_thread.pending, word, 0) != word && fg_thread.held > 0)
			fgi_held_lower();
	}
	settle_counted(self);
}

void fgi_foreign_renamed(uint32_t forker)
{
	if (forker != carrier || fg_thread.held <= 0)
		forks = 0;
	if (forker && fg_thread.held > 0)
		forkers[forks++ % FORKERS] = forker;
	carrier = fg_thread.self;
}

void fgi_foreign_after_fork(uint32_t forker)
{
	uint32_t *counts = unnoted;

	fgi_foreign_renamed(forker);
	for (int i = 0; i < NOTES; i++)
		fg_store_relaxed(&notes[i].owner, 0);
	unnoted = NULL;
	if (counts)
		fgi_system_unmap(counts, TIDS * sizeof(unnoted[0]));
	fg_store_relaxed(&fgi_foreign_notes, 0);
}
