/* SPDX-License-Identifier: MIT */
/* A signal handler forks after each instruction of what takes and gives back nodes (runtime/node.h), and the call goes
 * on in the child: no node is there for two. */
#include "runtime/node.h"

#include <signal.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "runtime/thread.h"
#include "tests/check.h"

#define NODES 24

static uint64_t tail;
static int traps_left;
static pid_t child = -1;

static void on_trap(int number, siginfo_t *info, void *context)
{
	(void)number, (void)info;
	if (--traps_left == 0) {
		child = fork();
		CHECK(child >= 0);
	}
	if (traps_left <= 0)
		((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)0x100;
}

/* What is taken now is different, and not held. */
static void check_distinct(struct fg_queue_node *const held[], int number)
{
	struct fg_queue_node *taken[NODES];

	for (int i = 0; i < NODES; i++) {
		taken[i] = fgi_node_need(&tail);
		for (int k = 0; k < i; k++)
			CHECK(taken[i] != taken[k], "%d and %d are one node", i, k);
		for (int k = 0; k < number; k++)
			CHECK(taken[i] != held[k], "it is held");
	}
	for (int i = 0; i < NODES; i++)
		fgi_node_put(taken[i]);
}

/* From and to this thread's stack and the pool, and new ones. `held` is what it has in the end. */
static void take_and_give(struct fg_queue_node *held[3])
{
	struct fg_queue_node *first = fgi_node_need(&tail), *second = fgi_node_get(&tail), *other = held[0];

	fgi_node_put_in_pool(first);
	fgi_node_put(second);
	other->owner = 1; /* of a thread that gave it to this one, as clh's do */
	fgi_node_put(other);
	for (int i = 0; i < 3; i++)
		held[i] = fgi_node_need(&tail);
}

static bool interrupted(int n)
{
	struct fg_queue_node *held[3] = {fgi_node_need(&tail)};
	uint32_t used = fgi_nodes_used();
	bool happened;
	int status;

	traps_left = n;
	__asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
	take_and_give(held);
	__asm__ volatile("pushfq\n andq $~0x100, (%%rsp)\n popfq" ::: "memory", "cc");
	happened = traps_left <= 0;
	if (child == 0) {
		check_watchdog(500);
		check_distinct(held, 3);
		CHECK(fgi_nodes_used() <= used + NODES + 3, "nodes are lost: %u, and %u before", fgi_nodes_used(),
		      used);
		_exit(0);
	}
	if (happened) {
		CHECK_IS(waitpid(child, &status, 0), child);
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "after %d: the child failed: %x", n,
		      (unsigned int)status);
		child = -1;
	}
	for (int i = 0; i < 3; i++)
		fgi_node_put(held[i]);
	return happened;
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	int n = 1;

	check_watchdog(500);
	CHECK_IS(sigaction(SIGTRAP, &action, NULL), 0);
	while (interrupted(n))
		n++;
	CHECK(n > 100, "only %d instructions", n);
	return 0;
}
