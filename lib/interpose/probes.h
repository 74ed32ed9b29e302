/* SPDX-License-Identifier: MIT */
/* Static probes (USDT) with the provider, names and arguments of glibc's own (nptl/DESIGN-systemtap-probes.txt), where
 * glibc has them: scripts of bpftrace, perf and SystemTap see the mutexes of an interposed program once they name the
 * interposer's file. A probe is one NOP, and a note in the file. They are compiled in where <sys/sdt.h> is installed
 * (systemtap-sdt-dev). A mutex that passes through to glibc meets glibc's. */
#ifndef FGI_PROBES_H
#define FGI_PROBES_H

#if __has_include(<sys/sdt.h>)
#include <sys/sdt.h>
#define FGI_PROBE1(name, first) STAP_PROBE1(libc, name, first)
#define FGI_PROBE2(name, first, second) STAP_PROBE2(libc, name, first, second)
#define FGI_PROBE3(name, first, second, third) STAP_PROBE3(libc, name, first, second, third)
#else
#define FGI_PROBE1(name, first) ((void)0)
#define FGI_PROBE2(name, first, second) ((void)0)
#define FGI_PROBE3(name, first, second, third) ((void)0)
#endif

#endif
