# SPDX-License-Identifier: MIT
# Seeded defects: each is a lock with one text replaced, and tests/stress/wakeups.c must fail with it. One line a defect:
#
#   fg_defect(NAME LOCK FILE "old text" "new text")
#
# A text that a file no longer contains makes its test fail, so a lock that changes takes its defects along.
set(published locks/published)
set(parts locks/parts)

# The default lock.
set(default lock/default/flexguard.inc.h)
fg_defect(no-membarrier flexguard ${default} "joined && fgi_membarrier()" "joined")
fg_defect(membarrier-too-early flexguard ${default} # each needy waiter sleeps without a clock
	"static void park(struct fg_lock *l, const struct wait *w, bool needy)\n{"
	"static __thread bool early;\nstatic void park(struct fg_lock *l, const struct wait *w, bool needy)\n{\n\tstruct wait all = *w;\n\n\tall.stuck |= needy;\n\tw = &all;\n\tearly = w->stuck && fgi_membarrier();\n\tif (early)\n\t\tfgi_spin_times(500);\n#define fgi_membarrier() early")
fg_defect(no-wake flexguard ${default} "return fgi_futex_wake(&l->word, 1) > 0;" "return false;")
fg_defect(no-wake-of-needy flexguard ${default} "|| woken ||" "|| (woken & PARKED) ||")
fg_defect(no-wake-if-nothing-else flexguard ${default}
	"& (PARKED | NEEDY)))\n\t\trelease_to_parked(l);\n\telse if (fg_unlikely(release(l, FLAGS)))"
	"& PARKED))\n\t\trelease_to_parked(l);\n\telse if (release(l, FLAGS) && false)")
fg_defect(wake-before-release flexguard ${default}
	"if ((release(l, FLAGS & ~(woken | seen)) || woken || (watched && fgi_idle_cpu(fgi_cpu_set))) && wake(l) && turn)"
	"if (woken)\n\t\twake(l);\n\tif (release(l, FLAGS & ~(woken | seen)) && turn)")
fg_defect(owner-drops-flag flexguard ${default} "fgi_needy(waiters) ? NEEDY : 0" "0")
fg_defect(not-needy flexguard ${default} "needy || w->stuck ? NEEDY : PARKED" "needy ? NEEDY : PARKED")

# FlexGuard as published.
fg_defect(no-wake flexguard-sosp25 ${published}/flexguard-sosp25.inc.h "fgi_futex_wake(&l->val, 1);" "return;")
fg_defect(woken-forgets-others flexguard-sosp25 ${published}/flexguard-sosp25.inc.h
	"state = fgi_take_xchg32(&l->val, BLOCKED);\n\t\tfgi_spin" "state = fgi_take_cas32(&l->val, LOCKED);\n\t\tfgi_spin")

fg_defect(no-wake futex ${published}/futex.inc.h "fgi_futex_wake(&l->word, 1);" "return;")
fg_defect(woken-forgets-others futex ${published}/futex.inc.h "fgi_take_xchg32(&l->word, SLEEPERS) != FREE"
	"!fgi_trylock(l) && fgi_take_xchg32(&l->word, SLEEPERS) != FREE")
fg_defect(wake-before-release futex ${published}/futex.inc.h
	"if (fg_unlikely(fgi_drop_xchg32(&l->word, FREE) == SLEEPERS))\n\t\tfgi_futex_wake(&l->word, 1);"
	"if (fg_load_relaxed(&l->word) == SLEEPERS)\n\t\tfgi_futex_wake(&l->word, 1);\n\tfgi_drop_xchg32(&l->word, FREE);")

fg_defect(no-wake active ${published}/active.inc.h "fgi_futex_wake(&l->set, 1);" "return;")

fg_defect(no-wake spin-park ${published}/spin-park.inc.h "fgi_futex_wake(&l->word, 1);" "return;")

# Empties the queue while a waiter has entered it and not linked itself.
fg_defect(link-not-awaited mcs ${parts}/mcs_queue.h
	"if (fgi_tail_node(found) != node)\n\t\t\treturn fgi_queue_await_link(node);"
	"if (fgi_tail_node(found) != node)\n\t\t\treturn NULL;")

fg_defect(no-wake malthusian ${parts}/spin_then_park.h "fgi_futex_wake(&node->state, 1);" "return;")
fg_defect(passive-forgotten malthusian ${published}/malthusian.inc.h
	"node_private(successor)->youngest = fgi_node_word(youngest);" "node_private(successor)->youngest = 0;")

fg_defect(parks-after-grant shuffle ${parts}/spin_then_park.h # looks and stores in two steps, a grant between them
	"if (fg_cas_relaxed(&node->state, FG_NODE_WAITING, FGI_NODE_PARKED) != FG_NODE_WAITING)"
	"bool waits = fgi_queue_state(node) == FG_NODE_WAITING;\n\t\tfor (int i = 0; i < 100 && fgi_queue_state(node) == FG_NODE_WAITING; i++)\n\t\t\tfgi_spin_yield();\n\t\tif (waits)\n\t\t\tfg_store_relaxed(&node->state, FGI_NODE_PARKED);\n\t\tif (!waits)")
fg_defect(no-wake shuffle ${parts}/owner_word.h "fgi_futex_wake(word, 1);" "return;")

fg_defect(no-wake u-scl ${parts}/owner_word.h "fgi_futex_wake(word, 1);" "return;")
fg_defect(no-wake-of-next u-scl ${parts}/spin_then_park.h "fgi_futex_wake(&node->state, 1);" "return;")
