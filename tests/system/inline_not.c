/* SPDX-License-Identifier: MIT */
/* The callers of inline.c that do without. */
#include <flexguard/mutex.h>

void not_inlined_lock(struct fg_mutex *m);
void not_inlined_unlock(struct fg_mutex *m);

void not_inlined_lock(struct fg_mutex *m)
{
	fg_mutex_lock(m);
}

void not_inlined_unlock(struct fg_mutex *m)
{
	fg_mutex_unlock(m);
}
