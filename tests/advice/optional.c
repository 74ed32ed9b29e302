/* SPDX-License-Identifier: MIT */
/* advice_optional.h, in a program that links nothing of ours. What there is of the library, the loader finds:
 *
 *   absent      nothing, and no advice but that of a program without a monitor
 *   lacking     a library in which a section can begin and not end: as if there were none
 *   older       one that knows sections and no advice (optional_older.c)
 *   present     this project's
 *   watched     the same, beside a monitor */
#include <flexguard/advice_optional.h>
#include <stdbool.h>

#include "tests/check.h"

int optional_other_has_found(void); /* optional_other.c */

/* Spins, then yields, then sleeps, each time for the same reason. The library sleeps where a yield costs a slice. */
static void waits_alone(bool found)
{
	struct fg_wait w = {0, 0, 0};

	for (uint32_t look = 0; look < FG_LOOKS_SPINNING + FG_LOOKS_YIELDING + 6; look++) {
		struct fg_advice said = fg_wait_advice(&w), did = fg_wait_once(&w);
		uint32_t action = look < FG_LOOKS_SPINNING                       ? FG_WAIT_SPIN
				  : look < FG_LOOKS_SPINNING + FG_LOOKS_YIELDING ? FG_WAIT_YIELD
										 : FG_WAIT_SLEEP;

		if (!found || action != FG_WAIT_YIELD || said.action != FG_WAIT_SLEEP)
			CHECK_IS(said.action, action);
		if (!found || action != FG_WAIT_YIELD || did.action != FG_WAIT_SLEEP)
			CHECK_IS(did.action, action);
		CHECK_IS(did.reason, FG_WHY_UNMONITORED);
		CHECK((did.sleep_ns >= FG_SLEEP_SHORTEST_NS) == (did.action == FG_WAIT_SLEEP), "at look %u", look);
		CHECK_IS(w.looks, look + 1);
	}
}

static void passes_a_section(void)
{
	fg_section_begin();
	fg_section_begin();
	fg_section_end();
	fg_section_end();
}

static int *counted(const char *name)
{
	void *library = dlopen(FG_OPTIONAL_LIBRARY, RTLD_NOW | RTLD_NOLOAD);

	CHECK(library, "%s", dlerror());
	return (int *)dlsym(library, name);
}

int main(int argc, char **argv)
{
	const char *there = argc > 1 ? argv[1] : "";
	bool found = !!strcmp(there, "absent") && !!strcmp(there, "lacking");
	struct fg_wait w = {0, 0, 0};

	check_watchdog(60);
	passes_a_section(); /* before the library has been looked for */
	waits_alone(false);
	CHECK_IS(fg_thread_handle(), 0);
	CHECK_IS(fg_advice_start(), found);
	CHECK_IS(fg_advice_start(), found); /* once more changes nothing */
	CHECK_IS(optional_other_has_found(), found);
	passes_a_section();
	if (!strcmp(there, "older")) {
		CHECK_IS(*counted("begun"), 2);
		CHECK_IS(*counted("ended"), 2);
	}
	CHECK_IS(fg_thread_handle() != 0, !strcmp(there, "present") || !strcmp(there, "watched"));
	if (strcmp(there, "watched") != 0) {
		waits_alone(found);
		return 0;
	}
	fg_section_begin();
	w.whom = fg_thread_handle(); /* runs while it asks */
	CHECK_IS(fg_wait_advice(&w).action, FG_WAIT_SPIN);
	CHECK_IS(fg_wait_once(&w).reason, FG_WHY_RUNS);
	fg_section_end();
	return 0;
}
