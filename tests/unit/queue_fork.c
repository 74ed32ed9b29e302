/* SPDX-License-Identifier: MIT */
/* A signal handler forks just after a thread has looked at the tag of a queue's tail: the child takes the lock,
 * releases it and takes it again, as the parent does. TAKE is the lock's function that queues, PASSIVE the lock if it
 * has a list of waiters beside the queue. And the tags of many forks in a row. */
#include "locks/parts/mcs_queue.h"

#include <sys/wait.h>

#include "tests/check.h"

static bool armed;
static pid_t child = -1;

static uint64_t fork_if(bool *wanted, uint64_t tag)
{
	if (*wanted) {
		*wanted = false;
		child = fork();
		CHECK(child >= 0);
		check_watchdog(500); /* the child inherits none */
	}
	return tag;
}

#define fgi_tail_mind_fork(tail, holder) fork_if(&armed, fgi_tail_mind_fork(tail, holder))
#ifdef PASSIVE
static bool armed_later;
#define fgi_queue_replace_last(...) (fork_if(&armed_later, 0), fgi_queue_replace_last(__VA_ARGS__))
#endif
#include FGI_LOCK_FILE

#ifndef TAKE
#define TAKE fgi_lock
#endif

static struct fg_lock lock;

static void check_free(void)
{
	CHECK(fgi_trylock(&lock), "not free");
	fgi_unlock(&lock);
}

static void both_are_well(void)
{
	int status;

	if (child == 0)
		_exit(0);
	CHECK_IS(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child failed: %x", (unsigned int)status);
	child = -1;
}

static void forks_while_it_takes(void)
{
	armed = true;
	TAKE(&lock);
	CHECK(!armed, "it did not look at the tail");
	fgi_unlock(&lock);
	check_free();
	both_are_well();
}

static void forks_while_it_releases(void)
{
	TAKE(&lock);
	armed = true;
	fgi_unlock(&lock);
	armed = false; /* some look only when they queue */
	check_free();
	if (child >= 0)
		both_are_well();
}

static void forks_as_the_head(void)
{
	static uint64_t tail;
	struct fg_queue_node *node = fgi_queue_join(&tail);

	armed = true;
	fork_if(&armed, 0);
	CHECK(fgi_queue_leave(&tail, node), "it was the head");
	CHECK_IS(tail, 0);
	both_are_well();
}

/* The tail that a child of the depth 65,535 leaves to its own child names no thread there. */
static void no_depth_is_without_tag(void)
{
	const uint32_t before = fgi_forks;
	static uint64_t tail;
	struct fg_queue_node *node = fgi_node_need(&tail);

	for (uint32_t depth = 65534; depth < 65538; depth++) {
		fgi_forks = 2 * depth;
		tail = fgi_tail_word(node);
		fgi_forks += 2;
		fgi_tail_mind_fork(&tail, NULL);
		CHECK_IS(tail, 0);
	}
	fgi_forks = before;
	fgi_node_put(node);
}

#ifdef PASSIVE
#define malthusian 1
#define cna 2
static void make_it_passive(struct fg_queue_node *holder, struct fg_queue_node *node)
{
#if PASSIVE == malthusian
	struct fg_queue_node *youngest = NULL;

	make_passive(&youngest, node);
	node_private(holder)->youngest = fgi_node_word(youngest);
#else
	node_private(node)->last = fgi_node_word(node);
	node_private(holder)->second = fgi_node_word(node);
#endif
}

/* There, a waiter that stays behind in the parent gets the lock, and the next thread finds that it is not there. */
static void forks_beside_a_passive_waiter(void)
{
	struct fg_queue_node *other = fgi_node_need(&lock.tail);

	TAKE(&lock);
	make_it_passive(fgi_node_at(lock.holder), other);
	armed_later = true;
	fgi_unlock(&lock);
	CHECK(!armed_later, "the passive waiter does not come back");
	CHECK_IS(other->state, FG_NODE_GRANTED);
	if (child == 0)
		check_free();
	both_are_well();
}
#endif

int main(void)
{
	check_watchdog(500);
	forks_while_it_takes();
	forks_while_it_releases();
	forks_as_the_head();
	no_depth_is_without_tag();
#ifdef PASSIVE
	forks_beside_a_passive_waiter();
#endif
	return 0;
}
