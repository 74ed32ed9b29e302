/* SPDX-License-Identifier: MIT */
/* Call stacks by frame pointers. Code that was compiled without them leaves any number in the register: each link is
 * therefore read by a system call, which fails where nothing is mapped, and must lead to code of a loaded file. */
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "profile/record.h"

#define FARTHEST ((uintptr_t)1 << 20) /* bytes from a frame to its caller's */

struct link_of_frames {
	uintptr_t caller;
	uintptr_t return_address;
};

static bool read_link(uint32_t pid, uintptr_t at, struct link_of_frames *link)
{
	struct iovec local = {.iov_base = link, .iov_len = sizeof(*link)};
	struct iovec remote = {.iov_base = (void *)at,
			       .iov_len = sizeof(*link)}; /* NOLINT(performance-no-int-to-ptr) */

	return syscall(SYS_process_vm_readv, pid, &local, 1, &remote, 1, 0) == (long)sizeof(*link);
}

static void store_path(struct fg_profile_module *module, const char *name)
{
	long length = (long)strnlen(name, sizeof(module->path));

	if (length > 0) {
		if (length < (long)sizeof(module->path))
			memcpy(module->path, name, (size_t)length);
		return; /* a name that is too long is left out */
	}
	/* The program itself. */
	length = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", module->path, sizeof(module->path));
	if (length < 0 || length == (long)sizeof(module->path))
		memset(module->path, 0, sizeof(module->path));
}

/* Does a loaded file lie at `address`? _dl_find_object takes no lock. */
static bool is_in_file(uintptr_t address, struct fg_profile_module *modules)
{
	struct dl_find_object found;

	for (uint32_t i = 0; i < FG_PROFILE_MODULES; i++) {
		uint32_t state = fg_load_acquire(&modules[i].state); /* pairs with the release below */

		if (state == FG_PROFILE_EMPTY)
			break;
		if (state == FG_PROFILE_READY && address >= modules[i].start && address < modules[i].end)
			return true;
	}
	if (_dl_find_object((void *)address, &found) != 0) /* NOLINT(performance-no-int-to-ptr) */
		return false;
	for (uint32_t i = 0; i < FG_PROFILE_MODULES; i++) {
		struct fg_profile_module *module = &modules[i];

		if (fg_cas_relaxed(&module->state, FG_PROFILE_EMPTY, FG_PROFILE_BUSY) != FG_PROFILE_EMPTY)
			continue;
		module->start = (uintptr_t)found.dlfo_map_start;
		module->end = (uintptr_t)found.dlfo_map_end;
		module->base = found.dlfo_link_map->l_addr;
		store_path(module, found.dlfo_link_map->l_name);
		fg_store_release(&module->state, FG_PROFILE_READY);
		break;
	}
	return true;
}

void fgp_note_file(uintptr_t address, struct fg_profile_module *modules)
{
	(void)is_in_file(address, modules);
}

uint32_t fgp_stack(const void *frame, uint32_t pid, struct fg_profile_module *modules, uint64_t *stack)
{
	struct link_of_frames link;
	uintptr_t at = (uintptr_t)frame;
	uint32_t frames = 0;

	memcpy(&link, frame, sizeof(link));
	for (;;) {
		bool code = is_in_file(link.return_address, modules);

		if (!code && frames > 0)
			return frames;
		stack[frames++] = link.return_address;
		if (!code || frames == FG_PROFILE_FRAMES)
			return frames;
		if (link.caller <= at || link.caller - at > FARTHEST || link.caller % sizeof(uintptr_t))
			return frames;
		at = link.caller;
		if (!read_link(pid, at, &link))
			return frames;
	}
}
