/* SPDX-License-Identifier: MIT */
/* What steps.py judges after each instruction: the operations with windows; or, with FGI_LOCK_FILE, a lock whose intent
 * is published. */
#ifdef FGI_LOCK_FILE
#include FGI_LOCK_FILE

#include "tests/unit/scenarios.h"
#else
#include "runtime/arch/arch.h"

__thread struct fg_thread_block fg_thread;
#endif

#include "tests/check.h"

/* The thread owns the lock, or must count as critical, while (*word & mask) == value, unless *but == but_value. The
 * words are steps.py's to read: all are of 64 bits. */
struct truth {
	const uint64_t *word;
	uint64_t mask, value;
	const uint64_t *but;
	uint64_t but_value;
};

extern const struct fgi_window_entry __start_fg_windows[] __attribute__((weak));
extern const struct fgi_window_entry __stop_fg_windows[] __attribute__((weak));

struct {
	const struct fg_thread_block *block;
	const struct fgi_window_entry *windows, *windows_end;
	uint64_t truths;
	struct truth truth[4];
} judged;

static uint64_t sink;

/* steps.py stops here, and steps until the next of these. */
__attribute__((noinline)) void step_from_here(const char *scene)
{
	sink += (uint64_t)(uintptr_t)scene;
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) void step_to_here(void)
{
	__asm__ volatile("" ::: "memory");
}

#ifdef FGI_LOCK_FILE

#ifdef FGI_PARTS_LOAD_SAMPLER_H
/* The emulator's debugger serves one thread, so none samples the load: it is unknown. */
void fgi_load_sampler_start(struct fgi_load_sampler *s)
{
	s->on_sample(FGI_LOAD_UNKNOWN);
}

void fgi_load_sampler_wake(struct fgi_load_sampler *s)
{
	fg_store_relaxed(&s->wanted, 1);
}
#endif

static void run(const char *name, void (*scenario)(void))
{
	step_from_here(name);
	scenario();
	step_to_here();
}

static void *keep_busy(void *unused)
{
	(void)unused;
	fgi_lock(&busy);
	return NULL;
}

static void scenes(void)
{
	uint32_t self = fgi_self();

	check_join(check_thread(keep_busy, NULL));
	for (size_t i = 0; i < sizeof(locks) / sizeof(locks[0]); i++)
		judged.truth[judged.truths++] =
			(struct truth){(const uint64_t *)(const void *)locks[i], FG_OWNER_MASK, self, NULL, 0};
	run("alone", alone);
	run("nested", nested);
	run("crossed", crossed);
	run("three", three);
	run("refused", refused);
	(void)given_up;
}

#else

/* 32 bits of which are the word of a lock. */
static union {
	uint64_t word64;
	uint32_t word32;
} lock;
static struct fg_queue_node mine, before;

#define MINE 0x7001u
#define OTHERS 0x7002u

static void owned_while(const uint64_t *word, uint64_t value)
{
	judged.truths = 1;
	judged.truth[0] = (struct truth){word, UINT64_MAX, value, NULL, 0};
}

/* One operation, from a word of `word` and `held`; it must end with the other values. */
#define SCENE(name, word, held_before, word_after, held_after, ...)                                                    \
	do {                                                                                                           \
		lock.word64 = word;                                                                                    \
		fg_thread.held = held_before;                                                                          \
		step_from_here(name);                                                                                  \
		__VA_ARGS__;                                                                                           \
		step_to_here();                                                                                        \
		CHECK_IS(lock.word64, (uint64_t)(word_after));                                                         \
		CHECK_IS(fg_thread.held, held_after);                                                                  \
	} while (0)

static void takes(void)
{
	owned_while(&lock.word64, MINE);
	SCENE("take_cas32", 0, 0, MINE, 1, CHECK_IS(fgi_take_cas32(&lock.word32, MINE), 0u));
	SCENE("take_cas32 of a lock that is held", OTHERS, 0, OTHERS, 0,
	      CHECK_IS(fgi_take_cas32(&lock.word32, MINE), OTHERS));
	SCENE("take_cas64", 0, 0, MINE, 1, CHECK_IS(fgi_take_cas64(&lock.word64, MINE), 0u));
	SCENE("take_cas64 of a lock that is held", 1ull << 40, 0, 1ull << 40, 0,
	      CHECK_IS(fgi_take_cas64(&lock.word64, MINE), 1ull << 40));
	SCENE("take_xchg32", 0, 0, MINE, 1, CHECK_IS(fgi_take_xchg32(&lock.word32, MINE), 0u));
	judged.truth[0].value = UINT64_MAX; /* what it stores does not say who owns the lock */
	SCENE("take_xchg32 of a lock that is held", OTHERS, 0, MINE, 0,
	      CHECK_IS(fgi_take_xchg32(&lock.word32, MINE), OTHERS));
}

static void drops(void)
{
	owned_while(&lock.word64, MINE);
	SCENE("drop_xchg32", MINE, 1, 0, 0, CHECK_IS(fgi_drop_xchg32(&lock.word32, 0), MINE));
	SCENE("drop_store32", MINE, 1, 0, 0, fgi_drop_store32(&lock.word32, 0));
	SCENE("drop_cas32", MINE, 1, 0, 0, CHECK_IS(fgi_drop_cas32(&lock.word32, MINE, 0), MINE));
	SCENE("drop_cas64", MINE, 1, 0, 0, CHECK_IS(fgi_drop_cas64(&lock.word64, MINE, 0), MINE));
	owned_while(&lock.word64, OTHERS);
	SCENE("drop_cas32 that is refused", OTHERS, 1, OTHERS, 1,
	      CHECK_IS(fgi_drop_cas32(&lock.word32, MINE, 0), OTHERS));
	SCENE("drop_cas64 that is refused", OTHERS, 1, OTHERS, 1,
	      CHECK_IS(fgi_drop_cas64(&lock.word64, MINE, 0), OTHERS));
}

/* As the head of the queue, and while it is cut. */
static void enqueues(void)
{
	const uint64_t tag = 1ull << 56, me = (uint64_t)(uintptr_t)&mine + tag;

	owned_while(&lock.word64, me);
	fg_thread.node = (uint64_t)(uintptr_t)&mine;
	mine.state = FG_NODE_WAITING;
	SCENE("enqueue as the head", 0, 0, me, 0, fgi_enqueue(&lock.word64, &mine, tag));
	CHECK_IS(mine.state, (uint32_t)FG_NODE_GRANTED);
	mine.state = FG_NODE_WAITING;
	judged.truth[0].but = &before.next;
	judged.truth[0].but_value = (uint64_t)(uintptr_t)&mine;
	SCENE("enqueue behind another", (uint64_t)(uintptr_t)&before + tag, 0, me, 0,
	      fgi_enqueue(&lock.word64, &mine, tag));
	CHECK_IS(mine.state, (uint32_t)FG_NODE_WAITING);
	CHECK_IS(before.next, (uint64_t)(uintptr_t)&mine);
}

static void scenes(void)
{
	takes();
	drops();
	enqueues();
}

#endif

int main(void)
{
	judged.block = &fg_thread;
	judged.windows = __start_fg_windows;
	judged.windows_end = __stop_fg_windows;
	scenes();
	return 0;
}
