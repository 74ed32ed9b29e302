/* SPDX-License-Identifier: MIT */
#include "interpose/glibc_layout.h"

#include <string.h>
#include <time.h>

uint32_t fgi_glibc_find_cond_flags(__typeof__(pthread_cond_init) *init)
{
	uint32_t words[sizeof(pthread_cond_t) / sizeof(uint32_t)], at = 0;
	pthread_condattr_t attr;
	pthread_cond_t cond;

	memset(&cond, 0, sizeof(cond));
	pthread_condattr_init(&attr);
	pthread_condattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	if (init(&cond, &attr))
		return 0;
	memcpy(words, &cond, sizeof(words));
	for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (words[i] == 0)
			continue;
		if (at || words[i] != (FGI_GLIBC_COND_SHARED | FGI_GLIBC_COND_MONOTONIC))
			return 0;
		at = i * (uint32_t)sizeof(words[0]);
	}
	return at;
}
