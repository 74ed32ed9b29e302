/* SPDX-License-Identifier: MIT */
/* Simulated threads: fibers of one host thread. Each has a stack of its own, and the thread-local variables of a host
 * thread that is made for it and sleeps for ever; to switch is to change the stack pointer and the base of FS.
 *
 * The host thread's stack, with its thread-local variables on top, is at a fixed address, too. */
#include <errno.h>
#include <linux/rseq.h>
#include <pthread.h>
#include <semaphore.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simulator/engine.h"
#include "simulator/host.h"

#define HOST_PART 0x8000u /* of a thread's slot in the arena: the sleeping host thread's */
#define GUARD 0x1000u

#ifndef HWCAP2_FSGSBASE
#define HWCAP2_FSGSBASE 2
#endif

#define RSEQ_SIGNATURE 0x53053053 /* glibc's, on x86 */

extern const ptrdiff_t __rseq_offset __attribute__((weak));
extern const unsigned int __rseq_size __attribute__((weak));

static void *engine_stack_pointer;
static sem_t never, ready;

void fgs_swap(void **save, void *to, uint64_t thread_pointer);
__asm__(".text\n"
	".globl fgs_swap\n"
	"fgs_swap:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	push %r12\n"
	"	push %r13\n"
	"	push %r14\n"
	"	push %r15\n"
	"	mov %rsp, (%rdi)\n"
	"	mov %rsi, %rsp\n"
	"	test %rdx, %rdx\n"
	"	jz 1f\n"
	"	wrfsbase %rdx\n"
	"1:	pop %r15\n"
	"	pop %r14\n"
	"	pop %r13\n"
	"	pop %r12\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n");

static uint64_t engine_thread_pointer;

void fgs_fibers_start(void)
{
	if (!(getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE))
		fgs_fail("this CPU or its kernel cannot change the base of FS in user mode (Linux 5.9 and later can)");
	__asm__ volatile("rdfsbase %0" : "=r"(engine_thread_pointer));
	__real_sem_init(&never, 0, 0);
	__real_sem_init(&ready, 0, 0);
}

void fgs_switch_to(struct fgs_thread *t)
{
	fgs_swap(&engine_stack_pointer, t->stack_pointer, t->thread_pointer);
}

void fgs_switch_back(struct fgs_thread *t)
{
	fgs_swap(&t->stack_pointer, engine_stack_pointer, engine_thread_pointer);
}

/* The kernel must not write the host thread's CPU there: the simulator writes the virtual one. */
static void leave_rseq(void)
{
	if (&__rseq_size && __rseq_size &&
	    __real_syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, 32, RSEQ_FLAG_UNREGISTER,
			   RSEQ_SIGNATURE))
		fgs_fail("cannot take the restartable-sequences area from a host thread: %s", strerror(errno));
}

static void *lend(void *argument)
{
	struct fgs_thread *t = argument;

	leave_rseq();
	t->thread_pointer = (uint64_t)(uintptr_t)__builtin_thread_pointer();
	__real_sem_post(&ready);
	for (;;)
		__real_sem_wait(&never);
	return NULL;
}

static void begin(void)
{
	struct fgs_thread *t = fgs_self();

	t->result = t->body(t->argument);
	fgs_thread_ends();
}

static void borrow_thread(struct fgs_thread *t, char *slot)
{
	pthread_attr_t attributes;
	pthread_t host;

	pthread_attr_init(&attributes);
	if (pthread_attr_setstack(&attributes, slot + FGS_STACK - HOST_PART, HOST_PART) ||
	    __real_pthread_create(&host, &attributes, lend, t))
		fgs_fail("cannot make host thread %u, whose thread-local variables a simulated one needs", t->id + 1);
	pthread_attr_destroy(&attributes);
	while (__real_sem_wait(&ready))
		;
}

struct fgs_thread *fgs_thread_new(void *(*body)(void *), void *argument, uint32_t process)
{
	static struct fgs_thread threads[FGS_THREADS];
	struct fgs_thread *t;
	char *slot;
	void **top;

	if (fgs_thread_count == FGS_THREADS)
		return NULL;
	t = &threads[fgs_thread_count];
	slot = (char *)FGS_ARENA + fgs_thread_count * FGS_STACK;
	*t = (struct fgs_thread){
		.id = fgs_thread_count,
		.process = process,
		.state = FGS_SLEEPING,
		.body = body,
		.argument = argument,
		.slack = fgs_cost(FGS_slack),
		.slice = fgs_cost(FGS_slice),
	};
	memset(&t->allowed, 0xff, sizeof(t->allowed));
	borrow_thread(t, slot);
	mprotect(slot, GUARD, PROT_NONE);
	top = (void **)(void *)(slot + FGS_STACK - HOST_PART - 64);
	*--top = NULL;
	*--top = (void *)begin;
	t->stack_pointer = top - 6;
	fgs_threads[fgs_thread_count++] = t;
	return t;
}
