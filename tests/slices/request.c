/* SPDX-License-Identifier: MIT */
/* tas-slice: when a thread asks for a longer time slice, and when it takes that back. On any kernel: the request goes
 * to two bytes that the kernel does not know. */
#define FGI_LOCK_HAS_REFUSAL
#include "lock/lock.h"
#include "lock/slice_extension.h"

/* The lock's own exchange. Another thread may come first. */
static bool other_first, requested_at_take;

static inline uint32_t take_watched(uint32_t *word, uint32_t value)
{
	requested_at_take = fgi_slice_control->request;
	if (other_first)
		fg_store_relaxed(word, 1);
	return fgi_take_xchg32(word, value);
}

#define fgi_take_xchg32 take_watched
#include FGI_LOCK_FILE
#undef fgi_take_xchg32

#include "tests/check.h"
#include "tests/sections.h"

static bool requested(void)
{
	return fgi_slice_control->request;
}

int main(void)
{
	static struct fgi_slice_control unknown;
	struct fg_lock a = {0}, b = {0};

	check_watchdog(60);
	fgi_slice_control = &unknown;
	fgi_lock(&a);
	CHECK(requested_at_take && requested(), "the request comes before the take and stays for the section");

	other_first = true;
	requested_at_take = false;
	CHECK(!fgi_trylock(&b), "another thread has taken it");
	CHECK(requested_at_take && requested(), "a failed take leaves the request of the section around it");
	fgi_unlock(&a);
	CHECK(!requested(), "the last release withdraws the request");

	b.word = 0;
	requested_at_take = false;
	CHECK(!fgi_trylock(&b), "another thread has taken it");
	CHECK(requested_at_take && !requested(), "a failed take withdraws its request");

	other_first = false;
	requested_at_take = false;
	CHECK(!fgi_trylock(&b) && !requested_at_take && !requested(), "a thread that finds it held requests nothing");
	CHECK_SECTIONS(0);
	return 0;
}
