/* SPDX-License-Identifier: MIT */
/* One function per operation whose order the default lock relies on: instructions.sh looks at what becomes of it. */
#include "runtime/arch/generic/asymmetric.h"
#include "runtime/atomic.h"

uint32_t load_relaxed(uint32_t *p)
{
	return fg_load_relaxed(p);
}

uint32_t load_acquire(uint32_t *p)
{
	return fg_load_acquire(p);
}

void store_relaxed(uint32_t *p, uint32_t v)
{
	fg_store_relaxed(p, v);
}

void store_release(uint32_t *p, uint32_t v)
{
	fg_store_release(p, v);
}

uint32_t add_release(uint32_t *p, uint32_t v)
{
	return fg_fetch_add_release(p, v);
}

uint32_t or_relaxed(uint32_t *p, uint32_t v)
{
	return fg_fetch_or_relaxed(p, v);
}

uint32_t and_relaxed(uint32_t *p, uint32_t v)
{
	return fg_fetch_and_relaxed(p, v);
}

bool asymmetric_release(uint32_t *p, uint32_t v)
{
	return fgi_asymmetric_release(p, v);
}

uint32_t cas_relaxed(uint32_t *p, uint32_t expected, uint32_t desired)
{
	return fg_cas_relaxed(p, expected, desired);
}

uint32_t cas_acquire(uint32_t *p, uint32_t expected, uint32_t desired)
{
	return fg_cas_acquire(p, expected, desired);
}

uint32_t cas_acq_rel(uint32_t *p, uint32_t expected, uint32_t desired)
{
	return fg_cas_acq_rel(p, expected, desired);
}
