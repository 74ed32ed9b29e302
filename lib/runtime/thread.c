/* SPDX-License-Identifier: MIT */
#include "runtime/thread.h"

#include <pthread.h>
#include <sys/mman.h>

#include "runtime/cancel.h"
#include "runtime/membarrier.h"
#include "runtime/monitor.h"
#include "runtime/node.h"
#include "runtime/sandbox.h"
#include "runtime/system.h"

#define PAGE 4096 /* or more, as the kernel has them */

__thread struct fg_thread_block fg_thread;
uint32_t fgi_forks;
__thread uint32_t fgi_async __attribute__((tls_model("initial-exec")));

uint32_t fgi_thread_init(void)
{
	fg_thread.self = fgi_system_tid();
	fgi_foreign_born();
	if (fg_load_relaxed(&fgi_foreign_notes))
		fgi_foreign_settle(); /* those of an ended thread that had the same tid */
	fgi_process_init();
	return fg_thread.self;
}

static struct fgi_of_process without_page = {0, 1};
struct fgi_of_process *fgi_of_process = &without_page;

static void map_page_of_process(void)
{
	struct fgi_of_process *page = fgi_system_map(PAGE, 0);

	if (!page)
		return;
	(void)fgi_optional_call(SYS_madvise, (long)page, PAGE, MADV_WIPEONFORK);
	page->started = 1;
	fg_store_release(&fgi_of_process, page);
}

bool fgi_is_own_memory(void)
{
	return !fg_load_relaxed(&fg_load_acquire(&fgi_of_process)->started) ||
	       fgi_system_call(SYS_gettid, 0, 0, 0, 0, 0, 0) == (long)fgi_system_tid();
}

/* Each shared object's own: in the child another one may have changed `self` already. */
static __thread uint32_t forker __attribute__((tls_model("initial-exec")));

void fgi_thread_before_fork(void)
{
	forker = fg_thread.self;
}

/* The child's only thread has a new tid and is in no queue; the queue nodes of the other threads are free now. It goes
 * on holding what it held: `held` was copied with the TLS. The word that `pending` points to names the parent's thread,
 * so that lock is counted in `held`, too. The monitor has copied the registration itself. */
void fgi_thread_after_fork(void)
{
	fgi_pending_into_held(0);
	if (fg_thread.self)
		fg_thread.self = fgi_system_tid();
	fg_thread.life = 0; /* a handle of the parent's thread is not the child's */
	fg_store_relaxed(&fgi_of_process->started, 1);
	fgi_forks += 2;
	fgi_foreign_after_fork(forker);
	fgi_nodes_after_fork();
	fgi_monitor_after_fork();
}

void fgi_thread_atfork(void)
{
	static uint32_t begun;

	if (fg_xchg_relaxed(&begun, 1) == 0)
		pthread_atfork(fgi_thread_before_fork, NULL, fgi_thread_after_fork);
}

/* Before the constructors of locks: the fork handlers that they install run after this one. */
__attribute__((constructor(101))) static void runtime_start(void)
{
	fgi_sandbox_look();
	map_page_of_process();
	fgi_nodes_start();
	fgi_membarrier_start();
	fgi_thread_atfork();
	fgi_process_init();
}
