/* SPDX-License-Identifier: MIT */
/* What /proc/self/status says of seccomp filters, and what follows. */
#include "runtime/sandbox.h"

#include "tests/check.h"

static const char *text;     /* NULL: it cannot be opened */
static long error = -ENOENT; /* of the open, or of the read behind the text */

static long status_call(long number, long address)
{
	long size = 0;

	if (number == SYS_openat)
		return text ? 9 : error;
	if (number == SYS_close)
		return 0;
	CHECK_IS(number, SYS_read);
	if (!*text)
		return error;
	for (; size < 7 && *text; size++)
		((char *)address)[size] = *text++;
	return size;
}

#define fgi_system_call(number, a, b, ...) status_call(number, b)
#include "runtime/sandbox.c"
#undef fgi_system_call

static bool sandboxed(const char *status, long then)
{
	text = status;
	error = then;
	return look();
}

int main(void)
{
	unsetenv(FGI_REQUIRE_ENV);
	unsetenv(FGI_FILTERS_ENV);
	CHECK(!sandboxed("Name:\tn\nSeccomp:\t2\nSeccomp_filters:\t1\nThreads:\t9\n", 0));
	CHECK(sandboxed("Name:\tn\nSeccomp:\t2\nSeccomp_filters:\t2\nThreads:\t9\n", 0));
	CHECK(!sandboxed("Name:\tn\nThreads:\t9\n", 0), "a kernel without seccomp");
	CHECK(sandboxed("Name:\tn\nThre", -EIO), "not read to its end");
	CHECK(sandboxed(NULL, -ENOENT));
	CHECK(!sandboxed(NULL, -EMFILE), "a process without descriptors");
	setenv(FGI_FILTERS_ENV, "5", 1);
	CHECK(!sandboxed("Name:\tn\nSeccomp_filters:\t5\n", 0));
	CHECK(sandboxed("Name:\tn\nSeccomp_filters:\t6\n", 0));
	setenv(FGI_REQUIRE_ENV, "1", 1);
	CHECK(!sandboxed("Name:\tn\nSeccomp_filters:\t6\n", 0));
	return 0;
}
