/* SPDX-License-Identifier: MIT */
/* Comes before everything else in the model's unit. The lock's own sources are compiled as they are; from outside come
 *
 *   - the architecture: arm64's, whatever machine this is, and a spin hint that does nothing, since the model
 *     tries every interleaving anyway;
 *   - the clock, the scheduler and the monitor: the model's;
 *   - a note before every atomic operation of which function it stands in: how a defect names the place it is seeded
 *     in. The operation itself goes the way of all accesses, through the compiler's instrumentation. */
#ifndef FGO_ORDER_H
#define FGO_ORDER_H

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

void fgo_site(const char *function);
int fgo_clock(clockid_t clock, struct timespec *now);
int fgo_policy(void);

#define __atomic_load_n(...) (fgo_site(__func__), __atomic_load_n(__VA_ARGS__))
#define __atomic_store_n(...) (fgo_site(__func__), __atomic_store_n(__VA_ARGS__))
#define __atomic_exchange_n(...) (fgo_site(__func__), __atomic_exchange_n(__VA_ARGS__))
#define __atomic_fetch_sub(...) (fgo_site(__func__), __atomic_fetch_sub(__VA_ARGS__))
#define __atomic_fetch_add(...) (fgo_site(__func__), __atomic_fetch_add(__VA_ARGS__))
#define __atomic_fetch_and(...) (fgo_site(__func__), __atomic_fetch_and(__VA_ARGS__))
#define __atomic_fetch_or(...) (fgo_site(__func__), __atomic_fetch_or(__VA_ARGS__))
#define __atomic_compare_exchange_n(...) (fgo_site(__func__), __atomic_compare_exchange_n(__VA_ARGS__))

/* Stands in for lib/runtime/system.h and sandbox.h. */
#define FGI_SYSTEM_H
#define FGI_SANDBOX_H

static inline void fgi_clock_read(clockid_t clock, struct timespec *now)
{
	(void)fgo_clock(clock, now);
}

static inline uint32_t fgi_cpu_number(void)
{
	return 0;
}

static inline void fgi_system_yield(void)
{
}

static inline long fgi_optional_call(long number, long a, long b, long c)
{
	(void)a;
	(void)b;
	(void)c;
	return number == SYS_sched_getscheduler ? fgo_policy() : -ENOSYS;
}

/* What the monitor says, and whether others compete, is told to each test on its own: the declarations in
 * lib/runtime/monitor.h and lock/default/scheduler.h become those of functions. */
#define fgi_monitor_page (*fgo_monitor_page())
#define fgi_preempted_counter (*fgo_preempted_counter())
#define fgi_off_cpu (*fgo_off_cpu())
#define fgi_cpu_lines (*fgo_cpu_lines())
#define fgi_others_compete_until (*fgo_others_compete_until())
#define fgi_cpus (*fgo_cpus())
#define fgi_cpu_set (*fgo_cpu_set())

#define FGI_ARCH_H
#include "runtime/arch/generic/asymmetric.h"
#include "runtime/arch/generic/local.h"

static inline void fg_pause(void)
{
}

static inline void fg_load_fence(void)
{
}

#endif
