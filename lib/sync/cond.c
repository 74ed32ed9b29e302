/* SPDX-License-Identifier: MIT */
#include "sync/cond.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>

#include "runtime/cancel.h"
#include "runtime/cleanup.h"
#include "runtime/clock.h"
#include "runtime/futex.h"
#include "runtime/monitor.h"
#include "runtime/policy.h"
#include "runtime/thread.h"
#include "sync/awake.h"

/* docs/results/condition-variables.md has what others cost. */
#define LEAST_IN_FLIGHT 2u /* one runs, one wakes meanwhile */
#define MOST_AHEAD 62u     /* a bound for what is learned */
#define LATE_NS 4200000u   /* about a time slice */
#define WOKEN_SHIFT 14     /* 16 us; the difference of two times is good for a second */
#define LATE (LATE_NS >> WOKEN_SHIFT)

#define MOST_NUMBERS (UINT32_MAX / FGI_BUCKETS - 1) /* of a bucket: `waited` is a number and the bucket (C5) */

enum had { NOTHING, SIGNAL, BROADCAST };

/* What a broadcast touches of each comes first. */
struct waiter {
	struct fgi_parked node;
	const struct fgi_cond_mutexes *mutexes;
	void *mutex;
	struct fgi_due *due; /* where it is counted, once it was moved. The bucket's lock, then its thread's */
	uint32_t had;        /* enum had. The bucket's lock, then its thread's */
	bool in_flight;      /* its arrival counts (C6). Before it is told */
	bool slept;
	bool unlocks;                /* its mutex, from now on */
	bool over;                   /* its cleanup handler has run */
	bool suspended;              /* the caller's asynchronous cancellation */
	int cancel_type;             /* deferred, unless glibc alone was told another */
	const struct fgi_cond *cond; /* where it joined, */
	uint32_t queue;              /* and in which queue */
	uint64_t late_ns;            /* CLOCK_MONOTONIC: until when it watches; 0: it has not watched */
	struct fgi_deadline deadline;
	struct fgi_awake awake;
} __attribute__((aligned(FG_CACHE_LINE)));

static struct waiter *of(struct fgi_parked *p)
{
	return (struct waiter *)(void *)p;
}

/* Has a waiter with a priority ever slept? Until then the order of arrival is the order of priority. */
static uint32_t ranked;

__thread const void *fgi_cond_moved_to __attribute__((tls_model("initial-exec")));

/* ---- with the bucket locked -------------------------------------------------------------------------------------- */

/* Locks the bucket that `waited` names, if there is one. */
static struct fgi_parked_list *lock_queue(const struct fgi_cond *c, uint32_t *waited)
{
	while ((*waited = fg_load_relaxed(&c->waited)) != 0) {
		struct fgi_parked_list *list = &fgi_parked_lists[*waited % FGI_BUCKETS];

		fgi_parked_lock_list(list);
		if (fg_load_relaxed(&c->waited) == *waited)
			return list;
		fgi_parked_unlock(list);
	}
	return NULL;
}

/* The same for a thread that joins: the queue may be a new one. */
static struct fgi_parked_list *lock_to_join(struct fgi_cond *c, const void *mutex, uint32_t *number)
{
	struct fgi_parked_list *list;

	while ((list = lock_queue(c, number)) == NULL) {
		list = fgi_parked_lock(mutex);
		list->numbered = list->numbered % MOST_NUMBERS + 1;
		*number = list->numbered * FGI_BUCKETS + fgi_bucket_of(mutex);
		if (fg_cas_relaxed(&c->waited, 0, *number) == 0)
			break;
		fgi_parked_unlock(list);
	}
	return list;
}

/* The first of the highest priority. One changes once at most, when its thread falls asleep. */
static struct fgi_parked *foremost(struct fgi_parked *first)
{
	struct fgi_parked *most = first;

	if (fg_unlikely(fg_load_relaxed(&ranked)))
		for (struct fgi_parked *p = first; p; p = p->next)
			if (fg_load_relaxed(&p->priority) > fg_load_relaxed(&most->priority))
				most = p;
	return most;
}

