/* SPDX-License-Identifier: MIT */
/* What a run leaves besides its result: a trace for Perfetto (Chrome's JSON), and the lines on which most time was
 * lost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulator/engine.h"

static FILE *out;

int fgs_trace_start(const char *file)
{
	out = fopen(file, "we");
	if (!out) {
		fprintf(stderr, "fg-sim: cannot write trace %s: %s\n", file, strerror(errno));
		return -1;
	}
	fputs("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", out);
	fputs("{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"CPUs\"}}", out);
	fputs(",\n{\"ph\":\"M\",\"pid\":2,\"name\":\"process_name\",\"args\":{\"name\":\"threads\"}}", out);
	return 0;
}

static void span(int process, uint32_t row, fgs_ps from, fgs_ps to, const char *name, uint32_t number)
{
	fprintf(out, ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"name\":\"%s %u\"}", process,
		row, (double)from * 1e-6, (double)(to - from) * 1e-6, name, number);
}

void fgs_trace_ran(const struct fgs_cpu *c, const struct fgs_thread *t, fgs_ps from, fgs_ps to)
{
	if (!out || to < from)
		return;
	span(1, c->id, from, to, t->process ? "hog" : "thread", t->id);
	span(2, t->id, from, to, "runs on CPU", c->id);
}

void fgs_trace_waited(const struct fgs_cpu *c, const struct fgs_thread *t, fgs_ps from, fgs_ps to)
{
	if (out && to > from)
		span(2, t->id, from, to, "waits for CPU", c->id);
}

void fgs_trace_held(const struct fgs_thread *t, fgs_ps at, bool holds)
{
	if (!out)
		return;
	fprintf(out, ",\n{\"ph\":\"i\",\"s\":\"t\",\"pid\":2,\"tid\":%u,\"ts\":%.3f,\"name\":\"%s\"}", t->id,
		(double)at * 1e-6, holds ? "leaves its CPU with a lock" : "leaves its CPU");
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
