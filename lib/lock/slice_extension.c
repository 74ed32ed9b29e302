/* SPDX-License-Identifier: MIT */
#include "lock/slice_extension.h"

#include <errno.h>
#include <stddef.h>
#include <sys/auxv.h>

#include "runtime/system.h"

/* Newer than the headers of the systems we build on. */
#ifndef PR_RSEQ_SLICE_EXTENSION
#define PR_RSEQ_SLICE_EXTENSION 79
#define PR_RSEQ_SLICE_EXTENSION_SET 2
#define PR_RSEQ_SLICE_EXT_ENABLE 1
#endif
#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif
#ifndef SYS_rseq_slice_yield
#define SYS_rseq_slice_yield 471
#endif

#define CONTROL_OFFSET 28     /* of the two bytes in struct rseq */
#define AREA_BYTES 64         /* as long as struct rseq may grow for us: 33 bytes in 7.3 */
#define SIGNATURE 0x53053053u /* x86: what precedes an abort handler; any would do, since there are none */

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

__thread struct fgi_slice_control *fgi_slice_control;

static __thread struct {
	_Alignas(AREA_BYTES) char area[AREA_BYTES]; /* the kernel wants it aligned to its length, rounded up to 2^n */
	struct fgi_slice_control unknown;           /* to the kernel */
} own __attribute__((tls_model("initial-exec")));

/* The registered area of this thread, or NULL with an errno number. A thread's end undoes its registration: the kernel
 * does not touch the area of a thread that does not return to user mode. */
static char *find_area(int *error)
{
	long result;

	*error = EINVAL;
	if (&__rseq_size && __rseq_size)
		return (char *)__builtin_thread_pointer() + __rseq_offset;
	if (getauxval(AT_RSEQ_FEATURE_SIZE) > AREA_BYTES)
		return NULL;
	result = fgi_system_call(SYS_rseq, (long)own.area, AREA_BYTES, 0, SIGNATURE, 0, 0);
	*error = (int)-result;
	/* EBUSY: an earlier call has registered this area. An area of another library gives EINVAL. */
	return result == 0 || result == -EBUSY ? own.area : NULL;
}

int fgi_slice_extension_start(void)
{
	int error;
	char *area = find_area(&error);

	if (area)
		error = (int)-fgi_system_call(SYS_prctl, PR_RSEQ_SLICE_EXTENSION, PR_RSEQ_SLICE_EXTENSION_SET,
					      PR_RSEQ_SLICE_EXT_ENABLE, 0, 0, 0);
	fgi_slice_control = error ? &own.unknown : (struct fgi_slice_control *)(area + CONTROL_OFFSET);
	return error;
}

void fgi_slice_yield(void)
{
	(void)fgi_system_call(SYS_rseq_slice_yield, 0, 0, 0, 0, 0, 0);
}
