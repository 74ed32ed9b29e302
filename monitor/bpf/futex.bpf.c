// SPDX-License-Identifier: (MIT OR GPL-2.0-only)
/* The watch of `flexguard profile --pid` over the waits of a process, whatever its locks are: glibc's wait in futex(2),
 * and FlexGuard's do when they do not spin.
 *
 * It sees the slow path alone: no uncontended acquisition comes here. The two programs run at each system call of the
 * machine while a process is watched, and look at its number first. Every wait is counted at its word. A stack is
 * copied for some, in proportion to the time that they took, so that the copies cost a bounded part of the time that
 * threads wait. The reader unwinds them: glibc has no frame pointers. */
#include <stdbool.h>

#include <linux/bpf.h>
#include <linux/errno.h>
#include <linux/futex.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "futex.h"
#include "kernel_types.h"

char dual_license[] SEC("license") = "Dual MIT/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct fg_futex_control);
} control SEC(".maps");

/* By the thread's number. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FG_FUTEX_WAITERS);
	__type(key, __u32);
	__type(value, struct fg_futex_begun);
} begun SEC(".maps");

/* By the word's address. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, FG_FUTEX_WORDS);
	__type(key, __u64);
	__type(value, struct fg_futex_word);
} words SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, FG_FUTEX_RING);
} ring SEC(".maps");

/* The settings, if the current thread is one of the process that is watched. */
static __always_inline struct fg_futex_control *watched(void)
{
	__u32 zero = 0;
	struct fg_futex_control *state = bpf_map_lookup_elem(&control, &zero);

	return state && bpf_get_current_pid_tgid() >> 32 == state->pid ? state : 0;
}

static __always_inline bool is_wait(int op)
{
	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_LOCK_PI:
	case FUTEX_LOCK_PI2:
	case FUTEX_WAIT_REQUEUE_PI:
		return true;
	default:
		return false;
	}
}

static __always_inline void count(const struct fg_futex_begun *wait, __u64 ns, struct fg_futex_control *state)
{
	struct fg_futex_word none = {}, *word;
	__u64 address = wait->word;

	word = bpf_map_lookup_elem(&words, &address);
	if (!word) {
		bpf_map_update_elem(&words, &address, &none, BPF_NOEXIST);
		word = bpf_map_lookup_elem(&words, &address);
	}
	if (!word) {
		__sync_fetch_and_add(&state->lost_waits, 1);
		return;
	}
	__sync_fetch_and_add(&word->waits, 1);
	__sync_fetch_and_add(&word->ns, ns);
	if (ns > word->longest_ns)
		word->longest_ns = ns; /* of two at once the smaller one may stay: each is a wait of that word */
}

/* The object is the same for both architectures: which fields the kernel has says on which it runs. */
static __always_inline bool is_arm64(const struct pt_regs *regs)
{
	return bpf_core_field_exists(regs->pc);
}

static __always_inline void sample(const struct fg_futex_begun *wait, __u64 ns, const struct pt_regs *regs,
				   struct fg_futex_control *state)
{
	struct fg_futex_sample *to = bpf_ringbuf_reserve(&ring, sizeof(*to), 0);

	if (!to) {
		__sync_fetch_and_add(&state->lost_samples, 1);
		return;
	}
	to->since_ns = wait->since_ns;
	to->ns = ns;
	to->word = wait->word;
	to->ip = is_arm64(regs) ? regs->pc : regs->ip;
	to->sp = regs->sp;
	to->bp = is_arm64(regs) ? 0 : regs->bp;
	to->tid = (__u32)bpf_get_current_pid_tgid();
	to->bytes = FG_FUTEX_STACK;
	if (bpf_probe_read_user(to->stack, FG_FUTEX_STACK, (const void *)to->sp)) {
		/* The stack ends before. */
		to->bytes = FG_FUTEX_STACK / 8;
		if (bpf_probe_read_user(to->stack, FG_FUTEX_STACK / 8, (const void *)to->sp))
			to->bytes = 0;
	}
	bpf_ringbuf_submit(to, BPF_RB_NO_WAKEUP); /* the reader looks by itself */
}

SEC("tp_btf/sys_enter")
int BPF_PROG(fg_futex_begin, struct pt_regs *regs, long number)
{
	struct fg_futex_begun wait = {};
	struct fg_futex_control *state;
	__u32 tid;

	if (number != (is_arm64(regs) ? NR_FUTEX_ARM64 : NR_FUTEX_X86_64))
		return 0;
	state = watched();
	if (!state || !is_wait(is_arm64(regs) ? regs->regs[1] : regs->si))
		return 0;
	tid = (__u32)bpf_get_current_pid_tgid();
	wait.word = is_arm64(regs) ? regs->orig_x0 : regs->di;
	wait.since_ns = bpf_ktime_get_ns();
	if (bpf_map_update_elem(&begun, &tid, &wait, BPF_ANY))
		__sync_fetch_and_add(&state->lost_waits, 1);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(fg_futex_end, struct pt_regs *regs, long result)
{
	struct fg_futex_begun *found, wait;
	struct fg_futex_control *state;
	__u32 tid;
	__u64 ns;

	if (is_arm64(regs) ? regs->syscallno != NR_FUTEX_ARM64 : regs->orig_ax != NR_FUTEX_X86_64)
		return 0;
	state = watched();
	tid = (__u32)bpf_get_current_pid_tgid();
	found = state ? bpf_map_lookup_elem(&begun, &tid) : 0;
	if (!found)
		return 0;
	wait = *found;
	bpf_map_delete_elem(&begun, &tid);
	if (result == -EAGAIN)
		return 0; /* the word had changed: it did not sleep */
	ns = bpf_ktime_get_ns() - wait.since_ns;
	count(&wait, ns, state);
	if ((__u64)bpf_get_prandom_u32() * FG_FUTEX_SAMPLE_NS >> 32 < ns)
		sample(&wait, ns, regs, state);
	return 0;
}
