/* SPDX-License-Identifier: MIT */
/* The Zipf distribution over ranks 0 .. n-1: rank i is drawn in proportion to 1 / (i + 1)^theta. Drawing takes constant
 * time by the alias method (Walker 1977): n columns of equal height, each shared by two ranks. */
#ifndef FGB_ZIPF_H
#define FGB_ZIPF_H

#include <stdint.h>

#include "worker/random.h"

#ifdef __cplusplus
extern "C" {
#endif

struct fgb_column {
	uint32_t own;   /* share of the column that is its own rank, in 2^-32 */
	uint32_t alias; /* the rank that has the rest */
};

struct fgb_zipf {
	uint32_t n;
	struct fgb_column *columns;
};

/* 0, or FGB_FAILED after a message (no memory). theta 0 is the uniform distribution. */
int fgb_zipf_init(struct fgb_zipf *z, uint32_t n, double theta);

static inline uint32_t fgb_zipf_draw(const struct fgb_zipf *z, uint64_t random)
{
	uint32_t rank = (uint32_t)fgb_below(random, z->n);
	const struct fgb_column *c = &z->columns[rank];

	return (uint32_t)random < c->own ? rank : c->alias;
}

#ifdef __cplusplus
}
#endif
#endif
