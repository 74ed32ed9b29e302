/* SPDX-License-Identifier: MIT */
/* The memory of the simulated threads: stacks, and a heap, at fixed addresses; and a struct fgs_line for each 64 bytes
 * of it and of the program's image. Address space is reserved; what is not touched takes no memory. */
#include <string.h>
#include <sys/mman.h>

#include "simulator/engine.h"

#define LINES_OF_PAGE 64

struct fgs_line *fgs_arena_lines, *fgs_image_lines;

static void *reserve(void *at, size_t bytes, int flags)
{
	void *space =
		mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);

	if (space == MAP_FAILED)
		fgs_fail("cannot reserve %zu MB of address space", bytes >> 20);
	return space;
}

void fgs_memory_start(void)
{
	size_t image = (size_t)(_end - __executable_start);

	reserve((void *)FGS_ARENA, FGS_ARENA_BYTES, MAP_FIXED_NOREPLACE);
	fgs_arena_lines = reserve(NULL, FGS_ARENA_BYTES / 64 * sizeof(struct fgs_line), 0);
	fgs_image_lines = reserve(NULL, (image / 64 + 2) * sizeof(struct fgs_line), 0);
}

/* The first line of the page that l is in. Null: a line of the kernel's. */
static struct fgs_line *page_of(const struct fgs_line *l)
{
	const size_t arena = FGS_ARENA_BYTES / 64, image = (size_t)(_end - __executable_start) / 64 + 2;
	const uintptr_t at = (uintptr_t)l;

	if (at - (uintptr_t)fgs_arena_lines < arena * sizeof(*l))
		return fgs_arena_lines + (l - fgs_arena_lines) / LINES_OF_PAGE * LINES_OF_PAGE;
	if (at - (uintptr_t)fgs_image_lines < image * sizeof(*l))
		return fgs_image_lines + (l - fgs_image_lines) / LINES_OF_PAGE * LINES_OF_PAGE;
	return NULL;
}

void fgs_find_home(struct fgs_line *l, uint32_t cpu)
{
	struct fgs_line *page = l->home ? NULL : page_of(l);

	if (!page)
		return;
	if (!page->home)
		page->home = (uint16_t)(fgs_places[cpu].socket + 1);
	l->home = page->home;
}

/* ---- the heap: a list of free blocks for each power of two ------------------------------------------------------ */

struct block {
	uint64_t bytes; /* that were asked for */
	uint32_t size_class;
	uint32_t before; /* from the beginning of the space to this header */
};

#define CLASSES 40
static char *heap_next = (char *)FGS_HEAP;
static void *free_blocks[CLASSES];

static struct block *block_of(const void *memory)
{
	return (struct block *)(uintptr_t)memory - 1;
}

void *fgs_allocate(size_t bytes, size_t alignment)
{
	uint32_t size_class = 6;
	char *space, *memory;

	if (alignment < 16)
		alignment = 16;
	while (size_class < CLASSES && (1ull << size_class) < bytes + alignment + sizeof(struct block))
		size_class++;
	if (size_class == CLASSES)
		return NULL;
	space = free_blocks[size_class];
	if (space) {
		memcpy(&free_blocks[size_class], space, sizeof(void *));
	} else {
		space = heap_next;
		if ((uintptr_t)space + (1ull << size_class) > FGS_HEAP + FGS_HEAP_BYTES)
			return NULL;
		heap_next += 1ull << size_class;
	}
	memory = (char *)(((uintptr_t)space + sizeof(struct block) + alignment - 1) / alignment * alignment);
	*block_of(memory) = (struct block){bytes, size_class, (uint32_t)(memory - space)};
	return memory;
}

void fgs_free(void *memory)
{
	const struct block *b = block_of(memory);
	uint32_t size_class = b->size_class;
	char *space = (char *)memory - b->before;

	memcpy(space, &free_blocks[size_class], sizeof(void *));
	free_blocks[size_class] = space;
}

size_t fgs_allocated(const void *memory)
{
	return block_of(memory)->bytes;
}

uintptr_t fgs_heap_end(void)
{
	return (uintptr_t)heap_next;
}
