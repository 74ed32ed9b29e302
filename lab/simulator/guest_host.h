/* SPDX-License-Identifier: MIT */
/* What a guest's kernel asks its processor and its host for (virtual.c). */
#ifndef FGS_GUEST_H
#define FGS_GUEST_H

#include <stdbool.h>
#include <stdint.h>

/* Off: the guest's scheduler leaves the thread on its virtual CPU. The host's does as it likes. */
void fgs_guest_preemption(bool on);

/* Which of the first guest's virtual CPUs this is, and how many it has. */
uint32_t fgs_guest_cpu(void);
uint32_t fgs_guest_cpus(void);

/* As flexguard_halt and the others of guest/host/flexguard_host.h. */
void fgs_guest_halt(const uint32_t *word, uint32_t seen, uint32_t bits);
void fgs_guest_kick(const uint32_t *word, int most, uint32_t bits);
void fgs_guest_yield(void);
bool fgs_guest_is_off(uint32_t cpu);
uint64_t fgs_guest_slice(void);
uint64_t fgs_guest_slice_end(void);

#endif
