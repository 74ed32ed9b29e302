# SPDX-License-Identifier: MIT
# The default lock with one thing changed, each a worker of its own, and a simulator's.
option(FG_CONSTANTS "carry the default lock with half and twice the values of its constants" OFF)
option(FG_RULES "carry the default lock without one of its rules" OFF)
set(fgb_edited)

# fgb_edited_lock(name class file old new): flexguard-NAME, with `old` in a file of it replaced. Where a rule is left out,
# what nobody calls any more stays, and no warning says so.
function(fgb_edited_lock name class file old new)
	set(name flexguard-${name})
	set(copy ${PROJECT_BINARY_DIR}/lab/edited/${name})
	fg_edit(edited ${copy} ${file} "${old}" "${new}")
	if(NOT edited)
		message(FATAL_ERROR "${name}: ${file} does not contain: ${old}")
	endif()
	fgb_worker(fg-bench-${name} lock/default/flexguard.inc.h true ${name})
	target_include_directories(fg-bench-${name} BEFORE PRIVATE ${copy})
	if(class STREQUAL rule)
		target_compile_options(fg-bench-${name} PRIVATE -w)
	endif()
	fgb_install(fg-bench-${name})
	set(fgb_programs "${fgb_programs}\t{\"${name}\", \"fg-bench-${name}\", \"${class}\", false},\n" PARENT_SCOPE)
	set(fgb_edited ${fgb_edited} ${name} PARENT_SCOPE)
endfunction()

# ---- `constants` in a scene: half and twice the value of each, one at a time -----------------------------------------

macro(fgb_constant file constant shipped)
	math(EXPR half "${shipped} / 2")
	math(EXPR double "${shipped} * 2")
	foreach(factor half double)
		string(TOLOWER "${constant}-${factor}" name)
		string(REGEX REPLACE "fgi_|_ns|_us" "" name ${name})
		string(REPLACE "_" "-" name ${name})
		fgb_edited_lock(${name} constant ${file} "#define ${constant} ${shipped}u" "#define ${constant} ${${factor}}u")
	endforeach()
endmacro()
if(FG_CONSTANTS)
	fgb_constant(lock/default/numbers.h FGI_LONG_WAIT_NS 1000000)
	fgb_constant(lock/default/numbers.h FGI_LONGEST_SLEEP_NS 1000000000)
	fgb_constant(lock/default/numbers.h FGI_FEW_CPUS 4)
	fgb_constant(lock/default/numbers.h FGI_HOT_NS 600)
	fgb_constant(lock/default/numbers.h FGI_PAUSES 4)
	fgb_constant(lock/default/numbers.h FGI_FEW 2)
	fgb_constant(lock/default/numbers.h FGI_SOME 4)
	fgb_constant(lock/default/numbers.h FGI_MANY 8)
	fgb_constant(runtime/monitor.h FGI_IDLE_LOOKS 128)
	fgb_constant(runtime/monitor.h FGI_SLICE_US 600)
	fgb_constant(runtime/monitor.h FGI_COMPETE_NS 100000000)
endif()

# ---- `rules` in a scene: without one rule, in the order of the table of lock/default/flexguard.inc.h -----------------

