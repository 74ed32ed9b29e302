/* SPDX-License-Identifier: MIT */
/* The simulator's machine files, for libFuzzer (tests/fuzz/fuzz). */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "simulator/machine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	static char path[64];
	struct fgs_machine machine;

	if (fd < 0) {
		fd = memfd_create("machine", MFD_CLOEXEC);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	if (ftruncate(fd, 0) == 0 && pwrite(fd, data, size, 0) == (ssize_t)size &&
	    fgs_machine_read(&machine, path) == 0)
		(void)fgs_machine_cpus(&machine);
	return 0;
}
