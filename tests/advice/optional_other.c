/* SPDX-License-Identifier: MIT */
/* Another file of the program: what one of them has found, all of them call. */
#include <flexguard/advice_optional.h>

int optional_other_has_found(void);

int optional_other_has_found(void)
{
	return FG_OPTIONAL(section_begin) != NULL;
}
