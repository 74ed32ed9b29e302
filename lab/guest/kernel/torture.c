// SPDX-License-Identifier: GPL-2.0-only
/* /proc/flexguard/torture: kernel threads that take one spinlock or many.
 *
 *   write  "THREADS LOCKS SECTION THINK OPS MS MODE"
 *          threads, bound to the virtual CPUs in turn; locks, of which each operation takes one at random; the section
 *          and the think time in iterations of an empty loop; operations of each thread, and milliseconds after which
 *          it stops earlier; 0: interrupts on, 1: off, 2: by trylock, 3: two locks, nested, 4: the first holder
 *          of a lock keeps it until another waits for it, 5: interrupts on, and on the virtual CPU of each thread a
 *          handler of the timer's interrupt comes, whatever the thread is at: it tries the first lock, and takes one
 *          that only handlers take. The write returns when all threads are through.
 *   read   the last run, one number a line: what was asked for, `lost` updates of the plain counters that the locks
 *          protect, the locks of which something `wrong` was said (by is_locked, is_contended or trylock, once all
 *          threads were through), those that a holder saw `contended` in mode 4, what handlers did in mode 5 and how
 *          often they got the first lock, the time it took, the least and the most updates of a thread, the mean of the
 *          threads' times and their standard deviation.
 *
 * A counter is read, and after the section written back incremented: an update is lost if two threads are inside. */
#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math.h>
#include <linux/math64.h>
#include <linux/mutex.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/uaccess.h>

#include "counts.h"
#include "proc.h"

#define THREADS_MOST 64
#define LOCKS_MOST 1024
#define LOOPS_MOST 100000000ull
#define OPS_MOST 1000000000ull
#define MS_MOST 3600000ull
#define LOOK_MS 60000
#define HANDLER_NS 200000

enum mode { PLAIN, IRQ_OFF, TRY, NESTED, LOOK, HANDLERS, MODES };

struct shelf {
	spinlock_t lock;
	u64 counter; /* plain: only the lock protects it */
} ____cacheline_aligned_in_smp;

struct worker {
	struct task_struct *task;
	struct completion done;
	u64 random;
	u64 ns;
	u64 updates;
	u64 contended;
	struct hrtimer timer;
	u64 handled, handler_took; /* its handler's */
} ____cacheline_aligned_in_smp;

static struct {
	u64 threads, locks, section, think, ops, ms, mode;
} asked;

static struct {
	u64 lost, wrong, contended, handled, handler_took, updates, ns, least_updates, most_updates, mean_ns,
		deviation_ns;
} result;

static DEFINE_MUTEX(running);
static DECLARE_COMPLETION(start);
static struct shelf *shelves, of_handlers;
static struct worker *workers;

static __always_inline void loop(u64 n)
{
	while (n--)
		asm volatile("" : "+r"(n));
}

static u64 next_random(struct worker *w) /* xorshift64 */
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	return w->random ^= w->random << 17;
}

static __always_inline void increment(struct shelf *s)
{
	u64 seen = READ_ONCE(s->counter);

	loop(asked.section);
	WRITE_ONCE(s->counter, seen + 1);
}

static __always_inline void update(struct worker *w, struct shelf *s)
{
	increment(s);
	w->updates++;
}

/* Interrupts threads that hold locks, wait for one, or are at any instruction of a take or a release. */
static enum hrtimer_restart handle(struct hrtimer *timer)
{
	struct worker *w = container_of(timer, struct worker, timer);
	bool took = spin_trylock(&shelves[0].lock);

	if (took) {
		increment(&shelves[0]);
		w->handler_took++;
	}
	spin_lock(&of_handlers.lock);
	increment(&of_handlers);
	spin_unlock(&of_handlers.lock);
	if (took)
		spin_unlock(&shelves[0].lock);
	WRITE_ONCE(w->handled, w->handled + 1);
	hrtimer_forward_now(timer, ns_to_ktime(HANDLER_NS));
	return HRTIMER_RESTART;
}

