/* SPDX-License-Identifier: MIT */
#ifndef FGS_BPF_TRACING_H
#define FGS_BPF_TRACING_H

#define BPF_PROG(name, ...) name(__VA_ARGS__)

#endif
