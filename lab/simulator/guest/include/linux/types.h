/* SPDX-License-Identifier: MIT */
/* Headers of the system need the system's own types. */
#include_next <linux/types.h>

#include <linux/atomic.h>
