/* SPDX-License-Identifier: MIT */
/* The order of fork handlers.
 *
 * glibc runs the handlers of the child in the order in which they were registered. Ours repair the locks there, so they
 * have to be the first: then whatever a later handler does with a mutex or a condition variable works. But the
 * constructors of the libraries that a program is linked to run before those of an interposer. So the function with
 * which all of them register is interposed as well, and its first call registers our handlers before the caller's. */
#include "interpose/atfork.h"

#include "interpose/mutex.h"
#include "interpose/real.h"
#include "runtime/thread.h"
#include "sync/parked.h"
#include "sync/readers.h"

#define EXPORT __attribute__((visibility("default")))

__thread struct fgi_carried fgi_carried;

/* Runs after all others, in the thread that forks: what it holds goes into the child. */
static void fork_prepare(void)
{
	fgi_thread_before_fork();
	fgi_carried.forker = fg_thread.self;
	fgi_carried.locks = fgi_sections();
	fgi_carried.reads = fgi_reading;
	fgi_readers_before_fork();
}

/* The parent goes on as before. */
static void fork_parent(void)
{
	fgi_carried.locks = 0;
}

static void fork_child(void)
{
	fgi_bridge_after_fork();
	fgi_parked_after_fork();
	fgi_readers_after_fork();
}

static void register_ours(void)
{
	static uint32_t begun;

	if (fg_load_relaxed(&begun) || fg_xchg_relaxed(&begun, 1))
		return;
	fgi_thread_atfork();
	(void)fgi_real()->register_atfork(fork_prepare, fork_parent, fork_child, NULL);
}

EXPORT int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *object)
{
	register_ours();
	return fgi_real()->register_atfork(prepare, parent, child, object);
}

/* libc.so.6 has it for programs that were linked to glibc 2.2, and passes no handle. */
EXPORT int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	return __register_atfork(prepare, parent, child, NULL);
}

/* A fork without handlers, for programs that fork in a signal handler. What the child holds and how its locks name it
 * must be right there, too. glibc's own fork does not come through here. */
EXPORT pid_t _Fork(void)
{
	pid_t child;

	fork_prepare();
	child = fgi_real()->bare_fork();
	if (child) {
		fork_parent();
		return child;
	}
	fgi_thread_after_fork();
	fork_child();
	fgi_mutex_after_bare_fork();
	return 0;
}

__attribute__((constructor)) static void atfork_start(void)
{
	register_ours();
}