/* Its handler has come at least once. */
static void end_handler(struct worker *w)
{
	while (!READ_ONCE(w->handled))
		cond_resched();
	hrtimer_cancel(&w->timer);
}

static void take_nested(struct worker *w, struct shelf *one, struct shelf *other)
{
	struct shelf *first = min(one, other), *second = max(one, other);

	spin_lock(&first->lock);
	if (second != first)
		spin_lock_nested(&second->lock, SINGLE_DEPTH_NESTING);
	update(w, first);
	if (second != first) {
		update(w, second);
		spin_unlock(&second->lock);
	}
	spin_unlock(&first->lock);
}

/* Others come, sooner or later: the bound is for a lock that never says so. */
static void take_and_look(struct worker *w, struct shelf *s)
{
	unsigned long end = jiffies + msecs_to_jiffies(LOOK_MS);

	spin_lock(&s->lock);
	update(w, s);
	if (s->counter == 1) {
		while (!spin_is_contended(&s->lock) && time_before(jiffies, end))
			cpu_relax();
		w->contended += !!spin_is_contended(&s->lock); /* qspinlock says how */
	}
	spin_unlock(&s->lock);
}

static void take_one(struct worker *w, struct shelf *s)
{
	unsigned long flags;

	switch (asked.mode) {
	case IRQ_OFF:
		spin_lock_irqsave(&s->lock, flags);
		update(w, s);
		spin_unlock_irqrestore(&s->lock, flags);
		break;
	case TRY:
		while (!spin_trylock(&s->lock))
			cond_resched();
		update(w, s);
		spin_unlock(&s->lock);
		break;
	case NESTED:
		take_nested(w, s, &shelves[next_random(w) % asked.locks]);
		break;
	case LOOK:
		take_and_look(w, s);
		break;
	default:
		spin_lock(&s->lock);
		update(w, s);
		spin_unlock(&s->lock);
	}
}

