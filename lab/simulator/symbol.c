/* SPDX-License-Identifier: MIT */
/* What is at an address: a variable of the program, a thread's stack or thread-local variables, or the heap. */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "simulator/engine.h"

static const char *image;
static size_t image_bytes;

static void map_image(void)
{
	struct stat s;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && fstat(fd, &s) == 0) {
		void *at = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

		if (at != MAP_FAILED) {
			image = at;
			image_bytes = (size_t)s.st_size;
		}
	}
	if (fd >= 0)
		close(fd);
}

/* The last object that begins in this line or before it, and reaches into it. */
static const char *variable(uintptr_t line, uintptr_t *begins)
{
	const Elf64_Ehdr *head = (const void *)image;
	const Elf64_Shdr *sections = (const void *)(image + head->e_shoff);
	const char *found = NULL;

	for (unsigned int s = 0; s < head->e_shnum; s++) {
		const Elf64_Sym *symbols = (const void *)(image + sections[s].sh_offset);
		const char *names;

		if (sections[s].sh_type != SHT_SYMTAB)
			continue;
		names = image + sections[sections[s].sh_link].sh_offset;
		for (size_t i = 0; i < sections[s].sh_size / sizeof(*symbols); i++) {
			const Elf64_Sym *symbol = &symbols[i];

			if (ELF64_ST_TYPE(symbol->st_info) != STT_OBJECT || symbol->st_value >= line + 64 ||
			    symbol->st_value + symbol->st_size <= line || (found && symbol->st_value < *begins))
				continue;
			found = names + symbol->st_name;
			*begins = symbol->st_value;
		}
	}
	return found;
}

void fgs_symbol(uintptr_t line, char *name, size_t size)
{
	uintptr_t begins = 0;
	const char *found;

	if (!image)
		map_image();
	if (fgs_is_simulated((const void *)line)) {
		uintptr_t at = line - FGS_ARENA;

		if (at < FGS_STACKS)
			snprintf(name, size, "thread %lu's %s-%lu", (unsigned long)(at / FGS_STACK),
				 at % FGS_STACK < FGS_STACK - 0x8000 ? "stack" : "own variables",
				 (unsigned long)(FGS_STACK - at % FGS_STACK));
		else
			snprintf(name, size, "heap+%lu", (unsigned long)(at - FGS_STACKS));
		return;
	}
	found = image && image_bytes ? variable(line, &begins) : NULL;
	if (found && line > begins)
		snprintf(name, size, "%s+%lu", found, line - begins);
	else
		snprintf(name, size, "%s", found ? found : "?");
}
