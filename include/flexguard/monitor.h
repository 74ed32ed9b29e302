/* SPDX-License-Identifier: MIT */
/* What the Preemption Monitor knows, for programs that have wait loops of their own (section 3.1).
 *
 *   while (!try())
 *           if (fg_critical_section_preempted())
 *                   block();
 *           else
 *                   pause();
 *
 * All calls are thread- and async-signal-safe and cost one or two loads. */
#ifndef FLEXGUARD_MONITOR_H
#define FLEXGUARD_MONITOR_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Is this process registered with a living monitor? */
bool fg_monitor_attached(void);

/* Why did the last attempt to register this process fail? 0 if it did not. ENOENT, ECONNREFUSED: no monitor listens
 * there. EACCES: its socket may not be connected to. ECANCELED: FLEXGUARD_SOCKET is empty. ENAMETOOLONG: it is too
 * long. EOPNOTSUPP: the process was put under a seccomp filter. EKEYREJECTED: what listens there runs as neither root
 * nor this user. EPROTO: it is no monitor. ETIMEDOUT, ECONNRESET: it did not answer. EPROTONOSUPPORT: it is of
 * another version. It refused: EAGAIN, EBUSY: the user's programs ask too much of it. EDQUOT: too many of them are
 * registered. EPERM: the user may not trace the process. E2BIG: the process has too many threads. ENOSPC: it has too
 * many images. EINPROGRESS: the attempt is under way. */
int fg_monitor_error(void);

/* What a value of fg_monitor_error means, in English. Never NULL; the string is static. */
const char *fg_strerror(int error);

/* Is a thread of this process's domain preempted inside a critical section now? The domain is the programs of the user
 * or of the control group, or those of the machine where the monitor counts for all of them together. Always false
 * without a monitor, so bound your busy-waiting. */
bool fg_critical_section_preempted(void);

#ifdef __cplusplus
}
#endif
#endif
