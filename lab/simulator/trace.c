/* SPDX-License-Identifier: MIT */
/* What a run leaves besides its result: a trace for Perfetto (Chrome's JSON), and the lines on which most time was
 * lost.
 *
 * The trace has four groups of rows: what each CPU ran; when each thread ran and waited for a CPU; when it held a
 * lock; and the lines that it waited for. A thread holds a lock by what it publishes for the monitor, which is looked
 * at where it reads the cycle counter, moves a line, or leaves its CPU. The linker puts the functions below in the
 * place of those of access.c and line.c, so that these know of no trace. What they keep is no variable of the program:
 * the addresses of all else stay, and with them the bits of each run. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulator/engine.h"

#define NAMES 1024u
#define LEAST (200 * FGS_NS) /* a shorter wait for a line is not in the trace */

static const char *const groups[] = {"CPUs", "threads", "threads that hold a lock", "threads that wait for a line"};
enum group { CPUS = 1, THREADS, HOLDERS, LINES };

static FILE *out;
static struct seen {
	bool holds;
	fgs_ps held_since, line_until;
} * seen; /* of each thread */
static struct name {
	const struct fgs_line *line;
	char text[96];
} * names; /* NAMES of lines, by the line's number */

int fgs_trace_start(const char *file)
{
	out = fopen(file, "we");
	if (!out) {
		fprintf(stderr, "fg-sim: cannot write trace %s: %s\n", file, strerror(errno));
		return -1;
	}
	seen = calloc(FGS_THREADS, sizeof(*seen));
	names = calloc(NAMES, sizeof(*names));
	if (!seen || !names) {
		fprintf(stderr, "fg-sim: not enough memory for a trace\n");
		return -1;
	}
	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", out);
	for (int i = 0; i < 4; i++)
		fprintf(out, "%s{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"%s\"}}",
			i ? ",\n" : "", i + 1, groups[i]);
	return 0;
}

static void named_span(enum group group, uint32_t row, fgs_ps from, fgs_ps to, const char *name)
{
	fprintf(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"name\":\"%s\"}", (int)group,
		row, (double)from * 1e-6, (double)(to - from) * 1e-6, name);
}

static void span(enum group group, uint32_t row, fgs_ps from, fgs_ps to, const char *name, uint32_t number)
{
	char text[64];

	snprintf(text, sizeof(text), "%s %u", name, number);
	named_span(group, row, from, to, text);
}

void fgs_trace_ran(const struct fgs_cpu *c, const struct fgs_thread *t, fgs_ps from, fgs_ps to)
{
	if (!out || to < from)
		return;
	span(CPUS, c->id, from, to, t->process ? "hog" : "thread", t->id);
	span(THREADS, t->id, from, to, "runs on CPU", c->id);
}

void fgs_trace_waited(const struct fgs_cpu *c, const struct fgs_thread *t, fgs_ps from, fgs_ps to)
{
	if (out && to > from)
		span(THREADS, t->id, from, to, "waits for CPU", c->id);
}

/* Does it hold a lock now, and did it when this was last asked? */
static void look(const struct fgs_thread *t, fgs_ps now)
{
	bool holds = fgs_watch_holds(t);

	if (holds && !seen[t->id].holds)
		seen[t->id].held_since = now;
	else if (!holds && seen[t->id].holds && now > seen[t->id].held_since)
		named_span(HOLDERS, t->id, seen[t->id].held_since, now, "holds a lock");
	seen[t->id].holds = holds;
}

void fgs_trace_held(const struct fgs_thread *t, fgs_ps at, bool holds)
{
	if (!out)
		return;
	look(t, at);
	fprintf(out, ",\n{\"ph\":\"i\",\"s\":\"t\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"name\":\"%s\"}", THREADS, t->id,
		(double)at * 1e-6, holds ? "leaves its CPU with a lock" : "leaves its CPU");
}

/* ---- in the place of others' functions -------------------------------------------------------------------------- */

static void look_here(void)
{
	if (fgs_here && fgs_here->thread && !fgs_here->hosts)
		look(fgs_here->thread, fgs_here->now);
}

uint64_t __real_fgs_counter(void);
uint64_t __wrap_fgs_counter(void);
uint64_t __wrap_fgs_counter(void)
{
	uint64_t found = __real_fgs_counter();

	if (out)
		look_here();
	return found;
}

uint64_t __real_fgs_counter_ordered(void);
uint64_t __wrap_fgs_counter_ordered(void);
uint64_t __wrap_fgs_counter_ordered(void)
{
	uint64_t found = __real_fgs_counter_ordered();

	if (out)
		look_here();
	return found;
}