static bool is_asleep(const struct fgi_parked *p)
{
	return fg_load_relaxed(&p->state) != FGI_PARKED_AWAKE;
}

/* To the queue of the mutex (P4). The waiter that watches, if there is one, is the last, and stays it: so one watches
 * until all are told. */
static void move(struct fgi_parked_list *list, struct fgi_parked *p)
{
	const void *mutex = of(p)->mutex;
	struct fgi_parked *first = fgi_parked_first(list, mutex, 0), *watcher = first ? first->prev : NULL;

	fg_store_relaxed(&fgi_cond_moved_to, mutex);
	p->object = mutex;
	p->number = 0;
	fgi_parked_add(list, p, false);
	if (watcher && fgi_parked_watches(watcher)) {
		fgi_parked_remove(list, watcher);
		fgi_parked_add(list, watcher, false);
	}
}

/* Must the waiter, taken out of its queue, wait for an unlock or an arrival (C6)? With priorities it is the mutex that
 * decides among them. `woken`: a broadcast has told a sleeper. */
static bool is_held_back(const struct fgi_parked_list *list, struct waiter *w, bool *woken)
{
	bool sleeper = w->had == BROADCAST && is_asleep(&w->node);

	if (fgi_parked_list_of(w->mutex) != list)
		return false;
	if (w->mutexes->due) {
		w->due = fg_load_relaxed(&ranked) ? NULL : w->mutexes->due(w->mutex);
		if (w->due)
			w->due->any = 1;
		return w->due != NULL;
	}
	if (!sleeper || *woken)
		return sleeper;
	*woken = w->in_flight = true;
	return false;
}

static void append(struct fgi_parked ***end, struct fgi_parked *p)
{
	p->next = NULL;
	**end = p;
	*end = &p->next;
}

/* ---- without ----------------------------------------------------------------------------------------------------- */

/* The time lets a sleeper learn how long it waited for the event, without the time of waking. */
static void tell_all(struct fgi_parked *chain)
{
	while (chain) {
		struct fgi_parked *next = chain->next;

		if (is_asleep(chain))
			chain->told_ns = fgi_now_ns(CLOCK_MONOTONIC);
		fgi_parked_tell(chain, FGI_PARKED_RETRY);
		chain = next;
	}
}

static void wake(struct fgi_cond *c, enum had what)
{
	struct fgi_parked *chain = NULL, **end = &chain, *p;
	bool suspended = fgi_async_suspend(), woken = false;
	uint32_t waited, queue;
	struct fgi_parked_list *list = lock_queue(c, &waited);

	if (list) {
		queue = what == SIGNAL ? waited : FGI_PARKED_NUMBERED;
		while ((p = foremost(fgi_parked_first(list, c, queue))) != NULL) {
			fgi_parked_remove(list, p);
			fg_store_relaxed(&of(p)->had, what);
			if (is_held_back(list, of(p), &woken))
				move(list, p);
			else
				append(&end, p);
			if (what == SIGNAL)
				break;
		}
		if (!fgi_parked_first(list, c, waited))
			fg_store_relaxed(&c->waited, 0);
		fgi_parked_unlock(list);
		tell_all(chain);
	}
	fgi_async_resume(suspended);
}

/* Any thread that waits, at whatever condition variable or moved to whatever mutex. */
static struct fgi_parked *first_waiter(const struct fgi_parked_list *list)
{
	struct fgi_parked *p, *queue;

	for (p = fgi_parked_after(list, NULL); p; p = fgi_parked_after(list, p->object)) {
		for (queue = p; queue; queue = queue->sibling)
			if (queue->list) /* not at a read-write lock */
				return queue;
	}
	return NULL;
}

/* Every waiter of the process goes on, as after a broadcast (P7). `waited` of their condition variables is out of date
 * then (C5). */
