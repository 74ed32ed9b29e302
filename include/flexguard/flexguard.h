/* SPDX-License-Identifier: MIT */
/* Everything that FlexGuard offers to C and C++ programs. Link with -lflexguard (pkg-config flexguard). */
#ifndef FLEXGUARD_FLEXGUARD_H
#define FLEXGUARD_FLEXGUARD_H

#include <flexguard/advice.h>
#include <flexguard/barrier.h>
#include <flexguard/cond.h>
#include <flexguard/monitor.h>
#include <flexguard/mutex.h>
#include <flexguard/mutex_shared.h>
#include <flexguard/rwlock.h>

#endif