/* 0: the line is the kernel's. */
static uintptr_t address_of(const struct fgs_line *l)
{
	uintptr_t first = (uintptr_t)__executable_start / 64, last = (uintptr_t)_end / 64;

	if (l >= fgs_arena_lines && l < fgs_arena_lines + FGS_ARENA_BYTES / 64)
		return FGS_ARENA + (uintptr_t)(l - fgs_arena_lines) * 64;
	if (l >= fgs_image_lines && l <= fgs_image_lines + (last - first))
		return (first + (uintptr_t)(l - fgs_image_lines)) * 64;
	return 0;
}

static const char *name_of(const struct fgs_line *l)
{
	size_t i = (uintptr_t)l / sizeof(*l) % NAMES;
	uintptr_t address = address_of(l);

	if (!address)
		return "of the kernel";
	if (names[i].line != l) {
		fgs_symbol(address, names[i].text, sizeof(names[i].text));
		names[i].line = l;
	}
	return names[i].text;
}

fgs_ps __real_fgs_transfer(struct fgs_line *l, uint32_t cpu, enum fgs_access access, fgs_ps start, double part);
fgs_ps __wrap_fgs_transfer(struct fgs_line *l, uint32_t cpu, enum fgs_access access, fgs_ps start, double part);
fgs_ps __wrap_fgs_transfer(struct fgs_line *l, uint32_t cpu, enum fgs_access access, fgs_ps start, double part)
{
	const struct fgs_cpu *c = &fgs_cpus[cpu];
	const struct fgs_thread *t = c->thread;
	fgs_ps done = __real_fgs_transfer(l, cpu, access, start, part), from = c->granted ? c->asked : c->now;

	if (!out || !t || c->hosts)
		return done;
	look(t, from);
	if (from < seen[t->id].line_until) /* a load, which begins while another one is under way */
		from = seen[t->id].line_until;
	if (done < from + LEAST)
		return done;
	named_span(LINES, t->id, from, done, name_of(l));
	seen[t->id].line_until = done;
	return done;
}

void fgs_trace_end(void)
{
	if (!out)
		return;
	fputs("\n]}\n", out);
	fclose(out);
	out = NULL;
}

/* ---- lines ------------------------------------------------------------------------------------------------------ */

struct found {
	const struct fgs_line *line;
	uintptr_t address;
};

static int by_loss(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->line->lost != y->line->lost)
		return x->line->lost < y->line->lost ? 1 : -1;
	return (x->address > y->address) - (x->address < y->address);
}

static void note(struct found *found, uint32_t count, const struct fgs_line *l, uintptr_t address)
{
	if (!l->transfers || l->lost <= (found[count - 1].line ? found[count - 1].line->lost : 0))
		return;
	found[count - 1] = (struct found){l, address};
	for (uint32_t i = count - 1; i && (!found[i - 1].line || by_loss(&found[i], &found[i - 1]) < 0); i--) {
		struct found f = found[i];

		found[i] = found[i - 1];
		found[i - 1] = f;
	}
}

void fgs_lines_print(uint32_t count, uint64_t ops)
{
	struct found *found = calloc(count, sizeof(*found));
	size_t image = (size_t)(_end - __executable_start) / 64 + 1;

	if (!found)
		return;
	for (size_t i = 0; i < image; i++)
		note(found, count, &fgs_image_lines[i], ((uintptr_t)__executable_start / 64 + i) * 64);
	for (uint32_t t = 0; t < fgs_thread_count; t++)
		for (size_t i = t * FGS_STACK / 64; i < (t + 1) * FGS_STACK / 64; i++)
			note(found, count, &fgs_arena_lines[i], FGS_ARENA + i * 64);
	for (size_t i = FGS_STACKS / 64; i < (fgs_heap_end() - FGS_ARENA) / 64; i++)
		note(found, count, &fgs_arena_lines[i], FGS_ARENA + i * 64);
	for (uint32_t i = 0; i < count && found[i].line; i++) {
		const struct fgs_line *l = found[i].line;
		char name[96];

		fgs_symbol(found[i].address, name, sizeof(name));
		fprintf(stderr, "fg-sim: line %-40s lost %10.3f us, %8u transfers, %8u writes", name,
			(double)l->lost * 1e-6, l->transfers, l->writes);
		if (ops)
			fprintf(stderr, ", %7.1f ns an operation", (double)l->lost * 1e-3 / (double)ops);
		fputc('\n', stderr);
	}
	free(found);
}