static void wake_all(void)
{
	bool suspended = fgi_async_suspend();

	for (uint32_t i = 0; i < FGI_BUCKETS; i++) {
		struct fgi_parked_list *list = &fgi_parked_lists[i];
		struct fgi_parked *chain = NULL, **end = &chain, *p;

		fgi_parked_lock_list(list);
		while ((p = first_waiter(list)) != NULL) {
			fgi_parked_remove(list, p);
			if (of(p)->had == NOTHING)
				fg_store_relaxed(&of(p)->had, BROADCAST);
			append(&end, p);
		}
		fgi_parked_unlock(list);
		tell_all(chain);
	}
	fgi_async_resume(suspended);
}

void fgi_cond_wake_one(void *c)
{
	if (!fgi_parked_postpone(fgi_cond_wake_one, c, wake_all))
		wake(c, SIGNAL);
}

void fgi_cond_wake_all(void *c)
{
	if (!fgi_parked_postpone(fgi_cond_wake_all, c, wake_all))
		wake(c, BROADCAST);
}

bool fgi_cond_busy(const struct fgi_cond *c)
{
	bool suspended = fgi_async_suspend();
	uint32_t waited;
	struct fgi_parked_list *list = lock_queue(c, &waited);
	bool busy = list && fgi_parked_first(list, c, waited);

	if (list)
		fgi_parked_unlock(list);
	fgi_async_resume(suspended);
	return busy;
}

/* ---- the mutex's unlock ------------------------------------------------------------------------------------------ */

/* Are as many on their way as may be? What is learned counts as far as they take no CPU from others: up to half of
 * those that idle. So on two CPUs two are the most. */
static bool are_too_many(const struct fgi_due *due)
{
	if (due->in_flight < LEAST_IN_FLIGHT)
		return false;
	return due->in_flight >= LEAST_IN_FLIGHT + due->ahead ||
	       due->in_flight >= LEAST_IN_FLIGHT + fgi_idle_cpus() / 2;
}

/* May one more sleeper be woken? */
static bool wakes_another(struct fgi_due *due)
{
	uint16_t now = (uint16_t)(fgi_now_ns(CLOCK_MONOTONIC) >> WOKEN_SHIFT);

	if (are_too_many(due)) {
		if ((uint16_t)(now - due->woken_at) < LATE)
			return false;
		due->in_flight = 0;
	}
	due->in_flight++;
	due->woken_at = now;
	return true;
}

/* Without the mutex. */
static void tell_moved(void *mutex)
{
	struct fgi_parked *chain = NULL, **end = &chain, *p;
	struct fgi_parked_list *list = fgi_parked_lock(mutex);

	while ((p = fgi_parked_first(list, mutex, 0)) != NULL) {
		fgi_parked_remove(list, p);
		append(&end, p);
	}
	fgi_parked_unlock(list);
	tell_all(chain);
}

void fgi_cond_tell_moved(void *mutex)
{
	bool suspended = fgi_async_suspend();

	fg_store_relaxed(&fgi_cond_moved_to, NULL);
	if (!fgi_parked_postpone(tell_moved, mutex, wake_all))
		tell_moved(mutex);
	fgi_async_resume(suspended);
}

struct fgi_due_told fgi_due_take(struct fgi_due *due, void *mutex)
{
	struct fgi_due_told told = {NULL, NULL};
	struct fgi_parked **end = &told.chain, *p;
	struct fgi_parked_list *list;

	fg_store_relaxed(&fgi_cond_moved_to, NULL);
	fg_compiler_barrier();
	if (fgi_parked_postpone(tell_moved, mutex, wake_all))
		return told;
	list = fgi_parked_lock(mutex);

	while ((p = fgi_parked_first(list, mutex, 0)) != NULL) {
		if (is_asleep(p)) {
			if (!wakes_another(due))
				break;
			of(p)->in_flight = true;
		}
		fgi_parked_remove(list, p);
		append(&end, p);
	}
	due->any = p != NULL;
	if (p && !fgi_parked_watches(p->prev)) {
		uint32_t *state = &p->prev->state;

		/* release: pairs with the acquire in fgi_parked_state */
		if (fg_xchg_release(state, FGI_PARKED_WATCHES) == FGI_PARKED_ASLEEP)
			told.watcher = state;
	}
	fgi_parked_unlock(list);
	return told;
}

