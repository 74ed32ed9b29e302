/* SPDX-License-Identifier: MIT */
/* x86-64: system calls. */
#ifndef FGI_ARCH_SYSTEM_H
#define FGI_ARCH_SYSTEM_H

/* Returns what the kernel returns: -1 to -4095 are errors. */
static inline long fgi_system_call(long number, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long result = number;

	__asm__ volatile("syscall"
			 : "+a"(result)
			 : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "cc", "memory");
	return result;
}

#endif
