/* SPDX-License-Identifier: MIT */
/* arm64: the atomic operations that take or release a lock, with their windows. runtime/arch/x86_64/window.h says what
 * each does, and what a window is.
 *
 * Without atomic instructions (ARMv8.0) the operation is a loop of an exclusive load and an exclusive store. The thread
 * takes, or releases, in the exclusive store, and its status register says so: 0, it was done. An interrupt between
 * the store and the next instruction keeps the register, so a window that begins at the store has the condition that
 * the status is 0 (taken) or 1 (not yet released). With atomic instructions (ARMv8.1: the compiler says so) the
 * condition is the value that was found. Where that cannot be compared with a constant of 32 bits, the operation is a
 * loop on all CPUs.
 *
 * `held` is changed by one instruction, too, or a loop whose store fails after a signal, since a handler that locks may
 * change it in between. While `held` counts the lock the thread owns it, so a window may reach from before `held`
 * falls, and to after it rose.
 *
 * Order: every block is a compiler barrier. What takes is an acquire, what releases a release, and what may do either
 * both. The store that links a node is a release: it pairs with the acquire by which the predecessor finds its
 * successor. Detection needs no order between CPUs: the monitor looks at a thread on the thread's own CPU. */
#ifndef FGI_ARCH_WINDOW_H
#define FGI_ARCH_WINDOW_H

#include "runtime/arch/window_entry.h"
#include "runtime/block.h"

#ifndef FGI_WINDOW_PAD
#define FGI_WINDOW_PAD 0
#endif

#define FGI_STR_(x) #x
#define FGI_STR(x) FGI_STR_(x)
#define FGI_PAD ".rept " FGI_STR(FGI_WINDOW_PAD) "\n isb\n .endr\n"

/* The numbers are FG_REG_ARM64_*. x9 has the status of the exclusive store, x10 the value that was found; x11 and x12
 * are for what changes `held`. */
#define FGI_WINDOW(begin, end, reg, mask, value)                                                                       \
	".pushsection fg_windows, \"a\", %%progbits\n"                                                                 \
	".balign 4\n"                                                                                                  \
	".long " begin " - .\n"                                                                                        \
	".long " end " - .\n"                                                                                          \
	".long " reg ", " mask ", " value "\n"                                                                         \
	".popsection\n"
#define FGI_ALWAYS(begin, end) FGI_WINDOW(begin, end, "0", "0", "0")
#define FGI_IF_STORED(begin, end) FGI_WINDOW(begin, end, "1", "0xffffffff", "0")
#define FGI_IF_NOT_STORED(begin, end) FGI_WINDOW(begin, end, "1", "0xffffffff", "1")
#define FGI_IF_FOUND_ZERO(begin, end) FGI_WINDOW(begin, end, "2", "0xffffffff", "0")
FG_ABI_ASSERT(FG_REG_NONE == 0 && FG_REG_ARM64_X9 == 1 && FG_REG_ARM64_X10 == 2); /* the numbers above */
#define FGI_CLOBBERED "x9", "x10", "x11", "x12", "cc", "memory"

/* clang-format off */

/* FGI_HELD("add", begin, end): adds 1 to `held`, or subtracts it ("sub"). `begin` and `end` are numbers of local labels
 * at its first and its last instruction. */
#ifdef __ARM_FEATURE_ATOMICS
#define FGI_HELD_add "mov w11, #1\n"
#define FGI_HELD_sub "mov w11, #-1\n"
#define FGI_HELD(change, begin, end)                                                                                   \
	begin ": " FGI_HELD_##change                                                                                   \
	end ": stadd w11, %[held]\n"
#else
#define FGI_HELD(change, begin, end)                                                                                   \
	begin ": ldxr w11, %[held]\n"                                                                                  \
	"   " #change " w11, w11, #1\n"                                                                                \
	"   stxr w12, w11, %[held]\n"                                                                                  \
	end ": cbnz w12, " begin "b\n"
#endif

