/* SPDX-License-Identifier: MIT */
/* Computes a graph of ggml's again and again, on its CPU backend. Prints graphs a second, the 50th and the 99th
 * percentile of their times, and the CPU time that a second took. Ends after a graph. Fails if a result is not
 * that of one thread.
 *
 *   graph KIND [THREADS [SECONDS]]
 *
 * KIND:
 *   small  40 products of a matrix of 64 by 128 and a vector: barriers take most of the time
 *   token  four layers as a language model has them: products with 512 by 512 and 512 by 1,408, and norms; between two
 *          graphs the first thread works alone for 100 us, as what chooses the next token does
 * Matrices are of 4 bits a value (Q4_0). */
#include <ggml.h>
#include <string.h>

#include "steps.h"

#define MEMORY (64u << 20)
#define WIDTH 512
#define WIDER 1408
#define LAYERS 4
#define ALONE_NS 100000u

static float next_value(void)
{
	static uint32_t state = 1;

	state = state * 1664525u + 1013904223u;
	return (float)(state >> 8) / (float)(1u << 23) - 1;
}

static struct ggml_tensor *times_matrix(struct ggml_context *context, struct ggml_tensor *vector, int64_t rows)
{
	const int64_t columns = vector->ne[0];
	struct ggml_tensor *matrix = ggml_new_tensor_2d(context, GGML_TYPE_Q4_0, columns, rows);
	float *values = malloc(sizeof(*values) * (size_t)(columns * rows));

	if (!values)
		exit(1);
	for (int64_t i = 0; i < columns * rows; i++)
		values[i] = next_value() / 8;
	ggml_quantize_chunk(GGML_TYPE_Q4_0, values, matrix->data, 0, rows, columns, NULL);
	free(values);
	return ggml_mul_mat(context, matrix, vector);
}

static struct ggml_tensor *small_graph(struct ggml_context *context, struct ggml_tensor *v)
{
	for (int i = 0; i < 20; i++) {
		v = times_matrix(context, v, 128);
		v = times_matrix(context, ggml_rms_norm(context, v, 1e-5f), 64);
	}
	return v;
}

static struct ggml_tensor *token_graph(struct ggml_context *context, struct ggml_tensor *v)
{
	for (int i = 0; i < LAYERS; i++) {
		struct ggml_tensor *in = ggml_rms_norm(context, v, 1e-5f), *factor;

		for (int j = 0; j < 4; j++)
			in = times_matrix(context, in, WIDTH);
		v = ggml_add(context, v, in);
		in = ggml_rms_norm(context, v, 1e-5f);
		factor = ggml_silu(context, times_matrix(context, in, WIDER));
		in = ggml_mul(context, factor, times_matrix(context, in, WIDER));
		v = ggml_add(context, v, times_matrix(context, in, WIDTH));
	}
	return v;
}

static void compute(struct ggml_cgraph *graph, int threads, struct ggml_threadpool *pool)
{
	struct ggml_cplan plan = ggml_graph_plan(graph, threads, pool);
	static uint8_t *work;
	static size_t has;

	if (plan.work_size > has) {
		free(work);
		has = plan.work_size;
		work = malloc(has);
	}
	plan.work_data = work;
	if (ggml_graph_compute(graph, &plan) != GGML_STATUS_SUCCESS)
		exit(1);
}

/* Work of the first thread alone, by its own CPU time. */
static void choose(void)
{
	struct timespec t;
	uint64_t begin = 0, now;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
		now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
		begin = begin ? begin : now;
	} while (now - begin < ALONE_NS);
}

static void measure(struct ggml_cgraph *graph, const struct ggml_tensor *result, const char *kind, int threads,
		    double seconds)
{
	struct ggml_threadpool *one = new_pool(1), *pool = new_pool(threads);
	const size_t bytes = ggml_nbytes(result);
	void *expected = malloc(bytes);

	compute(graph, 1, one);
	if (!expected)
		exit(1);
	memcpy(expected, result->data, bytes);
	begin_steps(seconds);
	do {
		memset(result->data, 0, bytes);
		compute(graph, threads, pool);
		if (memcmp(expected, result->data, bytes) != 0) {
			fprintf(stderr, "graph: a result is not that of one thread\n");
			exit(1);
		}
		if (strcmp(kind, "token") == 0)
			choose();
	} while (go_on());
	print_steps(kind, threads);
}

int main(int argc, char **argv)
{
	struct ggml_init_params memory = {MEMORY, NULL, false};
	const char *kind = argc > 1 ? argv[1] : "";
	int threads = argc > 2 ? atoi(argv[2]) : 2, small = strcmp(kind, "small") == 0;
	double seconds = argc > 3 ? atof(argv[3]) : 1;
	struct ggml_context *context;
	struct ggml_cgraph *graph;
	struct ggml_tensor *vector;

	if ((!small && strcmp(kind, "token") != 0) || threads < 1 || !(seconds > 0)) {
		fprintf(stderr, "usage: %s small|token [THREADS [SECONDS]]\n", argv[0]);
		return 2;
	}
	ggml_cpu_init();
	context = ggml_init(memory);
	graph = ggml_new_graph(context);
	vector = ggml_new_tensor_1d(context, GGML_TYPE_F32, small ? 64 : WIDTH);
	for (int64_t i = 0; i < vector->ne[0]; i++)
		((float *)vector->data)[i] = next_value();
	vector = small ? small_graph(context, vector) : token_graph(context, vector);
	ggml_build_forward_expand(graph, vector);
	measure(graph, vector, kind, threads, seconds);
	return 0;
}
