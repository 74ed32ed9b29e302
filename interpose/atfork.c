/* SPDX-License-Identifier: MIT */
/* Whose fork handlers come first.
 *
 * glibc runs the handlers of the child in the order in which they were registered. Ours repair the locks there, so they
 * have to be the first: whatever a later handler does with a mutex or a condition variable then works. But the
 * constructors of the libraries that a program is linked to run before those of an interposer. So the function with
 * which all of them register is interposed as well, and whoever calls it first registers us before himself. */
#include "interpose/atfork.h"

#include "interpose/real.h"
#include "runtime/thread.h"

#define EXPORT __attribute__((visibility("default")))

/* glibc keeps it to itself; pthread_atfork is a static function in front of it, linked into each object. `object`: that
 * object's handle, for dlclose. */
EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object);

static void fork_child(void)
{
	fgi_waitq_after_fork();
	fgi_bridge_after_fork();
}

static void register_ours(void)
{
	static uint32_t begun;

	if (fg_load_relaxed(&begun) || fg_xchg_relaxed(&begun, 1))
		return;
	fgi_thread_atfork();
	(void)fgi_real()->register_atfork(NULL, NULL, fork_child, NULL);
}

EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object)
{
	register_ours();
	return fgi_real()->register_atfork(prepare, parent, child, object);
}

/* libc.so.6 still has it for programs that were linked to glibc 2.2. Without a handle, as it is there. */
EXPORT int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	return __register_atfork(prepare, parent, child, NULL);
}

__attribute__((constructor)) static void atfork_start(void)
{
	register_ours();
}
