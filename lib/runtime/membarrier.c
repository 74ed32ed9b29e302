/* SPDX-License-Identifier: MIT */
#include "runtime/membarrier.h"

#include <errno.h>
#include <linux/membarrier.h>

#include "runtime/sandbox.h"

static long command(int name)
{
	return fgi_optional_call(SYS_membarrier, name, 0, 0);
}

void fgi_membarrier_start(void)
{
	command(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

bool fgi_membarrier(void)
{
	long result = command(MEMBARRIER_CMD_PRIVATE_EXPEDITED);

	if (result == -EPERM && command(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0)
		result = command(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
	return result == 0;
}
