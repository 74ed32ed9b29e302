/* SPDX-License-Identifier: MIT */
#ifndef FGB_FAIRNESS_H
#define FGB_FAIRNESS_H

#include <stdint.h>

/* Dice's fairness factor (section 5.5): the operations of the busier half of the threads, divided by those of all.
 * 0.5 is perfectly fair, 1 wholly unfair. Sorts `ops`. With an odd number of threads the middle one belongs to the
 * busier half, so a perfectly fair lock shows (n + 1) / 2n; in the normalised form it counts half to either side, so
 * that 0.5 is fair for every n. 0.5 if there were no operations at all. */
struct fgb_fairness {
	double factor;
	double normalised;
};
struct fgb_fairness fgb_fairness(uint64_t *ops, unsigned int threads);

#endif
