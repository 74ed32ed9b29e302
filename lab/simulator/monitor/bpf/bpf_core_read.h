/* SPDX-License-Identifier: MIT */
/* The simulated kernel has the fields of Linux 6.17 to 7.2 on x86-64, without sched_ext and HRTICK. */
#ifndef FGS_BPF_CORE_READ_H
#define FGS_BPF_CORE_READ_H

#define FGS_NAMES(field, name) (__builtin_strstr(field, name) != 0)
#define bpf_core_field_exists(...)                                                                                     \
	(!FGS_NAMES(#__VA_ARGS__, "h_load") && !FGS_NAMES(#__VA_ARGS__, "scx") &&                                      \
	 !FGS_NAMES(#__VA_ARGS__, "hrtick") && !FGS_NAMES(#__VA_ARGS__, "regs->pc") &&                                 \
	 !FGS_NAMES(#__VA_ARGS__, "tp_value"))
#define bpf_core_field_offset(type, field) __builtin_offsetof(type, field)
#define bpf_core_type_size(type) sizeof(type)

#define FGS_READ2(a, b) ((a)->b)
#define FGS_READ3(a, b, c) ((a)->b->c)
#define FGS_READ4(a, b, c, d) ((a)->b->c->d)
#define FGS_READ5(a, b, c, d, e) ((a)->b->c->d->e)
#define FGS_READ(_1, _2, _3, _4, _5, name, ...) name
#define BPF_CORE_READ(...) FGS_READ(__VA_ARGS__, FGS_READ5, FGS_READ4, FGS_READ3, FGS_READ2)(__VA_ARGS__)

#endif
