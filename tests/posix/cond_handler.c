/* SPDX-License-Identifier: MIT */
/* A signal handler of the waiting thread signals or broadcasts the condition variable on which that thread waits. POSIX
 * does not allow it, and programs do it. Here it happens at every few instructions of a wait. The wait ends, by its
 * deadline at the latest, and no other thread loses its wake-up. The same in an unlock of the mutex. */
#include <limits.h>
#include <signal.h>
#include <ucontext.h>

#include "tests/posix/posix.h"

#define TRAP_FLAG 0x100

/* The CPU traps after each instruction of a call, and after a chosen one of them something happens in the handler. */
static int traps_left;
static bool trapping;
static int (*in_trap)(void); /* returns after how many traps it happens again; 0: that is all */

static void on_trap(int number, siginfo_t *info, void *context)
{
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

	(void)number, (void)info;
	if (trapping && --traps_left == 0) {
		traps_left = in_trap();
		trapping = traps_left != 0;
	}
	if (!trapping) /* the rest at full speed */
		*flags &= ~(greg_t)TRAP_FLAG;
}

static void handle_traps(void)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};

	ok(sigaction(SIGTRAP, &action, NULL));
}

/* Before the call, and behind it: did it happen? The flag takes effect after the next instruction; the handler clears
 * it again. */
static inline void trap_after(int instructions, int (*run)(void))
{
	traps_left = instructions;
	in_trap = run;
	trapping = true;
	__asm__ volatile("pushfq\n orq $0x100, (%%rsp)\n popfq" ::: "memory", "cc");
}

static inline bool has_trapped(void)
{
	trapping = false;
	return traps_left == 0;
}

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER, d = PTHREAD_COND_INITIALIZER, *woken = &c;
static int stride;       /* instructions from one to the next */
static int released, at; /* under the mutex: the other thread's waits that are over; so many wait now */
static bool over;
static const struct timespec gone = {1, 0};

static int signals(void)
{
	ok(pthread_cond_signal(woken));
	return 0;
}

static int broadcasts(void)
{
	ok(pthread_cond_broadcast(woken));
	return 0;
}

/* So many instructions after the thread has joined, which the first word of the condition variable tells. */
static int after_joining, (*when_joined)(void);

static int once_joined(void)
{
	int more = *(const uint32_t *)(const void *)&c ? after_joining : 1;

	if (more == 0)
		return when_joined();
	if (more == after_joining)
		after_joining = 0;
	return more;
}

/* Returns false if a wait has not so many instructions. */
static bool wait_trapped(int instructions, int (*wakes)(void), const struct timespec *until, int *met)
{
	int result, type;
	bool happened;

	ok(pthread_mutex_lock(&m));
	at = 0;
	trap_after(instructions, wakes);
	result = pthread_cond_clockwait(&c, &m, CLOCK_MONOTONIC, until);
	happened = has_trapped();
	CHECK(result == 0 || result == ETIMEDOUT, "%d", result);
	*met += result == 0;
	ok(pthread_mutex_unlock(&m));
	ok(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type));
	CHECK_IS(type, PTHREAD_CANCEL_DEFERRED); /* as it was before the wait, after each instruction of it */
	return happened;
}

/* Its deadline has passed. */
static void alone(int (*wakes)(void))
{
	int n = 1, met = 0;

	while (wait_trapped(n, wakes, &gone, &met))
		n += stride;
	CHECK(met > 0, "none of %d waits had the handler's signal", n / stride);
}

/* Far from the deadline, as the thread unlocks the mutex and begins to wait: without the signal it hangs. */
static void begins(int (*wakes)(void))
{
	struct timespec late = from_now(CLOCK_MONOTONIC, LONG_WAIT);
	int met = 0, waits = 0;

	ok(pthread_cond_signal(&c)); /* the word is 0 again */
	when_joined = wakes;
	for (int n = 2; n < 160; n += stride < 20 ? 2 : 7) {
		after_joining = n;
		wait_trapped(1, once_joined, &late, &met);
		CHECK_IS(met, ++waits);
	}
}

