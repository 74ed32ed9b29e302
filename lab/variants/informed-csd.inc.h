/* SPDX-License-Identifier: MIT */
/* locks/published/informed.inc.h with another csd, what a section lasts at most (EuroSys'17, section 4.1), in ns: with
 * a longer one a thread stops to draw tickets earlier before the end of its slice.
 *
 * All else, I1 to I5 and memory, is as in that file. */
#define CSD_NS FGB_CSD_NS
#include "locks/published/informed.inc.h"
