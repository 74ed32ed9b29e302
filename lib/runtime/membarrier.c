/* SPDX-License-Identifier: MIT */
#include "runtime/membarrier.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

static long command(int name)
{
	return syscall(SYS_membarrier, name, 0, 0);
}

void fgi_membarrier_start(void)
{
	int saved = errno;

	command(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
	errno = saved;
}

bool fgi_membarrier(void)
{
	int saved = errno;
	long result = command(MEMBARRIER_CMD_PRIVATE_EXPEDITED);

	if (result < 0 && errno == EPERM && command(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0)
		result = command(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	errno = saved;
	return result == 0;
}
