/* SPDX-License-Identifier: MIT */
/* One window as the assembler puts it into section `fg_windows`: addresses relative to themselves, so that no run-time
 * relocation is needed. runtime/connection.c turns it into a struct fg_window. */
#ifndef FGI_ARCH_WINDOW_ENTRY_H
#define FGI_ARCH_WINDOW_ENTRY_H

#include <stdint.h>

struct fgi_window_entry {
	int32_t begin;
	int32_t end;
	uint32_t reg;
	uint32_t mask;
	uint32_t value;
};

#endif
