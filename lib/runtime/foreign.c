/* SPDX-License-Identifier: MIT */
/* Locks that another thread has released than the one that took them, where the word names the owner.
 *
 * The releasing thread does not count the lock, the thread that took it goes on counting it, and neither can write the
 * other's block. So the former leaves a note, and the latter settles it when it next takes a second lock or waits. */
#include <errno.h>

#include "runtime/sandbox.h"
#include "runtime/thread.h"

#define NOTES 64
#define TAKEN 0xffffffffu /* being written, or settled */

/* owner: 0 free, TAKEN, or the tid of the thread that took the lock, and settles the note. */
static struct {
	uint32_t owner;
	uint64_t word;
} notes[NOTES];

uint32_t fgi_foreign_notes;

/* A thread that has ended settles nothing. */
static bool ended(uint32_t tid)
{
	long self = fgi_optional_call(SYS_getpid, 0, 0, 0);

	return tid != TAKEN && fgi_optional_call(SYS_tgkill, self, tid, 0) == -ESRCH;
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

void fgi_foreign_note(uint32_t owner, const uint32_t *word)
{
	if (owner && !write_note(owner, (uint64_t)(uintptr_t)word, false))
		write_note(owner, (uint64_t)(uintptr_t)word, true); /* else that thread stays counted as a holder */
}

void fgi_foreign_release(const uint32_t *word)
{
	if (fgi_forks && fg_thread.held > 0) /* held since before the fork: `held` counts it */
		return;
	fgi_held_raise(); /* the release lowers it again */
	fgi_foreign_note(fg_load_relaxed(word) & FG_OWNER_MASK, word);
}

void fgi_foreign_settle(void)
{
	uint32_t self = fg_thread.self;

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
}

void fgi_foreign_after_fork(void)
{
	for (int i = 0; i < NOTES; i++)
		fg_store_relaxed(&notes[i].owner, 0);
	fg_store_relaxed(&fgi_foreign_notes, 0);
}
