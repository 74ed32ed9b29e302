/* SPDX-License-Identifier: MIT */
/* What the interposer's parts do in the child of a fork, before the handlers of other libraries run there. */
#ifndef FGI_INTERPOSE_ATFORK_H
#define FGI_INTERPOSE_ATFORK_H

void fgi_waitq_after_fork(void);
void fgi_bridge_after_fork(void);

#endif
