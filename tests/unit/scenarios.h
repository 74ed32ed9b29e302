/* SPDX-License-Identifier: MIT */
/* What threads do with locks whose intent is published, to be judged after every instruction: by a trap
 * (unit/intent.c), or by the emulator's debugger (arm64/steps.c). FGI_LOCK_FILE is included before. */
#ifndef FG_TEST_SCENARIOS_H
#define FG_TEST_SCENARIOS_H

#include <stddef.h>

static struct fg_lock a, b, c, busy;
static struct fg_lock *const locks[] = {&a, &b, &c, &busy};
_Static_assert(offsetof(struct fg_lock, word) == 0, "a lock begins with its word");

static void alone(void)
{
	fgi_lock(&a);
	fgi_unlock(&a);
}

static void nested(void)
{
	fgi_lock(&a);
	fgi_lock(&b);
	fgi_unlock(&b);
	fgi_unlock(&a);
}

static void crossed(void)
{
	fgi_lock(&a);
	fgi_lock(&b);
	fgi_unlock(&a);
	fgi_unlock(&b);
}

static void three(void)
{
	fgi_lock(&a);
	fgi_lock(&b);
	fgi_trylock(&c);
	fgi_unlock(&b);
	fgi_lock(&b);
	fgi_unlock(&a);
	fgi_unlock(&c);
	fgi_unlock(&b);
}

static void refused(void)
{
	fgi_trylock(&busy);
	fgi_lock(&a);
	fgi_trylock(&busy);
	fgi_lock(&b);
	fgi_unlock(&a);
	fgi_trylock(&busy);
	fgi_unlock(&b);
}

static void given_up(void)
{
	const struct timespec past = {0, 0};

	fgi_timedlock(&busy, CLOCK_MONOTONIC, &past);
	fgi_lock(&a);
	fgi_timedlock(&busy, CLOCK_MONOTONIC, &past);
	fgi_unlock(&a);
}

#endif