static int work(void *argument)
{
	struct worker *w = argument;
	u64 i, begun;
	unsigned long end;

	wait_for_completion(&start);
	begun = ktime_get_ns();
	end = jiffies + msecs_to_jiffies(asked.ms);
	if (asked.mode == HANDLERS) {
		hrtimer_setup(&w->timer, handle, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
		hrtimer_start(&w->timer, ns_to_ktime(HANDLER_NS), HRTIMER_MODE_REL_PINNED_HARD);
	}
	for (i = 0; i < asked.ops && time_before(jiffies, end); i++) {
		take_one(w, &shelves[asked.locks == 1 ? 0 : next_random(w) % asked.locks]);
		loop(asked.think);
		if ((i & 1023) == 1023)
			cond_resched();
	}
	if (asked.mode == HANDLERS)
		end_handler(w);
	w->ns = ktime_get_ns() - begun;
	complete(&w->done);
	return 0;
}

/* Of a lock that nobody else uses. */
static bool is_right(spinlock_t *lock)
{
	bool right;

	if (spin_is_locked(lock) || spin_is_contended(lock) || !spin_trylock(lock))
		return false;
	right = spin_is_locked(lock) && !spin_is_contended(lock) && !spin_trylock(lock);
	spin_unlock(lock);
	return right && !spin_is_locked(lock);
}

static void sum_up(void)
{
	u64 i, sum = 0, squares = 0, counted = 0;

	memset(&result, 0, sizeof(result));
	result.least_updates = U64_MAX;
	for (i = 0; i < asked.threads; i++) {
		result.updates += workers[i].updates;
		result.contended += workers[i].contended;
		result.handled += workers[i].handled;
		result.handler_took += workers[i].handler_took;
		result.least_updates = min(result.least_updates, workers[i].updates);
		result.most_updates = max(result.most_updates, workers[i].updates);
		sum += workers[i].ns;
	}
	result.mean_ns = div64_u64(sum, asked.threads);
	for (i = 0; i < asked.threads; i++) {
		u64 us = div_u64(abs_diff(workers[i].ns, result.mean_ns), 1000);

		squares += us * us;
	}
	result.deviation_ns = 1000ull * int_sqrt64(div64_u64(squares, asked.threads));
	for (i = 0; i < asked.locks; i++) {
		counted += shelves[i].counter;
		result.wrong += !is_right(&shelves[i].lock);
	}
	result.wrong += !is_right(&of_handlers.lock);
	result.lost = result.updates + result.handler_took - counted;
	result.lost += result.handled - of_handlers.counter;
}

/* All threads exist before the first begins. Those that do are let go also if one cannot be made. */
static int run(void)
{
	u64 i, made, ops = asked.ops, begun;
	unsigned int cpu = cpumask_first(cpu_online_mask);
	int error = 0;

	reinit_completion(&start);
	for (made = 0; made < asked.threads; made++) {
		struct worker *w = &workers[made];

		init_completion(&w->done);
		w->random = 88172645463325252ull + made * 1000003;
		w->task = kthread_create(work, w, "torture/%llu", made);
		if (IS_ERR(w->task)) {
			error = PTR_ERR(w->task);
			asked.ops = 0;
			break;
		}
		kthread_bind(w->task, cpu);
		cpu = cpumask_next_wrap(cpu, cpu_online_mask);
		wake_up_process(w->task);
	}
	begun = ktime_get_ns();
	complete_all(&start);
	for (i = 0; i < made; i++)
		wait_for_completion(&workers[i].done);
	begun = ktime_get_ns() - begun;
	asked.ops = ops;
	if (!error) {
		sum_up();
		result.ns = begun;
	}
	return error;
}

static int allocate_and_run(void)
{
	u64 i;
	int error = -ENOMEM;

	shelves = kcalloc(asked.locks, sizeof(*shelves), GFP_KERNEL);
	workers = kcalloc(asked.threads, sizeof(*workers), GFP_KERNEL);
	spin_lock_init(&of_handlers.lock);
	of_handlers.counter = 0;
	if (shelves && workers) {
		for (i = 0; i < asked.locks; i++)
			spin_lock_init(&shelves[i].lock);
		error = run();
	}
	kfree(shelves);
	kfree(workers);
	return error;
}

ssize_t flexguard_torture_write(struct file *file, const char __user *from, size_t size, loff_t *at)
{
	char line[128];
	int error;

	if (size >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, size))
		return -EFAULT;
	line[size] = '\0';
	mutex_lock(&running);
	error = -EINVAL;
	if (sscanf(line, "%llu %llu %llu %llu %llu %llu %llu", &asked.threads, &asked.locks, &asked.section,
		   &asked.think, &asked.ops, &asked.ms, &asked.mode) == 7 &&
	    asked.threads >= 1 && asked.threads <= THREADS_MOST && asked.locks >= 1 && asked.locks <= LOCKS_MOST &&
	    asked.section <= LOOPS_MOST && asked.think <= LOOPS_MOST && asked.ops <= OPS_MOST && asked.ms <= MS_MOST &&
	    asked.mode < MODES)
		error = allocate_and_run();
	mutex_unlock(&running);
	return error ? error : size;
}

int flexguard_torture_show(struct seq_file *m, void *unused)
{
	mutex_lock(&running);
	seq_printf(m, "threads %llu\nlocks %llu\nsection %llu\nthink %llu\nops %llu\nms %llu\nmode %llu\n",
		   asked.threads, asked.locks, asked.section, asked.think, asked.ops, asked.ms, asked.mode);
	seq_printf(m, "lost %lld\nwrong %llu\ncontended %llu\n", result.lost, result.wrong, result.contended);
	seq_printf(m, "handled %llu\nhandler_took %llu\n", result.handled, result.handler_took);
	seq_printf(m, "updates %llu\nns %llu\n", result.updates, result.ns);
	seq_printf(m, "least_updates %llu\nmost_updates %llu\nmean_ns %llu\ndeviation_ns %llu\n", result.least_updates,
		   result.most_updates, result.mean_ns, result.deviation_ns);
	mutex_unlock(&running);
	return 0;
}
