/* SPDX-License-Identifier: MIT */
/* locks/published/informed.c with another estimate of what a section lasts at most, in ns (EuroSys'17, section 4.1): the
 * longer it is, the earlier before the end of its slice a thread draws no ticket any more.
 *
 * All else, I1 to I5 and memory, is as in that file. */
#define CSD_NS FGB_CSD_NS
#include "locks/published/informed.c"
