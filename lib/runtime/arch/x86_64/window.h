/* SPDX-License-Identifier: MIT */
/* The atomic instructions that take or release a lock, with their windows (section 3.1, Listing 1).
 *
 * Between the instruction that takes a lock and the one that counts it in `held`, and again when the lock is released,
 * a thread is in a critical section that its thread block does not show. Each function below is one asm block that
 * contains both instructions and describes the gap between them, the window, in section `fg_windows`: "an instruction
 * pointer in (begin, end] is critical iff this register has this value". The description is emitted with the code, so
 * the compiler may inline, duplicate, reorder or drop the blocks; addresses of C labels would not survive that.
 *
 *   fgi_take_cas32/64, fgi_take_xchg32    take:       held is raised iff the word was 0
 *   fgi_drop_xchg32, fgi_drop_store32     release:    held is lowered first (Listing 2, line 22)
 *   fgi_drop_cas32/64                     release if: held is lowered, and raised again if the word was another
 *   fgi_enqueue                           join a queue: critical until linked to the predecessor, or marked as head
 *
 * Order: every block is a full compiler barrier. Locked instructions and XCHG are full barriers on x86, and a plain
 * store is a release. In the build of the detection test FGI_WINDOW_PAD spin hints widen every window, so that many
 * preemptions fall inside; the code is otherwise the same. (A hint takes a hundred times as long as a NOP and changes
 * no registers or flags either.) */
#ifndef FGI_ARCH_WINDOW_H
#define FGI_ARCH_WINDOW_H

#include "runtime/arch/window_entry.h"
#include "runtime/block.h"

#ifndef FGI_WINDOW_PAD
#define FGI_WINDOW_PAD 0
#endif

#define FGI_STR_(x) #x
#define FGI_STR(x) FGI_STR_(x)
#define FGI_PAD ".rept " FGI_STR(FGI_WINDOW_PAD) "\n pause\n .endr\n"

/* `begin` and `end` are local labels: begin stands at the instruction that opens the window (while the instruction
 * pointer is there it has not executed), end at the one that closes it. The numbers are FG_REG_* and EFLAGS' zero
 * flag. */
#define FGI_WINDOW(begin, end, reg, mask, value)                                                                       \
	".pushsection fg_windows, \"a\", @progbits\n"                                                                  \
	".balign 4\n"                                                                                                  \
	".long " begin " - .\n"                                                                                        \
	".long " end " - .\n"                                                                                          \
	".long " reg ", " mask ", " value "\n"                                                                         \
	".popsection\n"
#define FGI_ALWAYS(begin, end) FGI_WINDOW(begin, end, "0", "0", "0")
#define FGI_IF_AX_ZERO(begin, end) FGI_WINDOW(begin, end, "1", "0xffffffff", "0")
#define FGI_IF_NOT_EQUAL(begin, end) FGI_WINDOW(begin, end, "7", "0x40", "0")
FG_ABI_ASSERT(FG_REG_NONE == 0 && FG_REG_AX == 1 && FG_REG_FLAGS == 7); /* the numbers above */

/* clang-format off */

/* Takes the lock if the word is 0, making it `desired`. Returns what it found: 0 means taken. */
static inline uint32_t fgi_take_cas32(uint32_t *word, uint32_t desired)
{
	uint32_t found = 0;

	__asm__ volatile("1: lock cmpxchgl %[desired], %[word]\n" FGI_PAD /* eax stays 0 iff it took the lock */
			 "   jne 3f\n" FGI_PAD
			 "2: incl %[held]\n"
			 "3:\n" FGI_IF_AX_ZERO("1b", "2b")
			 : [word] "+m"(*word), "+a"(found), [held] "+m"(fg_thread.held)
			 : [desired] "r"(desired)
			 : "cc", "memory");
	return found;
}

/* The same for the tail of a queue, which is empty iff the tail is NULL. The pointer's low half being 0 would not do as
 * the condition, so it is the zero flag. */
static inline uint64_t fgi_take_cas64(uint64_t *word, uint64_t desired)
{
	uint64_t found = 0;

	__asm__ volatile("1: lock cmpxchgq %[desired], %[word]\n" FGI_PAD
			 "4: jne 3f\n" FGI_PAD
			 "2: incl %[held]\n"
			 "3:\n" FGI_WINDOW("1b", "2b", "7", "0x40", "0x40")
			 : [word] "+m"(*word), "+a"(found), [held] "+m"(fg_thread.held)
			 : [desired] "r"(desired)
			 : "cc", "memory");
	return found;
}

