/* SPDX-License-Identifier: MIT */
/* The accounts of u-scl: weights of threads that wait, also after a fork; long bans; locks at an address of earlier
 * ones. */
#include FGI_LOCK_FILE

#include "tests/check.h"

#define WAITERS 4
#define CHANGES 50000

static struct lock_slice slice;
static struct fg_lock lock;

static void *come_and_go(void *unused)
{
	for (int i = 0; i < CHANGES; i++) {
		change_weights(&slice, 262144, 0);
		change_weights(&slice, 0, 262144);
	}
	return unused;
}

static void no_weight_is_lost(void)
{
	pthread_t thread[WAITERS];

	change_weights(&slice, 7, 0);
	for (int i = 0; i < WAITERS; i++)
		thread[i] = check_thread(come_and_go, NULL);
	for (int i = 0; i < WAITERS; i++)
		check_join(thread[i]);
	CHECK_IS(waiting_weights(&slice), 7);
}

/* As many waiters of the greatest weight as a machine has threads. */
static void weights_do_not_reach_the_name_of_the_process(void)
{
	slice.waiting = 0;
	for (int i = 0; i < 4000000; i++)
		change_weights(&slice, 22737367, 0);
	CHECK_IS(waiting_weights(&slice), UINT64_C(22737367) * 4000000);
}

/* The parent's waiters do not count in the child, and those that come there do; one that goes without having come, as
 * after a fork in a signal handler, takes nothing away. */
static void a_child_begins_anew(void)
{
	fgi_forks += 2;
	CHECK_IS(waiting_weights(&slice), 0);
	change_weights(&slice, 0, 5);
	CHECK_IS(waiting_weights(&slice), 0);
	change_weights(&slice, 5, 0);
	CHECK_IS(waiting_weights(&slice), 5);
	fgi_forks -= 2;
	CHECK_IS(waiting_weights(&slice), 0);
}

/* 100 s beside ten waiters of nice -20: the product of time and weights has more than 64 bits. */
static void a_long_section_is_charged_in_full(void)
{
	struct account account = {.begin_ns = 1, .due_ns = 1};
	uint64_t ns = UINT64_C(100000000000), times = UINT64_C(227373670) / my_weight();

	charge(&account, 1, 1 + ns, 227373670);
	CHECK(account.banned_until_ns > ns * times && account.banned_until_ns < ns * (times + 2), "%lu ns",
	      (unsigned long)account.banned_until_ns);
}

static void a_new_lock_has_a_new_account(void)
{
	struct account *old;

	slice.born_ns = 1;
	old = account_of(&lock, &slice);
	old->banned_until_ns = 99;
	CHECK_IS(account_of(&lock, &slice)->banned_until_ns, 99);
	slice.born_ns = 2;
	CHECK_IS(account_of(&lock, &slice)->banned_until_ns, 0);
}

int main(void)
{
	no_weight_is_lost();
	weights_do_not_reach_the_name_of_the_process();
	a_child_begins_anew();
	a_long_section_is_charged_in_full();
	a_new_lock_has_a_new_account();
	return 0;
}
