/* SPDX-License-Identifier: MIT */
/* locks/published/shuffle.inc.h without lock stealing: a thread that arrives while others queue joins the queue, as in
 * the authors' spinning lock. It shows what stealing is worth.
 *
 * All else, I1 to I5 and memory, is as in that file; of I4, the queue is in order of arrival but for shuffling. */
#define STEALING false
#include "locks/published/shuffle.inc.h"