/* Writes `value` whatever the word is; that takes the lock iff it was 0. */
static inline uint32_t fgi_take_xchg32(uint32_t *word, uint32_t value)
{
	__asm__ volatile("1: xchgl %%eax, %[word]\n" FGI_PAD
			 "   testl %%eax, %%eax\n" FGI_PAD
			 "   jne 3f\n" FGI_PAD
			 "2: incl %[held]\n"
			 "3:\n" FGI_IF_AX_ZERO("1b", "2b")
			 : [word] "+m"(*word), "+a"(value), [held] "+m"(fg_thread.held)
			 :
			 : "cc", "memory");
	return value;
}

/* Releases by exchange; returns what the word was. */
static inline uint32_t fgi_drop_xchg32(uint32_t *word, uint32_t value)
{
	__asm__ volatile("1: decl %[held]\n" FGI_PAD
			 "2: xchgl %[value], %[word]\n" FGI_ALWAYS("1b", "2b")
			 : [word] "+m"(*word), [value] "+r"(value), [held] "+m"(fg_thread.held)
			 :
			 : "cc", "memory");
	return value;
}

/* Releases by a plain store. */
static inline void fgi_drop_store32(uint32_t *word, uint32_t value)
{
	__asm__ volatile("1: decl %[held]\n" FGI_PAD
			 "2: movl %[value], %[word]\n" FGI_ALWAYS("1b", "2b")
			 : [word] "=m"(*word), [held] "+m"(fg_thread.held)
			 : [value] "ri"(value)
			 : "cc", "memory");
}

/* Releases iff the word is `expected`, making it `desired`; otherwise the thread stays critical. Returns what it
 * found. */
#define FGI_DROP_CAS(bits, suffix)                                                                                     \
	static inline uint##bits##_t fgi_drop_cas##bits(uint##bits##_t *word, uint##bits##_t expected,                 \
							uint##bits##_t desired)                                        \
	{                                                                                                              \
		__asm__ volatile("1: decl %[held]\n" FGI_PAD                                                           \
				 "2: lock cmpxchg" suffix " %[desired], %[word]\n" FGI_PAD                             \
				 "   je 5f\n" FGI_PAD                                                                  \
				 "4: incl %[held]\n"                                                                   \
				 "5:\n" FGI_ALWAYS("1b", "2b") FGI_IF_NOT_EQUAL("2b", "4b")                            \
				 : [word] "+m"(*word), "+a"(expected), [held] "+m"(fg_thread.held)                     \
				 : [desired] "r"(desired)                                                              \
				 : "cc", "memory");                                                                    \
		return expected;                                                                                       \
	}
FGI_DROP_CAS(32, "l")
FGI_DROP_CAS(64, "q")

/* Swings the queue's tail to `node` and links it behind its predecessor; without one the node becomes the head
 * (Listing 2, lines 40-43). The tail is an address and a tag, which the caller adds and which is the same in every
 * tail of the process. Between the XCHG and the link the queue is cut: a thread that is preempted there holds up all
 * that come behind it, and counts as critical. node->state is FG_NODE_WAITING and fg_thread.node names it already, so
 * from here on the node's state tells the truth. */
static inline void fgi_enqueue(uint64_t *tail, struct fg_queue_node *node, uint64_t tag)
{
	uint64_t pred = (uint64_t)(uintptr_t)node + tag;

	__asm__ volatile("1: xchgq %[pred], %[tail]\n" FGI_PAD
			 "   testq %[pred], %[pred]\n" FGI_PAD
			 "   jz 4f\n" FGI_PAD
			 "   subq %[tag], %[pred]\n"
			 "2: movq %[node], %c[next](%[pred])\n"
			 "3: jmp 6f\n"
			 "4: " FGI_PAD
			 "5: movl %[granted], %[state]\n"
			 "6:\n" FGI_ALWAYS("1b", "2b") FGI_ALWAYS("3b", "5b")
			 : [tail] "+m"(*tail), [pred] "+&r"(pred), [state] "+m"(node->state)
			 : [node] "r"(node), [tag] "r"(tag), [next] "i"(__builtin_offsetof(struct fg_queue_node, next)),
			   [granted] "i"(FG_NODE_GRANTED)
			 : "cc", "memory");
}

/* clang-format on */

#endif