/* Takes the lock if the word is 0, making it `desired`. Returns what it found: 0 means taken. */
#define FGI_TAKE_CAS(bits, w)                                                                                          \
	__asm__ volatile("10: ldaxr " w "10, %[word]\n"                                                                \
			 "   cbnz " w "10, 3f\n"                                                                       \
			 "1: stlxr w9, %" w "[desired], %[word]\n" FGI_PAD                                             \
			 "   cbnz w9, 10b\n" FGI_PAD                                                                   \
			 FGI_HELD(add, "11", "2")                                                                      \
			 "3: mov %" w "[found], " w "10\n" FGI_IF_STORED("1b", "2b")                                   \
			 : [word] "+Q"(*word), [found] "=r"(found), [held] "+Q"(fg_thread.held)                        \
			 : [desired] "r"(desired)                                                                      \
			 : FGI_CLOBBERED)

static inline uint32_t fgi_take_cas32(uint32_t *word, uint32_t desired)
{
	uint32_t found;

#ifdef __ARM_FEATURE_ATOMICS
	__asm__ volatile("   mov w10, wzr\n"
			 "1: casal w10, %w[desired], %[word]\n" FGI_PAD
			 "   cbnz w10, 3f\n" FGI_PAD
			 FGI_HELD(add, "11", "2")
			 "3: mov %w[found], w10\n" FGI_IF_FOUND_ZERO("1b", "2b")
			 : [word] "+Q"(*word), [found] "=r"(found), [held] "+Q"(fg_thread.held)
			 : [desired] "r"(desired)
			 : FGI_CLOBBERED);
#else
	FGI_TAKE_CAS(32, "w");
#endif
	return found;
}

/* The same for the tail of a queue, which is empty iff the tail is NULL. A window's condition has 32 bits. */
static inline uint64_t fgi_take_cas64(uint64_t *word, uint64_t desired)
{
	uint64_t found;

	FGI_TAKE_CAS(64, "x");
	return found;
}

