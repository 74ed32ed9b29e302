/* SPDX-License-Identifier: MIT */
/* nsync_mu (google/nsync): a word and a list of waiters. Lock and unlock are calls into its library. */
#include <nsync.h>

struct fg_lock {
	nsync_mu mu; /* NSYNC_MU_INIT is all-zero */
};

static inline void fgi_lock(struct fg_lock *l)
{
	nsync_mu_lock(&l->mu);
}

static inline void fgi_unlock(struct fg_lock *l)
{
	nsync_mu_unlock(&l->mu);
}
