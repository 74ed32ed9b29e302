/* SPDX-License-Identifier: MIT */
#include <linux/atomic.h>
