/* SPDX-License-Identifier: MIT */
/* Where a condition variable keeps its flags is looked for at the start: this glibc's place, that of glibc 2.41, and
 * objects that must be refused. */
#include "interpose/glibc_layout.h"

#include <errno.h>

#include "tests/check.h"

static uint32_t words[12];
static int result;

/* Stands in for another glibc. */
static int other_init(pthread_cond_t *restrict cond, const pthread_condattr_t *restrict attr)
{
	(void)attr;
	memcpy(cond, words, sizeof(words));
	return result;
}

static uint32_t found_with(uint32_t a, uint32_t a_value, uint32_t b, uint32_t b_value)
{
	memset(words, 0, sizeof(words));
	words[a] = a_value;
	words[b] = b_value;
	return fgi_glibc_find_cond_flags(other_init);
}

int main(void)
{
	pthread_condattr_t attr;
	pthread_cond_t cond;
	uint32_t at = fgi_glibc_find_cond_flags(pthread_cond_init), flags;

	CHECK(at > 0 && at % 4 == 0 && at < sizeof(cond));
	ok(pthread_condattr_init(&attr));
	ok(pthread_cond_init(&cond, &attr));
	memcpy(&flags, (char *)&cond + at, sizeof(flags));
	CHECK_IS(flags, 0);
	ok(pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
	ok(pthread_cond_init(&cond, &attr));
	memcpy(&flags, (char *)&cond + at, sizeof(flags));
	CHECK_IS(flags, FGI_GLIBC_COND_SHARED);

	CHECK_IS(found_with(9, 3, 9, 3), 36); /* up to glibc 2.40 */
	CHECK_IS(found_with(7, 3, 7, 3), 28); /* from glibc 2.41 */
	CHECK_IS(found_with(7, 0, 7, 0), 0);  /* nowhere */
	CHECK_IS(found_with(7, 3, 9, 3), 0);  /* twice */
	CHECK_IS(found_with(7, 3, 9, 1), 0);  /* another word is not 0 either */
	CHECK_IS(found_with(7, 5, 7, 5), 0);  /* another encoding */
	CHECK_IS(found_with(0, 3, 0, 3), 0);  /* where our own word is */
	result = EINVAL;
	CHECK_IS(found_with(9, 3, 9, 3), 0); /* refused */
	return 0;
}
