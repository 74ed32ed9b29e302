/* SPDX-License-Identifier: MIT */
/* A lock that this machine cannot run. */
#define FGI_LOCK_HAS_REFUSAL

struct fg_lock {
	char unused;
};

static inline const char *fgi_lock_refusal(void)
{
	return "its hardware has not been built";
}

static inline void fgi_lock(struct fg_lock *l)
{
	(void)l;
	__builtin_trap();
}

static inline void fgi_unlock(struct fg_lock *l)
{
	(void)l;
}
