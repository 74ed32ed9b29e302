/* SPDX-License-Identifier: MIT */
/* What the monitor's BPF code takes from libbpf, for a native compiler: monitor.c of this folder's parent answers the
 * helpers. */
#ifndef FGS_BPF_HELPERS_H
#define FGS_BPF_HELPERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SEC(name)
#define __uint(name, value) int(*name)[value]
#define __type(name, type) __typeof__(type) *name
#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define __noinline __attribute__((noinline))
#define barrier_var(variable) __asm__ volatile("" : "+r"(variable))

#define BPF_LOCAL_STORAGE_GET_F_CREATE 1

void *bpf_map_lookup_elem(const void *map, const void *key);
void *bpf_task_storage_get(const void *map, const void *task, void *value, uint64_t flags);
long bpf_task_storage_delete(const void *map, const void *task);
long bpf_probe_read_user(void *to, uint32_t bytes, const void *from);
long bpf_probe_read_user_str(void *to, uint32_t bytes, const void *from);
long bpf_probe_read_kernel(void *to, uint32_t bytes, const void *from);
long bpf_seq_write(const void *file, const void *data, uint32_t bytes);
long bpf_task_pt_regs(const void *task);
uint32_t bpf_get_smp_processor_id(void);
uint64_t bpf_ktime_get_ns(void);

#endif
