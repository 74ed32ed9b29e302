/* SPDX-License-Identifier: MIT */
/* What a waiter reads on the monitor's page: one question a function, a few loads each. All of it hints. */
#ifndef FGI_ADVICE_PAGE_H
#define FGI_ADVICE_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "flexguard/advice_types.h"
#include "runtime/cpu.h"
#include "runtime/monitor.h"

static inline uint32_t fgi_handle_tid(fg_handle h)
{
	return (uint32_t)h & FG_OWNER_MASK;
}

static inline uint32_t fgi_handle_life(fg_handle h)
{
	return (uint32_t)(h >> 32) & FG_NOTE_LIFE;
}

static inline fg_handle fgi_handle_of(uint32_t tid, uint32_t life)
{
	return (uint64_t)life << 32 | tid;
}

/* The name that stands in the place of this thread, which may be that of another one. 0: none. */
static inline uint32_t fgi_named_there(fg_handle h)
{
	return fg_load_acquire(&fg_load_relaxed(&fgi_off_cpu)[fg_off_cpu_place(fgi_handle_tid(h))]);
}

/* The note beside it. acquire above: a note is written before its name. 0: it has none, or no notes are mapped. */
static inline uint32_t fgi_noted_there(fg_handle h)
{
	const uint32_t *notes = fg_load_relaxed(&fgi_off_cpu_notes);

	return notes ? fg_load_relaxed(&notes[fg_off_cpu_place(fgi_handle_tid(h))]) : 0;
}

enum fgi_whereabouts {
	FGI_ON_CPU, /* as far as is known */
	FGI_PREEMPTED_HERE,
	FGI_PREEMPTED_ELSEWHERE,
	FGI_PREEMPTED_SOMEWHERE,
	FGI_SLEEPS,
};

/* Where notes are mapped a name without one, or with that of another life, is another thread's. */
static inline enum fgi_whereabouts fgi_whereabouts_of(fg_handle h, uint32_t name)
{
	uint32_t note, cpu;

	if ((name & ~FG_RUNNABLE) != fgi_handle_tid(h) || !name)
		return FGI_ON_CPU;
	note = fgi_noted_there(h);
	if (fg_load_relaxed(&fgi_off_cpu_notes) && (note & FG_NOTE_LIFE) != fgi_handle_life(h))
		return FGI_ON_CPU;
	if (!(name & FG_RUNNABLE))
		return FGI_SLEEPS;
	cpu = note >> FG_NOTE_CPU_SHIFT;
	if (!note || cpu == FG_NOTE_NO_CPU)
		return FGI_PREEMPTED_SOMEWHERE;
	return cpu == fgi_cpu() ? FGI_PREEMPTED_HERE : FGI_PREEMPTED_ELSEWHERE;
}

/* Of the preempted threads of the domain that have a handle: is there one, and do all wait for other CPUs? Looks at 16
 * cache lines, and is asked only while some thread is preempted. */
static inline bool fgi_preempted_elsewhere(void)
{
	const uint32_t *notes = fg_load_relaxed(&fgi_off_cpu_notes), *names = fg_load_relaxed(&fgi_off_cpu);
	uint32_t here = fgi_cpu(), note, cpu;
	bool elsewhere = false;

	for (uint32_t i = 0; notes && i < FG_OFF_CPU; i++) {
		note = fg_load_relaxed(&notes[i]);
		if (!note || !(fg_load_relaxed(&names[i]) & FG_RUNNABLE))
			continue;
		cpu = note >> FG_NOTE_CPU_SHIFT;
		if (cpu == here || cpu == FG_NOTE_NO_CPU)
			return false;
		elsewhere = true;
	}
	return elsewhere;
}

#endif
