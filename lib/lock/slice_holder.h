/* SPDX-License-Identifier: MIT */
/* What all locks with time-slice extension share: on which machines they are refused, and when a thread withdraws its
 * request. To be included before lock/lock.h. */
#ifndef FGI_LOCK_SLICE_HOLDER_H
#define FGI_LOCK_SLICE_HOLDER_H

#define FGI_LOCK_HAS_REFUSAL
#include "lock/lock.h"
#include "lock/slice_extension.h"

/* On a machine without the extension a measurement of this lock would be one of the lock itself. */
static inline const char *fgi_lock_refusal(void)
{
	switch (fgi_slice_extension_start()) {
	case 0:
		return NULL;
	case EINVAL:
		return "this kernel has no time-slice extension (Linux 7.0 and later, CONFIG_RSEQ_SLICE_EXTENSION)";
	case EBUSY:
		return "something else has registered the restartable-sequences area: set "
		       "GLIBC_TUNABLES=glibc.pthread.rseq=0";
	default:
		return "this kernel was built or booted without the time-slice extension, or the C library's "
		       "restartable-sequences area is too short for it: set GLIBC_TUNABLES=glibc.pthread.rseq=0";
	}
}

/* Async-signal-safe, keeps errno. */
static inline void fgi_slice_withdraw_if_free(void)
{
	if (fgi_sections() <= 0)
		fgi_slice_withdraw();
}

#endif