void fgi_due_tell(struct fgi_due_told told)
{
	tell_all(told.chain);
	if (told.watcher)
		fgi_futex_wake(told.watcher, 1);
}

/* ---- a wait ------------------------------------------------------------------------------------------------------ */

static void join(struct fgi_cond *c, struct waiter *w)
{
	struct fgi_parked_list *list;
	uint32_t forks = fgi_forks;

	fgi_awake_begin(&w->awake, c);
	list = lock_to_join(c, w->mutex, &w->queue);
	w->node.object = w->cond = c;
	w->node.number = w->queue;
	w->node.list = list;
	w->node.forks = forks;
	fgi_parked_add(list, &w->node, false);
	if (fg_unlikely(forks != fgi_forks)) /* a signal handler has forked meanwhile (P6) */
		list->queues = NULL;
	fgi_parked_unlock(list);
}

static void set_cancel_type(const struct waiter *w, int type, int *old)
{
	if (w->mutexes->cancellable)
		pthread_setcanceltype(type, old);
}

/* Until it is told, or for no reason; false: its time has come. */
static bool sleep_once(struct waiter *w)
{
	enum fgi_parked_state as = FGI_PARKED_ASLEEP;
	uint64_t until_ns = 0;
	uint8_t priority;
	int error;

	if (w->node.forks != fgi_forks) /* a signal handler forked (P6) */
		return false;
	if (fgi_parked_watches(&w->node)) {
		as = FGI_PARKED_WATCHES;
		if (!w->late_ns)
			w->late_ns = fgi_now_ns(CLOCK_MONOTONIC) + LATE_NS;
		until_ns = w->late_ns;
	} else if (!is_asleep(&w->node) && (priority = fgi_priority()) != 0) {
		fg_store_relaxed(&w->node.priority, priority);
		fg_store_relaxed(&ranked, 1);
	}
	if (!until_ns) /* a watcher reads the clock, and ends soon */
		set_cancel_type(w, PTHREAD_CANCEL_ASYNCHRONOUS, &w->cancel_type);
	error = fgi_parked_sleep(&w->node, as, &w->deadline, until_ns);
	if (!until_ns)
		set_cancel_type(w, w->cancel_type, NULL);
	if (error != ETIMEDOUT)
		return true;
	return !fgi_past_deadline(&w->deadline) && (!until_ns || fgi_now_ns(CLOCK_MONOTONIC) < until_ns);
}

/* Ends the wait, told or not (P5). Returns what the thread had (C3), also if it is called again. */
static enum had leave(struct waiter *w)
{
	struct fgi_parked_list *list;
	bool listed;

	if (fgi_parked_told(&w->node))
		return w->had;
	list = w->node.list;
	fgi_parked_lock_list(list);
	listed = fgi_parked_listed(&w->node);
	if (listed) {
		fgi_parked_remove(list, &w->node);
		fg_store_relaxed(&w->node.state, FGI_PARKED_RETRY);
	}
	fgi_parked_unlock(list);
	return listed || fgi_parked_await(&w->node) ? w->had : NOTHING;
}

/* Tells the first of a queue in w's bucket, if there is one: a signal that w passes on, to a condition variable that
 * may be gone (C4), or the next of those that a broadcast has moved, once w has the mutex (C6). */
static void tell_next(struct waiter *w, const void *object, uint32_t queue, bool in_flight)
{
	struct fgi_parked_list *list = w->node.list;
	struct fgi_parked *p;

	fgi_parked_lock_list(list);
	p = foremost(fgi_parked_first(list, object, queue));
	if (p) {
		fgi_parked_remove(list, p);
		p->next = NULL;
		of(p)->in_flight = in_flight;
		fg_store_relaxed(&of(p)->had, in_flight ? BROADCAST : SIGNAL);
	}
	fgi_parked_unlock(list);
	tell_all(p);
}

