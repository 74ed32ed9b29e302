/* SPDX-License-Identifier: MIT */
#ifndef FGS_FUTEX_H
#define FGS_FUTEX_H

#include <stdint.h>

#include "simulator/engine.h"

void fgs_futex_start(void);

/* 0, EAGAIN or ETIMEDOUT. `until`: virtual time; null: for ever. */
int fgs_futex_wait(const uint32_t *word, uint32_t expected, const fgs_ps *until, uint32_t bits);

/* How many were woken. */
int fgs_futex_wake(const uint32_t *word, int most, uint32_t bits);

/* The thread no longer waits: its timer went off. */
void fgs_futex_forget(struct fgs_thread *t);

extern struct fgs_futex_counts {
	uint64_t waits, refusals, wakes;
} fgs_futex_counts;

#endif
