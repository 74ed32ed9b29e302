/* SPDX-License-Identifier: MIT */
/* The calls of <flexguard/advice.h> for programs that shall run with and without the library: nothing of it is linked.
 * Include one of the two headers, not both.
 *
 *   fg_advice_start();                      once, before threads use the rest: looks for libflexguard.so.0
 *   ...
 *   fg_section_begin(); ... fg_section_end();
 *   for (struct fg_wait w = {0}; !done(); )
 *           fg_wait_once(&w);
 *
 * Where the library is not found, or is an older one that lacks a call, and before fg_advice_start, a section costs a
 * load and a jump, fg_thread_handle returns 0, and the advice is to spin a little, to yield a few times, and to sleep.
 * All functions are inline; the functions that were found are in one object, which the linker merges. C libraries
 * before glibc 2.34 need -ldl. */
#ifndef FLEXGUARD_ADVICE_OPTIONAL_H
#define FLEXGUARD_ADVICE_OPTIONAL_H

#ifdef FLEXGUARD_ADVICE_H
#error "flexguard/advice.h has been included: these are the same calls without the library"
#endif
#define FLEXGUARD_ADVICE_H

#include <dlfcn.h>
#include <flexguard/advice_types.h>
#include <sched.h>
#include <stddef.h>
#include <sys/select.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FG_OPTIONAL_LIBRARY "libflexguard.so.0"

/* What was found; NULL: nothing. Not for programs. */
struct fg_optional_calls {
	void (*section_begin)(void);
	void (*section_end)(void);
	fg_handle (*thread_handle)(void);
	struct fg_advice (*wait_advice)(const struct fg_wait *);
	struct fg_advice (*wait_once)(struct fg_wait *);
};

__attribute__((weak, visibility("hidden"))) struct fg_optional_calls fg_optional_calls;

#define FG_OPTIONAL(call) __atomic_load_n(&fg_optional_calls.call, __ATOMIC_RELAXED)

/* A function's address in an object's, without a cast that the standards forbid. */
#define FG_OPTIONAL_FIND(library, call, name)                                                                          \
	do {                                                                                                           \
		void *fg_found_ = dlsym(library, name);                                                                \
		__builtin_memcpy(&fg_optional_calls.call, &fg_found_, sizeof(fg_found_));                              \
	} while (0)

/* Loads the library, if it is there: then the process also registers with a monitor. Returns 1, or 0 if it is not
 * there. Not async-signal-safe. No section may be open in any thread: it would be ended once too often. */
static inline int fg_advice_start(void)
{
	void *library = dlopen(FG_OPTIONAL_LIBRARY, RTLD_NOW | RTLD_LOCAL);

	if (!library || !dlsym(library, "fg_section_begin") || !dlsym(library, "fg_section_end"))
		return 0;
	FG_OPTIONAL_FIND(library, section_begin, "fg_section_begin");
	FG_OPTIONAL_FIND(library, section_end, "fg_section_end");
	FG_OPTIONAL_FIND(library, thread_handle, "fg_thread_handle");
	FG_OPTIONAL_FIND(library, wait_advice, "fg_wait_advice");
	FG_OPTIONAL_FIND(library, wait_once, "fg_wait_once");
	return 1;
}

static inline void fg_section_begin(void)
{
	void (*call)(void) = FG_OPTIONAL(section_begin);

	if (call)
		call();
}

static inline void fg_section_end(void)
{
	void (*call)(void) = FG_OPTIONAL(section_end);

	if (call)
		call();
}

static inline fg_handle fg_thread_handle(void)
{
	fg_handle (*call)(void) = FG_OPTIONAL(thread_handle);

	return call ? call() : 0;
}

static inline struct fg_advice fg_wait_advice(const struct fg_wait *w)
{
	struct fg_advice (*call)(const struct fg_wait *) = FG_OPTIONAL(wait_advice);

	return call ? call(w) : fg_advice_unmonitored(w->looks);
}

/* Without the library it may call select, a cancellation point. A strict C has no nanosleep. */
static inline struct fg_advice fg_wait_once(struct fg_wait *w)
{
	struct fg_advice (*call)(struct fg_wait *) = FG_OPTIONAL(wait_once);
	struct fg_advice a;
	struct timeval pause;

	if (call)
		return call(w);
	a = fg_advice_unmonitored(w->looks++);
	pause.tv_sec = 0;
	pause.tv_usec = (suseconds_t)(a.sleep_ns / 1000);
	if (a.action == FG_WAIT_YIELD)
		(void)sched_yield();
	else if (a.action == FG_WAIT_SLEEP)
		(void)select(0, NULL, NULL, NULL, &pause);
#if defined(__x86_64__)
	else
		__builtin_ia32_pause();
#endif
	return a;
}

#ifdef __cplusplus
}
#endif
#endif