static void leave_and_pass_on(struct waiter *w)
{
	if (leave(w) == SIGNAL)
		tell_next(w, w->cond, w->queue, false);
}

/* One that was on its way has the mutex: how many are to be, from now on? More if it found the mutex free, half as many
 * if it waited there for a good part of the time that it took to wake. */
static void learn(struct fgi_due *due, uint64_t wake_ns, uint64_t wait_ns)
{
	if (due->in_flight)
		due->in_flight--;
	if (wait_ns > wake_ns / 4 && due->ahead)
		due->ahead /= 2;
	else if (wait_ns < wake_ns / 16 && due->ahead < MOST_AHEAD)
		due->ahead++;
}

static int take_mutex(struct waiter *w)
{
	bool arrives = w->in_flight && w->node.forks == fgi_forks;
	uint64_t awake_ns = arrives && w->due ? fgi_now_ns(CLOCK_MONOTONIC) : 0;
	int error = w->mutexes->lock(w->mutex);

	if (arrives && w->due)
		learn(w->due, awake_ns - w->node.told_ns, fgi_now_ns(CLOCK_MONOTONIC) - awake_ns);
	else if (arrives)
		tell_next(w, w->mutex, 0, true);
	return error;
}

/* The wait ends by cancellation, before the cleanup handlers of the program, which expect to hold the mutex; or a
 * signal handler jumps out of it: glibc's own wait then ends with the mutex held, too. That may be before the thread
 * has joined, which sets its list, or has unlocked the mutex, which most kinds of mutexes know. */
static void cancelled(void *argument)
{
	struct waiter *w = argument;

	set_cancel_type(w, PTHREAD_CANCEL_DEFERRED, NULL);
	if (w->over) /* a cancellation has come at the end of this, in a jump: glibc then runs it again */
		return;
	w->over = true;
	if (w->node.list)
		leave_and_pass_on(w);
	if (w->unlocks && !(w->mutexes->holds && w->mutexes->holds(w->mutex)))
		take_mutex(w);
	set_cancel_type(w, w->suspended ? PTHREAD_CANCEL_ASYNCHRONOUS : w->cancel_type, NULL);
}

/* Until told, or until its time has come. A cancellation may end it at its begin, or at any instruction of a sleep:
 * nothing is held there. Not where it reads the clock: the vDSO has no unwind tables on arm64, and an unwinding from
 * there would end without the program's C++ destructors. */
static void await(struct waiter *w)
{
	if (w->mutexes->cancellable)
		pthread_testcancel();
	if (!fgi_awake_stay(&w->awake, fgi_parked_told, &w->node, w->deadline)) {
		w->slept = true;
		while (!fgi_parked_told(&w->node) && sleep_once(w))
			;
	}
}

int fgi_cond_wait(struct fgi_cond *c, void *mutex, const struct fgi_cond_mutexes *mutexes, struct fgi_deadline until)
{
	struct waiter w = {.mutexes = mutexes, .mutex = mutex, .cancel_type = PTHREAD_CANCEL_DEFERRED};
	struct _pthread_cleanup_buffer buffer;
	int error, result = 0;

	w.deadline = until;
	w.suspended = fgi_async_suspend();
	_pthread_cleanup_push(&buffer, cancelled, &w);
	join(c, &w); /* C2 */
	fg_store_relaxed(&w.unlocks, true);
	error = mutexes->unlock(mutex);
	if (error) {
		fg_store_relaxed(&w.unlocks, false);
		leave_and_pass_on(&w);
		_pthread_cleanup_pop(&buffer, 0);
		fgi_async_resume(w.suspended);
		return error;
	}
	await(&w);
	if (leave(&w) == NOTHING && until.time && w.node.forks == fgi_forks)
		result = ETIMEDOUT;
	_pthread_cleanup_pop(&buffer, 0);
	fgi_awake_end(&w.awake, w.slept, w.node.told_ns);
	error = take_mutex(&w);
	fgi_async_resume(w.suspended);
	return error ? error : result;
}
