/* SPDX-License-Identifier: MIT */
/* Who leaves the queue as its head is told so: load control's head must not sleep in a slot, in which no release wakes
 * it. */
#include FGI_LOCK_FILE

#include "tests/check.h"

static uint64_t tail;
static struct fg_queue_node *head;
static bool joined;

static void *wait_behind_the_head(void *unused)
{
	struct fg_queue_node *node = fgi_queue_join(&tail);

	CHECK_IS(fgi_queue_state(node), FG_NODE_WAITING);
	CHECK(!fgi_queue_leave(&tail, node), "it was not the head");
	return unused;
}

/* While it looks elsewhere the head leaves. */
static void *become_the_head(void *unused)
{
	struct fg_queue_node *node = fgi_queue_join(&tail);

	fg_store_release(&joined, true);
	fgi_node_spin(node);
	CHECK(fgi_queue_leave(&tail, node), "it had become the head");
	return unused;
}

int main(void)
{
	pthread_t thread;

	head = fgi_queue_join(&tail);
	CHECK_IS(fgi_queue_state(head), FG_NODE_GRANTED);
	check_join(check_thread(wait_behind_the_head, NULL));
	CHECK(fgi_queue_leave(&tail, head), "it was the head");
	CHECK_IS(tail, 0);
	head = fgi_queue_join(&tail);
	thread = check_thread(become_the_head, NULL);
	while (!fg_load_acquire(&joined))
		fgi_spin_once();
	CHECK(fgi_queue_leave(&tail, head), "it was the head again");
	check_join(thread);
	CHECK_IS(tail, 0);
	return 0;
}
