/* SPDX-License-Identifier: MIT */
/* What the interposer's parts do in the child of a fork, before the handlers of other libraries run there. */
#ifndef FGI_INTERPOSE_ATFORK_H
#define FGI_INTERPOSE_ATFORK_H

#include <stdint.h>

void fgi_bridge_after_fork(void);

/* Of the thread that forked, in the child: the locks that it held then and has not initialised again. */
struct fgi_carried {
	int32_t locks;   /* of all kinds */
	int32_t reads;   /* those for reading */
	uint32_t forker; /* as a lock word may name it */
};

extern __thread struct fgi_carried fgi_carried __attribute__((tls_model("initial-exec"), visibility("hidden")));

#endif
