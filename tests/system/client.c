/* SPDX-License-Identifier: MIT */
/* A program that uses the installed library as its header says. */
#include <errno.h>
#include <flexguard/flexguard.h>

static struct fg_mutex m = FG_MUTEX_INIT;

int main(void)
{
	struct timespec past = {0, 0};

	fg_mutex_lock(&m);
	if (fg_mutex_trylock(&m) != EBUSY || fg_mutex_timedlock(&m, CLOCK_REALTIME, &past) != ETIMEDOUT)
		return 1;
	fg_mutex_unlock(&m);
	if (fg_mutex_trylock(&m) != 0)
		return 2;
	fg_mutex_unlock(&m);
	return 0;
}
