# SPDX-License-Identifier: MIT
# Seeded defects of lib/sync that the checker must find: one text replaced in each.
#
#   fg_sync_defect(DRIVER NAME FILE "old text" "new text")

# Parking.
fg_sync_defect(parked no-wake sync/parked.c "fgi_futex_wake(word, 1);" ";")
fg_sync_defect(parked tells-in-two-steps sync/parked.c "if (fg_xchg_release(word, state) != FGI_PARKED_AWAKE)"
	"uint32_t was = fg_load_relaxed(word);\n\n\tfg_store_release(word, state);\n\tif (was != FGI_PARKED_AWAKE)")
fg_sync_defect(parked sleeps-in-two-steps sync/parked.c "uint32_t found = fg_cas_relaxed(&p->state, FGI_PARKED_AWAKE, as);"
	"uint32_t found = fg_load_relaxed(&p->state);\n\n\tif (found == FGI_PARKED_AWAKE)\n\t\tfg_store_relaxed(&p->state, as);")
fg_sync_defect(parked loses-the-second sync/parked.c "p->next->prev = p->prev;\n\t\tp->next->sibling = p->sibling;\n\t\treplace(link, p->next);"
	"*link = p->sibling;")
fg_sync_defect(parked bucket-wakes-nobody sync/bucket.h "fg_xchg_release(word, 0) == 2;" "fg_xchg_release(word, 0) == 3;")
fg_sync_defect(parked bucket-forgets-others sync/bucket.h "fgi_futex_wait(word, 2, CLOCK_MONOTONIC, &look);"
	"fgi_futex_wait(word, 2, CLOCK_MONOTONIC, &look);\n\t\tif (fg_cas_acquire(word, 0, 1) == 0)\n\t\t\treturn;")
fg_sync_defect(parked bucket-of-two sync/bucket.h "fg_likely(fg_cas_acquire(word, 0, 1) == 0)"
	"fg_load_relaxed(word) == 0 && (fg_store_relaxed(word, 1), true)")

# The condition variable.
fg_sync_defect(cond hint-forgets-others sync/cond.c "if (!fgi_parked_first(list, c, waited))\n" "if (true)\n")
fg_sync_defect(cond broadcast-is-signal sync/cond.c "if (what == SIGNAL)\n\t\t\t\tbreak;" "break;")
fg_sync_defect(cond-moved moved-unnoticed sync/cond.c "w->due->any = 1;" ";")

# The read-write lock. Seven more of tests/unit are not found within a minute (docs/guide/simulator.md).
fg_sync_defect(rwlock reads-beside-writer sync/rwlock.h "if (fg_likely(!(found & closed)))" "if (true)")

# The barrier.
fg_sync_defect(barrier wakes-no-late-sleeper sync/barrier.c "if (phase & ASLEEP)" "if (false)")
fg_sync_defect(barrier goes-back sync/barrier.c "while (is_before(phase, end))" "while (true)")
fg_sync_defect(barrier sleeps-in-two-steps sync/barrier.c
	"if (fg_cas_relaxed(&b->phase, phase, phase | ASLEEP) != phase)\n\t\t\tcontinue;"
	"fg_store_relaxed(&b->phase, phase | ASLEEP);")
fg_sync_defect(barrier counts-in-two-steps sync/barrier.c "uint64_t number = fg_fetch_add_acq_rel(&b->arrived, 1);"
	"uint64_t number = fg_load_relaxed(&b->arrived);\n\n\tfg_store_relaxed(&b->arrived, number + 1);")

# The semaphore: tokens that nobody posted, and tokens that are lost, for which a thread waits in vain.
fg_sync_defect(semaphore takes-what-is-not-there interpose/sem.c "return true;\n\t}\n\treturn false;" "return true;\n\t}\n\treturn true;")
fg_sync_defect(semaphore returns-without-a-token interpose/sem.c "return error == EAGAIN ? after_sleep(&w, fgi_real()->sem_wait(sem)) : ended(error);"
	"return ended(error == EAGAIN ? 0 : error);")
fg_sync_defect(semaphore waits-with-a-token interpose/sem.c "fgi_awake_end(&w->awake, false, 0);" "result = EAGAIN;")
fg_sync_defect(semaphore a-deadline-is-a-token interpose/sem.c "return error == EAGAIN ? after_sleep(&w, fgi_real()->sem_clockwait(sem, clock, abs)) : ended(error);"
	"return error == EAGAIN ? (after_sleep(&w, fgi_real()->sem_clockwait(sem, clock, abs)), 0) : ended(error);")
fg_sync_defect(semaphore looks-twice sync/awake.c "if (ready(argument))\n\t\t\treturn true;" "if (ready(argument))\n\t\t\tbreak;")
