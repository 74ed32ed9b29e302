/* SPDX-License-Identifier: MIT */
/* A lock that traps when its thread asks for a third one: the peers of lab/peers/ have two queue nodes a thread. */
struct fg_lock {
	uint32_t held;
};

static __thread uint32_t nesting_held;

static inline void fgi_lock(struct fg_lock *l)
{
	if (nesting_held++ == 2)
		__builtin_trap();
	while (fg_xchg_acquire(&l->held, 1))
		fgi_nap(1000);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	nesting_held--;
	fg_store_release(&l->held, 0);
}
