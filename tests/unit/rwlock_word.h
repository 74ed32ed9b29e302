/* SPDX-License-Identifier: MIT */
/* Short names for tables of what the word of a read-write lock says (sync/rwlock.h). */
#ifndef FG_TESTS_RWLOCK_WORD_H
#define FG_TESTS_RWLOCK_WORD_H

#include "sync/rwlock.h"

#define P FGI_RW_PARKED
#define R FGI_RW_RESERVED
#define K FGI_RW_WOKEN
#define E FGI_RW_ENTRIES
#define B FGI_RW_BIASED
#define A FGI_RW_AWAITED
#define READ(n) ((n)*FGI_RW_READER)
#define OTHER 4711ull /* another thread's id: it writes */

#endif
