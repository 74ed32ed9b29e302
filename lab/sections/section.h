/* SPDX-License-Identifier: MIT */
/* A critical section as a function, for locks that have another thread execute it, or execute it again.
 *
 *   fgb_execute(l, section, argument)   executes it once, while no other section of the lock is executed
 *   fgb_read(l, section, argument)      the same for a section that only reads. It may be executed several times, also
 *                                       beside a writer; what it found the last time is consistent.
 *
 * FGB_LOCK_EXECUTES and FGB_LOCK_READS say that a lock defines them; other locks are taken around the section
 * (sections/lines.h). What sections share they load with acquire and store with release: an optimistic lock needs
 * that. */
#ifndef FGB_SECTION_H
#define FGB_SECTION_H

typedef void fgb_any_section(void *argument);

#endif
