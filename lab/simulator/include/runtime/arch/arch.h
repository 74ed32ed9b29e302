/* SPDX-License-Identifier: MIT */
/* The architecture of the simulator's CPUs, in place of runtime/arch/arch.h: found first, by the order of the include
 * paths. What the others do by inline assembly calls the simulator here; all else is compiled as it is shipped, and
 * each of its accesses to memory calls the simulator through the compiler's instrumentation (simulator/access.c).
 *
 * A window of another architecture is the gap between the instruction that takes a lock and the one that counts it.
 * Here both are one step, in which no thread is preempted: the monitor sees each holder, as it does by windows. */
#ifndef FGI_ARCH_H
#define FGI_ARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/arch/window_entry.h"
#include "runtime/block.h"

#ifdef __cplusplus
extern "C" {
#endif

void fgs_pause(void);
uint64_t fgs_counter(void);
uint64_t fgs_counter_ordered(void);

/* The CPU has the line alone, and does not lose it before its thread makes its next access or call. */
void fgs_write(void *word);  /* by a store */
void fgs_change(void *word); /* by a read-modify-write */

/* Returns what the kernel returns: -1 to -4095 are errors. */
long fgs_system_call(long number, long a, long b, long c, long d, long e, long f);

#ifdef __cplusplus
}
#endif

#define FGS_RAW static __attribute__((no_sanitize("thread"), noinline, unused))

static inline void fg_pause(void)
{
	fgs_pause();
}

static inline long fgi_system_call(long number, long a, long b, long c, long d, long e, long f)
{
	return fgs_system_call(number, a, b, c, d, e, f);
}

static inline uint64_t fg_cycles(void)
{
	return fgs_counter();
}

static inline uint64_t fg_cycles_ordered(void)
{
	return fgs_counter_ordered();
}

static inline void fg_load_fence(void)
{
}

static inline void fg_streaming_fence(void)
{
}

/* ---- local.h: words that only this thread writes ---------------------------------------------------------------- */

FGS_RAW void fgi_local_add(int32_t *word, int32_t value)
{
	fgs_write(word);
	*word += value;
}

FGS_RAW void fgi_local_count(uint32_t *word)
{
	fgs_write(word);
	++*word;
}

FGS_RAW bool fgi_local_subtract(uint64_t *word, uint64_t value)
{
	fgs_write(word);
	*word -= value;
	return *word == 0;
}

FGS_RAW uint64_t fgi_local_cas(uint64_t *word, uint64_t expected, uint64_t desired)
{
	uint64_t found;

	fgs_write(word);
	found = *word;
	if (found == expected)
		*word = desired;
	return found;
}

/* ---- asymmetric.h: one instruction, which another CPU's write may fall into on real machines, but does not here - */

FGS_RAW bool fgi_asymmetric_release(uint32_t *word, uint32_t kept)
{
	fgs_write(word);
	*word &= kept;
	return *word >> 31;
}

/* ---- window.h --------------------------------------------------------------------------------------------------- */

#define FGS_TAKE_AND_DROP(bits)                                                                                        \
	FGS_RAW uint##bits##_t fgi_take_cas##bits(uint##bits##_t *word, uint##bits##_t desired)                        \
	{                                                                                                              \
		uint##bits##_t found;                                                                                  \
                                                                                                                       \
		fgs_change(word);                                                                                      \
		found = *word;                                                                                         \
		if (found == 0) {                                                                                      \
			*word = desired;                                                                               \
			fg_thread.held++;                                                                              \
		}                                                                                                      \
		return found;                                                                                          \
	}                                                                                                              \
                                                                                                                       \
	FGS_RAW uint##bits##_t fgi_drop_cas##bits(uint##bits##_t *word, uint##bits##_t expected,                       \
						  uint##bits##_t desired)                                              \
	{                                                                                                              \
		uint##bits##_t found;                                                                                  \
                                                                                                                       \
		fgs_change(word);                                                                                      \
		found = *word;                                                                                         \
		if (found == expected) {                                                                               \
			*word = desired;                                                                               \
			fg_thread.held--;                                                                              \
		}                                                                                                      \
		return found;                                                                                          \
	}
FGS_TAKE_AND_DROP(32)
FGS_TAKE_AND_DROP(64)

FGS_RAW uint32_t fgi_take_xchg32(uint32_t *word, uint32_t value)
{
	uint32_t found;

	fgs_change(word);
	found = *word;
	*word = value;
	if (found == 0)
		fg_thread.held++;
	return found;
}

FGS_RAW uint32_t fgi_drop_xchg32(uint32_t *word, uint32_t value)
{
	uint32_t found;

	fgs_change(word);
	found = *word;
	*word = value;
	fg_thread.held--;
	return found;
}

FGS_RAW void fgi_drop_store32(uint32_t *word, uint32_t value)
{
	fgs_write(word);
	*word = value;
	fg_thread.held--;
}

/* A window over two accesses: critical by `held` from the exchange to the link. */
FGS_RAW void fgi_enqueue(uint64_t *tail, struct fg_queue_node *node, uint64_t tag)
{
	uint64_t before;

	fgs_change(tail);
	before = *tail;
	*tail = (uint64_t)(uintptr_t)node + tag;
	fg_thread.held++;
	if (before) {
		struct fg_queue_node *predecessor = (struct fg_queue_node *)(uintptr_t)(before - tag);

		fgs_write(&predecessor->next);
		predecessor->next = (uint64_t)(uintptr_t)node;
	} else {
		fgs_write(&node->state);
		node->state = FG_NODE_GRANTED;
	}
	fg_thread.held--;
}

#endif