if(FG_RULES)
	set(lock lock/default/flexguard.inc.h)
	# What a thread may take.
	fgb_edited_lock(no-first-look-hot rule ${lock}
		"(!w->hot || (word & PARKED) || !fgi_watchers(fg_load_relaxed(&l->waiters)))" "true")
	fgb_edited_lock(no-return-of-hot-owner rule ${lock}
		"return w->stood_back || !is_hot(l);" "return true;")
	fgb_edited_lock(no-stand-back-yield rule ${lock}
		"fgi_spin_yield(); /* the head waiter may be queued behind this thread */" ";")
	# How seldom it looks.
	fgb_edited_lock(no-back-off rule ${lock} "w->passed < FGI_SOME ? w->passed + 1 : FGI_SOME" "1")
	fgb_edited_lock(no-hot-back-off rule ${lock} "w->hot ? FGI_MANY * FGI_MANY : " "")
	fgb_edited_lock(no-forgetting rule ${lock} "\tw->passed = 0;\n" "")
	# Who stays awake.
	fgb_edited_lock(no-hot-watcher-alone rule ${lock} "most = w->hot ? 1 : FGI_FEW" "most = FGI_FEW")
	fgb_edited_lock(no-few-cpus rule ${lock} "(is_monitored() && !fgi_few_cpus())" "is_monitored()")
	fgb_edited_lock(no-watching rule ${lock} "hot || (is_monitored() && !fgi_few_cpus())" "hot")
	fgb_edited_lock(no-moment rule ${lock}
		"\tif (!w->watching && !w->hot && w->now == w->awake)\n\t\treturn true;\n" "")
	fgb_edited_lock(no-woken-stays rule ${lock}
		"(!w->woken && fgi_watchers(waiters) > most)" "fgi_watchers(waiters) > most")
	# Who parks.
	fgb_edited_lock(no-preempted rule ${lock} "\tif (fgi_preempted_cs())\n" "\tif (false)\n")
	fgb_edited_lock(no-yields-before-park rule ${lock} "++w->yields > FGI_FEW" "true")
	fgb_edited_lock(no-at-once-beside-others rule ${lock}
		"return fgi_others_compete(w->now) || (++w->yields" "return (++w->yields")
	fgb_edited_lock(no-still-beside-others rule ${lock}
		"(still > FGI_TURN_NS || w->now > memo()->slept + FGI_LONG_WAIT_NS)"
		"w->now > memo()->slept + FGI_LONG_WAIT_NS")
	fgb_edited_lock(no-new-slice rule ${lock}
		"(still > FGI_TURN_NS || w->now > memo()->slept + FGI_LONG_WAIT_NS)" "still > FGI_TURN_NS")
	fgb_edited_lock(no-others rule ${lock}
		"return fgi_others_compete(w->now) && (still > FGI_TURN_NS || w->now > memo()->slept + FGI_LONG_WAIT_NS)"
		"return false")
	fgb_edited_lock(no-made-way rule ${lock}
		"(made_way || (is_watched(w->hot) && !watch(l, w)))" "is_watched(w->hot) && !watch(l, w)")
	fgb_edited_lock(no-still rule ${lock} "still > FGI_LONG_WAIT_NS || " "")
	fgb_edited_lock(no-owner-sleeps rule ${lock} " || fgi_owner_sleeps(word & FG_OWNER_MASK)" "")
	fgb_edited_lock(no-quiet-watched-word rule ${lock}
		"flag == PARKED && fgi_watchers(fg_load_relaxed(&l->waiters))" "false")
	fgb_edited_lock(no-tries rule ${lock} "tries < FGI_FEW * FGI_MANY" "tries < 1")
	# The head waiter.
	fgb_edited_lock(no-head rule ${lock} "(w->hot || w->now - w->began > FGI_LONG_WAIT_NS) &&" "w->hot &&")
	fgb_edited_lock(no-turn-before-head rule ${lock}
		"&& turn_is_over(l, w->now))\n\t\tw->head" ")\n\t\tw->head")
	fgb_edited_lock(no-head-keeps-cpu rule ${lock} " || (w->head && !fgi_preempted_cs())" "")
	fgb_edited_lock(no-head-yields rule ${lock}
		"(++w->yields > FGI_FEW && !w->head)" "++w->yields > FGI_FEW")
	fgb_edited_lock(no-turn-of-head rule ${lock}
		"(w->hot || w->head))\n\t\tbegin_turn" "w->hot)\n\t\tbegin_turn")
	fgb_edited_lock(no-lease rule ${lock} "(w->hot || w->head))\n\t\tbegin_turn" "w->head)\n\t\tbegin_turn")
	# Who is woken.
	fgb_edited_lock(no-watchers-wake rule ${lock}
		"fgi_clocked(waiters) && fgi_watchers(waiters) <= most && turn_is_over(l, w->now)" "false")
	fgb_edited_lock(no-turns-at-release rule ${lock}
		"turn = !useful && turn_is_over(l, now);" "turn = false;")
	fgb_edited_lock(no-wake-for-idle rule ${lock}
		"fgi_idle_cpu(fgi_cpu_set) || fgi_others_compete(now)" "fgi_others_compete(now)")
	fgb_edited_lock(no-wake-beside-others rule ${lock}
		"fgi_idle_cpu(fgi_cpu_set) || fgi_others_compete(now)" "fgi_idle_cpu(fgi_cpu_set)")
	fgb_edited_lock(no-wake-for-idle-watched rule ${lock} " || (watched && fgi_idle_cpu(fgi_cpu_set))" "")
	fgb_edited_lock(no-turn-of-useful rule ${lock}
		"\t\t\tbegin_turn(l, now);\n\t\t\twoken"
		"\t\t\tif (turn)\n\t\t\t\tbegin_turn(l, now);\n\t\t\twoken")
	fgb_edited_lock(no-quick rule ${lock}
		"bool quick = period && period < FGI_HOT_NS;" "bool quick = false;")
	fgb_edited_lock(no-quick-hot rule ${lock} "quick && !hot" "quick")
	fgb_edited_lock(no-some-takers rule ${lock}
		"hot || quick || fg_load_relaxed(&l->ops) % FGI_SOME" "hot || quick")
	# Hot locks: pace.h. Yields: scheduler.h.
	fgb_edited_lock(no-hot rule lock/default/pace.h
		"\tfor (; wanted !=" "\twanted = false;\n\tfor (; wanted !=")
	fgb_edited_lock(no-mean rule lock/default/pace.h "if (!trial && mean)" "if (false)")
	fgb_edited_lock(no-later-trials rule lock/default/pace.h
		"fg_store_relaxed(&p->retry, 2 * retry + FGI_FEW);" ";")
	fgb_edited_lock(no-yield-pause rule lock/default/scheduler.h
		"until = now + FGI_SOME * FGI_LONG_WAIT_NS;" ";")
	fgb_edited_lock(no-waits-look rule lock/default/scheduler.h "before.stay & FG_STAY_WAITS" "false")
endif()