/* Writes `value` whatever the word is; that takes the lock iff it was 0. */
static inline uint32_t fgi_take_xchg32(uint32_t *word, uint32_t value)
{
	uint32_t found;

#ifdef __ARM_FEATURE_ATOMICS
	__asm__ volatile("1: swpal %w[value], w10, %[word]\n" FGI_PAD
			 "   cbnz w10, 3f\n" FGI_PAD
			 FGI_HELD(add, "11", "2")
			 "3: mov %w[found], w10\n" FGI_IF_FOUND_ZERO("1b", "2b")
#else /* two stores: the condition of the window is the status of the one that takes */
	__asm__ volatile("10: ldaxr w10, %[word]\n"
			 "   cbz w10, 1f\n"
			 "   stlxr w9, %w[value], %[word]\n"
			 "   cbnz w9, 10b\n"
			 "   b 3f\n"
			 "1: stlxr w9, %w[value], %[word]\n" FGI_PAD
			 "   cbnz w9, 10b\n" FGI_PAD
			 FGI_HELD(add, "11", "2")
			 "3: mov %w[found], w10\n" FGI_IF_STORED("1b", "2b")
#endif
			 : [word] "+Q"(*word), [found] "=r"(found), [held] "+Q"(fg_thread.held)
			 : [value] "r"(value)
			 : FGI_CLOBBERED);
	return found;
}

/* Releases by exchange; returns what the word was. */
static inline uint32_t fgi_drop_xchg32(uint32_t *word, uint32_t value)
{
	uint32_t found;

#ifdef __ARM_FEATURE_ATOMICS
	__asm__ volatile(FGI_HELD(sub, "1", "11") FGI_PAD
			 "2: swpal %w[value], w10, %[word]\n"
			 "   mov %w[found], w10\n" FGI_ALWAYS("1b", "2b")
#else
	__asm__ volatile(FGI_HELD(sub, "1", "11") FGI_PAD
			 "10: ldaxr w10, %[word]\n"
			 "2: stlxr w9, %w[value], %[word]\n"
			 "4: cbnz w9, 10b\n"
			 "   mov %w[found], w10\n" FGI_ALWAYS("1b", "2b") FGI_IF_NOT_STORED("2b", "4b")
#endif
			 : [word] "+Q"(*word), [found] "=r"(found), [held] "+Q"(fg_thread.held)
			 : [value] "r"(value)
			 : FGI_CLOBBERED);
	return found;
}

/* Releases by a plain store. */
static inline void fgi_drop_store32(uint32_t *word, uint32_t value)
{
	__asm__ volatile(FGI_HELD(sub, "1", "11") FGI_PAD
			 "2: stlr %w[value], %[word]\n" FGI_ALWAYS("1b", "2b")
			 : [word] "=Q"(*word), [held] "+Q"(fg_thread.held)
			 : [value] "r"(value)
			 : FGI_CLOBBERED);
}

/* Releases iff the word is `expected`, making it `desired`; otherwise the thread stays critical. Returns what it
 * found. */
#define FGI_DROP_CAS(bits, w)                                                                                          \
	static inline uint##bits##_t fgi_drop_cas##bits(uint##bits##_t *word, uint##bits##_t expected,                 \
							uint##bits##_t desired)                                        \
	{                                                                                                              \
		uint##bits##_t found;                                                                                  \
                                                                                                                       \
		__asm__ volatile(FGI_HELD(sub, "1", "11") FGI_PAD                                                      \
				 "10: ldaxr " w "10, %[word]\n"                                                        \
				 "   cmp " w "10, %" w "[expected]\n"                                                  \
				 "   b.eq 2f\n" FGI_PAD                                                                \
				 FGI_HELD(add, "12", "13")                                                             \
				 "   b 5f\n"                                                                           \
				 "2: stlxr w9, %" w "[desired], %[word]\n" FGI_PAD                                     \
				 "4: cbnz w9, 10b\n"                                                                   \
				 "5: mov %" w "[found], " w "10\n"                                                    \
				 FGI_ALWAYS("1b", "2b") FGI_IF_NOT_STORED("2b", "4b")                                  \
				 : [word] "+Q"(*word), [found] "=r"(found), [held] "+Q"(fg_thread.held)                \
				 : [expected] "r"(expected), [desired] "r"(desired)                                    \
				 : FGI_CLOBBERED);                                                                     \
		return found;                                                                                          \
	}
FGI_DROP_CAS(32, "w")
FGI_DROP_CAS(64, "x")

/* Joins a queue: see runtime/arch/x86_64/window.h. */
static inline void fgi_enqueue(uint64_t *tail, struct fg_queue_node *node, uint64_t tag)
{
#ifdef __ARM_FEATURE_ATOMICS
	__asm__ volatile("1: swpal %[tagged], x10, %[tail]\n" FGI_PAD
#else
	__asm__ volatile("10: ldaxr x10, %[tail]\n"
			 "1: stlxr w9, %[tagged], %[tail]\n" FGI_PAD
			 "   cbnz w9, 10b\n" FGI_PAD
#endif
			 "   cbz x10, 4f\n" FGI_PAD
			 "   sub x10, x10, %[tag]\n"
			 "2: stlr %[node], [x10]\n" /* its field `next` */
			 "3: b 6f\n"
			 "4: mov w11, %[granted]\n" FGI_PAD
			 "5: str w11, %[state]\n"
			 "6:\n"
#ifdef __ARM_FEATURE_ATOMICS
			 FGI_ALWAYS("1b", "2b")
#else
			 FGI_IF_STORED("1b", "2b")
#endif
			 FGI_ALWAYS("3b", "5b")
			 : [tail] "+Q"(*tail), [state] "+m"(node->state)
			 : [tagged] "r"((uint64_t)(uintptr_t)node + tag), [node] "r"(node), [tag] "r"(tag),
			   [granted] "i"(FG_NODE_GRANTED)
			 : FGI_CLOBBERED);
}
FG_ABI_ASSERT(__builtin_offsetof(struct fg_queue_node, next) == 0);

/* clang-format on */

#endif
