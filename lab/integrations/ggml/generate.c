/* SPDX-License-Identifier: MIT */
/* Generates tokens with a model, by llama.cpp. Prints tokens a second, the 50th and the 99th percentile of their times,
 * and the CPU time that a second took. Ends after a token. Fails if a token is not that of one thread.
 *
 *   generate MODEL THREADS SECONDS
 *
 * Texts of LENGTH tokens, one after the other, each from the same first token: the likeliest token follows. The threads
 * are a pool that lives as long as the program, as llama.cpp's own programs have it. */
#include <llama.h>

#include "steps.h"

#define LENGTH 64

static struct llama_context *context;
static int tokens;

static void say_only_errors(enum ggml_log_level level, const char *said, void *unused)
{
	(void)unused;
	if (level == GGML_LOG_LEVEL_ERROR)
		fputs(said, stderr);
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

static void measure(int threads, double seconds)
{
	llama_token expected[LENGTH], token = 1;
	int at = 0;

	use(new_pool(1), 1);
	for (int i = 0; i < LENGTH; i++)
		token = expected[i] = next(token, i);
	use(new_pool(threads), threads);
	begin_steps(seconds);
	do {
		token = next(at ? token : 1, at);
		if (token != expected[at]) {
			fprintf(stderr, "generate: token %d is not that of one thread\n", at);
			exit(1);
		}
		at = (at + 1) % LENGTH;
	} while (go_on());
	print_steps("model", threads);
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
