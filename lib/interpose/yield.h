/* SPDX-License-Identifier: MIT */
#ifndef FGI_INTERPOSE_YIELD_H
#define FGI_INTERPOSE_YIELD_H

/* The program is about to put itself into a sandbox: from now on its sched_yield is the system call. */
void fgi_yield_before_sandbox(void);

#endif
