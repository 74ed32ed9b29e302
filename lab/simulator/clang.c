/* SPDX-License-Identifier: MIT */
/* clang calls the compare-and-swap by another name than GCC (access.c): it returns what was found. */
#include <stdint.h>

void fgs_change(void *word); /* access.c */

#define COMPARE(bits)                                                                                                  \
	uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(uint##bits##_t *p, uint##bits##_t expected,          \
								  uint##bits##_t desired, int order, int fail);        \
	uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(uint##bits##_t *p, uint##bits##_t expected,          \
								  uint##bits##_t desired, int order, int fail)         \
	{                                                                                                              \
		uint##bits##_t found;                                                                                  \
                                                                                                                       \
		(void)order;                                                                                           \
		(void)fail;                                                                                            \
		fgs_change(p);                                                                                         \
		found = *p;                                                                                            \
		if (found == expected)                                                                                 \
			*p = desired;                                                                                  \
		return found;                                                                                          \
	}
COMPARE(8)
COMPARE(16)
COMPARE(32)
COMPARE(64)
