/* SPDX-License-Identifier: MIT */
#include "worker/zipf.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/status.h"

/* Fills the columns: each rank that has less than a column gets the rest from one that has more. `height` is in
 * columns; `stack` holds the ranks below one column from its bottom, those above from its top. */
static void pair_up(struct fgb_zipf *z, double *height, uint32_t *stack)
{
	uint32_t low = 0, high = z->n;

	for (uint32_t i = 0; i < z->n; i++) {
		if (height[i] < 1)
			stack[low++] = i;
		else
			stack[--high] = i;
	}
	while (low > 0 && high < z->n) {
		uint32_t poor = stack[--low], rich = stack[high];

		z->columns[poor] = (struct fgb_column){(uint32_t)(height[poor] * 0x1p32), rich};
		height[rich] -= 1 - height[poor];
		if (height[rich] < 1) {
			high++;
			stack[low++] = rich;
		}
	}
	/* What is left has one column, but for rounding. */
	while (low > 0) {
		uint32_t i = stack[--low];

		z->columns[i] = (struct fgb_column){UINT32_MAX, i};
	}
	for (; high < z->n; high++)
		z->columns[stack[high]] = (struct fgb_column){UINT32_MAX, stack[high]};
}

int fgb_zipf_init(struct fgb_zipf *z, uint32_t n, double theta)
{
	double *height = calloc(n, sizeof(*height)), total = 0;
	uint32_t *stack = calloc(n, sizeof(*stack));

	z->n = n;
	z->columns = calloc(n, sizeof(*z->columns));
	if (height && stack && z->columns) {
		for (uint32_t i = 0; i < n; i++)
			total += height[i] = pow((double)i + 1, -theta);
		for (uint32_t i = 0; i < n; i++)
			height[i] *= (double)n / total;
		pair_up(z, height, stack);
	} else {
		fputs("fg-bench: not enough memory\n", stderr);
	}
	free(height);
	free(stack);
	return height && stack && z->columns ? 0 : FGB_FAILED;
}
