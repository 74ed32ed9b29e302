/* SPDX-License-Identifier: MIT */
/* What a driver of fg-check brings, and what it calls. It is instrumented: each of its accesses is a step, too. */
#ifndef FGS_CHECK_H
#define FGS_CHECK_H

#include <stdbool.h>
#include <stdint.h>

struct fgs_driver {
	const char *name;
	void (*begin)(unsigned int threads); /* before the threads start */
	void (*thread)(unsigned int index);
	void (*end)(unsigned int threads); /* after they have ended */
};

/* Ends with {NULL}. The first is checked if the command line names none. */
extern const struct fgs_driver fgs_drivers[];

/* 64 bits of the schedule's own. */
uint64_t fgs_random(void);

/* A thread has got on: what is watched is that one does. */
void fgs_check_progress(void);

/* All threads may sleep for so long until a timeout of their own wakes one. */
void fgs_check_stall(uint64_t us);

/* The number at `word` changes at any step: the count of preempted holders of a monitor that may be wrong. */
void fgs_check_flip(uint32_t *word);

/* The thread of this index has bad luck: where another can go on, it goes on only while `busy` is not 0, or has been 0
 * for a while. Each thread of a schedule of this kind goes on again and again. */
void fgs_check_unlucky(unsigned int index, const uint64_t *busy);

/* The first thread has called fork: this is the child, of which the others are no part. It ends with fgs_check_end. */
void fgs_check_fork(void);
void fgs_check_end(void) __attribute__((noreturn));

/* How often a futex was woken. */
uint64_t fgs_check_wakes(void);

/* Queue nodes (runtime/node.h) are watched (I3): from `first` on, so many. The pool may write to those that are free;
 * the calling thread says when it is in one of the pool's functions, and whether it is to get a node there. */
struct fg_queue_node;
enum fgs_pool { FGS_OUTSIDE, FGS_GETS, FGS_GIVES };
void fgs_check_nodes(const struct fg_queue_node *first, unsigned int count);
void fgs_check_pool(enum fgs_pool in);

/* Ends the schedule with a message. */
void fgs_fail(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#define FGS_CHECK(condition, ...)                                                                                      \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			fgs_fail(__VA_ARGS__);                                                                         \
	} while (0)

#endif
