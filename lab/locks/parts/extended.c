/* SPDX-License-Identifier: MIT */
#include "locks/parts/extended.h"

#include <string.h>
#include <sys/mman.h>

#include "runtime/arch/arch.h"
#include "runtime/system.h"

/* For each size:
 *
 *   objects [0 .. used)      have been handed out at least once; readable and writable
 *   objects [used .. ready)  usable, never touched, so zero
 *   objects [ready .. end)   reserved address space
 *
 * `stack` is a Treiber stack of those given back: index + 1 of the top in the low half, a tag that each change advances
 * in the high half. An object on the stack is zero except its first word, the index + 1 of the one below. */
static struct {
	uint32_t used, ready;
	uint64_t stack;
} pools[2];

char *fgi_extended_region[2];

static const uint32_t bytes[2] = {FGI_EXTENDED_SMALL_BYTES, FGI_EXTENDED_LARGE_BYTES};
static const uint32_t count[2] = {FGI_EXTENDED_SMALL_COUNT, FGI_EXTENDED_LARGE_COUNT};

#define STEP_BYTES 65536u

static uint32_t *first_word(enum fgi_extended_size size, uint32_t index)
{
	return (uint32_t *)(void *)(fgi_extended_region[size] + (uint64_t)index * bytes[size]);
}

static char *region_of(enum fgi_extended_size size)
{
	size_t length = (size_t)bytes[size] * count[size];
	char *region = fg_load_acquire(&fgi_extended_region[size]), *found = NULL;
	long at;

	if (region)
		return region;
	at = fgi_system_call(SYS_mmap, 0, (long)length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (fgi_is_error(at))
		return NULL;
	region = (char *)at;
	found = fg_cas_acq_rel(&fgi_extended_region[size], found, region);
	if (!found)
		return region;
	fgi_system_unmap(region, length); /* another thread was first */
	return found;
}

/* All three return index + 1, or 0. */
static uint32_t pop(enum fgi_extended_size size)
{
	uint64_t top = fg_load_acquire(&pools[size].stack), found;

	while (top & UINT32_MAX) {
		uint32_t *word = first_word(size, (uint32_t)top - 1);
		uint32_t below = fg_load_relaxed(word); /* meaningless if another thread pops first */

		found = fg_cas_acquire(&pools[size].stack, top, ((top >> 32) + 1) << 32 | below);
		if (found == top) {
			fg_store_relaxed(word, 0);
			return (uint32_t)top;
		}
		top = found;
	}
	return 0;
}

static uint32_t fresh(enum fgi_extended_size size)
{
	uint32_t i = fg_load_relaxed(&pools[size].used), found, per_step = STEP_BYTES / bytes[size];

	for (;; i = found) {
		if (i >= count[size])
			return 0;
		if (i >= fg_load_acquire(&pools[size].ready)) {
			uint32_t step = i / per_step * per_step, had = step;

			/* Idempotent, so several threads may do it at once. */
			if (fgi_system_call(SYS_mprotect, (long)first_word(size, step), STEP_BYTES,
					    PROT_READ | PROT_WRITE, 0, 0, 0))
				return 0;
			fg_cas_release(&pools[size].ready, had, step + per_step);
		}
		found = fg_cas_relaxed(&pools[size].used, i, i + 1);
		if (found == i)
			return i + 1;
	}
}

static void push(enum fgi_extended_size size, uint32_t name)
{
	uint64_t top = fg_load_relaxed(&pools[size].stack), found;

	for (;;) {
		fg_store_relaxed(first_word(size, name - 1), (uint32_t)top);
		/* release: pairs with pop's acquire; the thread that pops it finds the rest zero */
		found = fg_cas_release(&pools[size].stack, top, ((top >> 32) + 1) << 32 | name);
		if (found == top)
			return;
		top = found;
	}
}

void *fgi_extended_attach(uint32_t *link, enum fgi_extended_size size)
{
	void *object = fgi_extended_of(link, size);
	uint32_t name;

	if (object)
		return object;
	name = region_of(size) ? pop(size) : 0;
	if (!name && fg_load_relaxed(&fgi_extended_region[size]))
		name = fresh(size);
	if (!name)
		return NULL;
	if (fg_cas_acq_rel(link, 0, name) != 0)
		push(size, name); /* another thread was first; this object is still zero */
	return fgi_extended_of(link, size);
}

void fgi_extended_detach(uint32_t *link, enum fgi_extended_size size)
{
	uint32_t name = *link;

	if (!name)
		return;
	*link = 0;
	memset(first_word(size, name - 1), 0, bytes[size]);
	push(size, name);
}

uint32_t fgi_extended_used(enum fgi_extended_size size)
{
	return fg_load_relaxed(&pools[size].used);
}
