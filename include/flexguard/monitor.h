/* SPDX-License-Identifier: MIT */
/* What the Preemption Monitor knows, for programs that have wait loops of their own (section 3.1).
 *
 *   while (!try())
 *           if (fg_critical_section_preempted())
 *                   block();
 *           else
 *                   pause();
 *
 * Both calls are thread- and async-signal-safe and cost one or two loads. */
#ifndef FLEXGUARD_MONITOR_H
#define FLEXGUARD_MONITOR_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Is this process registered with a living monitor? */
bool fg_monitor_attached(void);

/* Is a thread preempted inside a critical section now, anywhere on this machine? If the monitor has a counter for each
 * user or control group, anywhere in that of this process. Always false without a monitor: bound your busy-waiting all
 * the same. */
bool fg_critical_section_preempted(void);

#ifdef __cplusplus
}
#endif
#endif
