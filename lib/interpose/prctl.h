/* SPDX-License-Identifier: MIT */
#ifndef FGI_INTERPOSE_PRCTL_H
#define FGI_INTERPOSE_PRCTL_H

#include <stdint.h>

/* Not 0: the program is about to put itself into a sandbox, or has done so. From then on sched_yield is the system
 * call, and all waiting for semaphores is glibc's. */
extern uint32_t fgi_enters_sandbox;

#endif
