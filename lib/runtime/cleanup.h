/* SPDX-License-Identifier: MIT */
/* glibc's old kind of cleanup handlers, which pthread.h no longer declares: they run when the thread is cancelled, and
 * when a signal handler leaves the function by siglongjmp. A waiter whose node on its stack is in a list has one. */
#ifndef FGI_CLEANUP_H
#define FGI_CLEANUP_H

#include <pthread.h>

void _pthread_cleanup_push(struct _pthread_cleanup_buffer *buffer, void (*run)(void *), void *arg);
void _pthread_cleanup_pop(struct _pthread_cleanup_buffer *buffer, int execute);

#endif