/* Answers with a signal to c, if it waits elsewhere. */
static void *wait_again(void *cond)
{
	ok(pthread_mutex_lock(&m));
	while (!over) {
		tell(&at, at + 1);
		ok(pthread_cond_wait(cond, &m));
		tell(&released, released + 1);
		if (cond != &c)
			ok(pthread_cond_signal(&c));
	}
	ok(pthread_mutex_unlock(&m));
	return NULL;
}

static void end(pthread_cond_t *cond, const pthread_t *waiters, int number)
{
	ok(pthread_mutex_lock(&m));
	over = true;
	ok(pthread_mutex_unlock(&m));
	ok(pthread_cond_broadcast(cond));
	for (int i = 0; i < number; i++)
		check_join(waiters[i]);
	at = released = 0;
	over = false;
}

/* How far it is from the i-th place to the next. Where each needs other threads, a busy machine gets fewer places. */
static int distance(int i, int instructions)
{
	return check_goes_on(i, INT_MAX) ? instructions : 10 * instructions;
}

/* Another thread has waited for longer: each signal is for it. It hangs if one is lost. */
static void beside_another(int (*wakes)(void))
{
	pthread_t other = check_thread(wait_again, &c);
	int n = 1, met = 0, wakings = 0;

	await(&at, 1);
	while (wait_trapped(n, wakes, &gone, &met)) {
		n += distance(wakings, stride);
		await(&released, ++wakings);
		await(&at, 1);
	}
	end(&c, &other, 1);
}

/* The signal is for a thread that waits with the same mutex, and this one waits for that thread's answer. */
static void for_another(int (*wakes)(void))
{
	struct timespec late = from_now(CLOCK_MONOTONIC, LONG_WAIT);
	pthread_t other = check_thread(wait_again, &d);
	int met = 0, waits = 0;

	woken = &d;
	when_joined = wakes;
	for (int n = 2; n < 160; n += distance(waits - 1, stride < 20 ? 2 : 7)) {
		await(&at, 1);
		after_joining = n;
		wait_trapped(1, once_joined, &late, &met);
		CHECK_IS(met, ++waits);
	}
	await(&at, 1);
	woken = &c;
	end(&d, &other, 1);
}

static int unlocks(void)
{
	ok(pthread_mutex_unlock(&m));
	return 0;
}

/* A handler unlocks the mutex, to which a waiter was moved, while its thread signals. */
static void unlocked_by_handler(void)
{
	pthread_t others[2];
	bool happened = true;
	int wakings = 0;

	for (int i = 0; i < 2; i++)
		others[i] = check_thread(wait_again, &d);
	for (int n = 1; happened; n += distance(wakings / 2 - 1, stride / 3)) {
		await(&at, 2);
		ok(pthread_mutex_lock(&m));
		at = 0;
		ok(pthread_cond_signal(&d));
		trap_after(n, unlocks);
		ok(pthread_cond_signal(&d));
		happened = has_trapped();
		if (!happened)
			ok(pthread_mutex_unlock(&m));
		await(&released, wakings += 2);
	}
	await(&at, 2);
	end(&d, others, 2);
}

/* A handler signals while its thread unlocks the mutex: nobody unlocks it again. */
static void while_it_unlocks(int (*wakes)(void))
{
	pthread_t other = check_thread(wait_again, &c);
	bool happened = true;
	int wakings = 0;

	for (int n = 1; happened; n++) {
		await(&at, 1);
		ok(pthread_mutex_lock(&m));
		at = 0;
		trap_after(n, wakes);
		ok(pthread_mutex_unlock(&m));
		happened = has_trapped();
		if (!happened)
			wakes();
		await(&released, ++wakings);
	}
	await(&at, 1);
	end(&c, &other, 1);
}

int main(void)
{
	if (!ours()) /* glibc's waiter locks the condition variable when it leaves, and hangs in the handler then */
		return 0;
	handle_traps();
	stride = rounds(10) < 10 ? 29 : 11; /* a wait has some 900 instructions */
	alone(signals);
	alone(broadcasts);
	begins(signals);
	begins(broadcasts);
	beside_another(signals);
	beside_another(broadcasts);
	for_another(signals);
	for_another(broadcasts);
	unlocked_by_handler();
	while_it_unlocks(signals);
	while_it_unlocks(broadcasts);
	return 0;
}
