/* SPDX-License-Identifier: MIT */
/* A lock written in Rust, as worker/loop.h sees it. Lock and unlock are calls, across which nothing inlines;
 * within them the crate's own fast path does. */
struct fg_lock {
	unsigned char state[FGB_PEER_BYTES]; /* all-zero is unlocked: lab/peers/rust/src/lib.rs sees to it */
} __attribute__((aligned(FGB_PEER_ALIGN)));

extern void fgb_peer_lock(struct fg_lock *l);
extern void fgb_peer_unlock(struct fg_lock *l);

static inline void fgi_lock(struct fg_lock *l)
{
	fgb_peer_lock(l);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	fgb_peer_unlock(l);
}
