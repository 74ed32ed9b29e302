/* SPDX-License-Identifier: MIT */
#ifndef FGI_INTERPOSE_CANCEL_H
#define FGI_INTERPOSE_CANCEL_H

#include <stdint.h>

/* Has any thread of this process been cancelled by our pthread_cancel? */
extern uint32_t fgi_cancels;

#endif
