/* SPDX-License-Identifier: MIT */
/* What advised_wait.h needs once in the library. */
#include "flexguard/advice_optional.h"

__thread int fg_gomp_in_section __attribute__((visibility("hidden")));
__thread int fg_gomp_has_handle __attribute__((visibility("hidden")));

__attribute__((constructor)) static void start(void)
{
	(void)fg_advice_start();
}
