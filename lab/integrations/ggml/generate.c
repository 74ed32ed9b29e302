/* SPDX-License-Identifier: MIT */
/* Generates tokens with a model, by llama.cpp. Prints tokens a second, the 50th and the 99th percentile of their times,
 * and the CPU time that a second took. Ends after a token. Fails if a token is not that of one thread.
 *
 *   generate MODEL THREADS SECONDS
 *
 * Texts of LENGTH tokens, one after the other, each from the same first token: the likeliest token follows. The threads
 * are a pool that lives as long as the program, as llama.cpp's own programs have it. */
#include <ggml-cpu.h>
#include <llama.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#define LENGTH 64
#define MOST_TOKENS 1000000u

static struct llama_context *context;
static int tokens;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static int by_size(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void say_only_errors(enum ggml_log_level level, const char *said, void *unused)
{
	(void)unused;
	if (level == GGML_LOG_LEVEL_ERROR)
		fputs(said, stderr);
}

static struct ggml_threadpool *new_pool(int threads)
{
	struct ggml_threadpool_params p = ggml_threadpool_params_default(threads);
	struct ggml_threadpool *pool = ggml_threadpool_new(&p);

	if (!pool)
		exit(1);
	return pool;
}

static void use(struct ggml_threadpool *pool, int threads)
{
	llama_attach_threadpool(context, pool, pool);
	llama_set_n_threads(context, threads, threads);
}

/* The token at place `at` of a text, which follows `token`. */
static llama_token next(llama_token token, int at)
{
	const float *logits;
	llama_token best = 0;

	if (at == 0)
		llama_memory_clear(llama_get_memory(context), true);
	if (llama_decode(context, llama_batch_get_one(&token, 1)) != 0)
		exit(1);
	logits = llama_get_logits_ith(context, -1);
	for (int i = 1; i < tokens; i++)
		best = logits[i] > logits[best] ? i : best;
	return best;
}

static uint64_t took[MOST_TOKENS];

static void measure(int threads, double seconds)
{
	llama_token expected[LENGTH], token = 1;
	uint64_t begin, end, last;
	uint32_t n = 0;
	double cpu;

	use(new_pool(1), 1);
	for (int i = 0; i < LENGTH; i++)
		token = expected[i] = next(token, i);
	use(new_pool(threads), threads);
	cpu = cpu_seconds();
	begin = last = now_ns();
	end = begin + (uint64_t)(seconds * 1e9);
	for (; last < end && n < MOST_TOKENS; n++) {
		const int at = (int)(n % LENGTH);
		const uint64_t before = last;

		token = next(at ? token : 1, at);
		if (token != expected[at]) {
			fprintf(stderr, "generate: token %d is not that of one thread\n", at);
			exit(1);
		}
		last = now_ns();
		took[n] = last - before;
	}
	cpu = cpu_seconds() - cpu;
	qsort(took, n, sizeof(*took), by_size);
	printf("model,%d,%.1f,%.1f,%.1f,%.2f\n", threads, n / ((double)(last - begin) / 1e9), (double)took[n / 2] / 1e3,
	       (double)took[n - 1 - n / 100] / 1e3, cpu / ((double)(last - begin) / 1e9));
}

int main(int argc, char **argv)
{
	struct llama_model_params of_model = llama_model_default_params();
	struct llama_context_params of_context = llama_context_default_params();
	struct llama_model *model;

	if (argc != 4 || atoi(argv[2]) < 1 || !(atof(argv[3]) > 0)) {
		fprintf(stderr, "usage: %s MODEL THREADS SECONDS\n", argv[0]);
		return 2;
	}
	llama_log_set(say_only_errors, NULL);
	llama_backend_init();
	model = llama_model_load_from_file(argv[1], of_model);
	of_context.n_ctx = 2 * LENGTH;
	of_context.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED; /* its sums depend on the number of threads */
	context = model ? llama_init_from_model(model, of_context) : NULL;
	if (!context)
		return 1;
	tokens = llama_vocab_n_tokens(llama_model_get_vocab(model));
	measure(atoi(argv[2]), atof(argv[3]));
	return 0;
}
