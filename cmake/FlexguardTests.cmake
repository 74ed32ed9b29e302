# SPDX-License-Identifier: MIT
add_custom_target(tests)
add_custom_target(variant)

# fg_test(NAME group.topic... [TIMEOUT s] [LABELS l...] [PARALLEL] [LONG] [ENVIRONMENT var=value...] COMMAND command...)
#
# A test ends 0 (passed), 77 (this machine cannot run it: skipped) or otherwise (failed). Its group is its first label.
# With the label `variant`, the builds with clang and with sanitizers run it, too: all unit tests have it but those that
# count a lock's parks and spins and the seeded defects, the stress test of exclusion, all stress tests of one lock of
# each kind, and the worker with two locks and with each peer. Target `variant` builds their programs. The build with
# clang leaves the workers out: they are compiled by clang for lint, and what they do with memory AddressSanitizer sees.
# What a lock counts, no compiler changes, and stress.exclusion runs the same code of the lock there. A seeded defect
# asks whether a test sees it; the compiler has no part in the answer. ThreadSanitizer runs what may show a race: unit
# tests that are about no lock of the lab, the stress test of exclusion, and all stress tests of two locks. It survives
# no thread that is created after a fork, and no single steps; and unit.default_* read the words of the lock beside its
# waiters. AddressSanitizer's allocator does not survive a fork beside a thread that is being created: its lock stays
# taken. Single steps through what a sanitizer adds take long and say nothing.
#
# A test that compares what it measures, or keeps every CPU busy, runs alone, and has the label `alone`: scripts/check
# runs these when everything else has ended. Another test says PARALLEL; a folder of such tests says
# set(FG_PARALLEL ON). Of these the LONG ones begin first: those that take some seconds, most of which they wait. So they
# do not end alone on an idle machine.
set(FG_VARIANT_TESTS "^unit\\.|^stress\\.exclusion\\.|^stress\\..*\\.(flexguard|tatas|futex|mcs)$")
set(FG_VARIANT_OMITS "^unit\\.(parks|spins|defect)\\.")
set(FG_VARIANT_WORKERS ON)
if(NOT FG_SANITIZE AND CMAKE_C_COMPILER_ID MATCHES Clang)
	string(APPEND FG_VARIANT_OMITS "|^bench\\.")
	set(FG_VARIANT_WORKERS OFF)
elseif(FG_SANITIZE STREQUAL "thread")
	set(FG_VARIANT_WORKERS OFF)
	set(FG_VARIANT_TESTS "^unit\\.[a-z_]+$|^stress\\.exclusion\\.|^stress\\..*\\.(flexguard|flexguard-sosp25)$|^tsan\\.")
	string(APPEND FG_VARIANT_OMITS "|^unit\\.(default_.*|bare_fork|node_fork|parked|(cond|rwlock)_jumped)$|^stress\\.fork\\.")
elseif(FG_SANITIZE MATCHES "address")
	string(APPEND FG_VARIANT_OMITS "|^unit\\.(bare_fork|node_fork|parked|(cond|rwlock)_jumped|intent\\..*)$|^stress\\.fork\\.")
endif()
function(fg_test)
	cmake_parse_arguments(T "PARALLEL;LONG" "NAME;TIMEOUT" "LABELS;ENVIRONMENT;COMMAND" ${ARGN})
	if(NOT T_TIMEOUT) # for what hangs: on a busy machine a test of seconds takes minutes
		set(T_TIMEOUT 600)
	endif()
	string(REGEX REPLACE "\\..*" "" group ${T_NAME})
	list(PREPEND T_LABELS ${group})
	if(T_NAME MATCHES "${FG_VARIANT_OMITS}")
		list(REMOVE_ITEM T_LABELS variant)
	elseif(T_NAME MATCHES "${FG_VARIANT_TESTS}")
		list(APPEND T_LABELS variant)
	elseif(FG_SANITIZE STREQUAL "thread")
		list(REMOVE_ITEM T_LABELS variant)
	endif()
	list(REMOVE_DUPLICATES T_LABELS)
	if("variant" IN_LIST T_LABELS)
		foreach(word IN LISTS T_COMMAND)
			string(REGEX REPLACE "^\\$<TARGET_FILE:(.*)>$" "\\1" word "${word}")
			if(TARGET ${word})
				add_dependencies(variant ${word})
			endif()
		endforeach()
	endif()
	set(alone ON)
	if(T_PARALLEL OR FG_PARALLEL)
		set(alone OFF)
	else()
		list(APPEND T_LABELS alone)
	endif()
	add_test(NAME ${T_NAME} COMMAND ${T_COMMAND})
	set_tests_properties(${T_NAME} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${T_TIMEOUT} RUN_SERIAL ${alone}
		LABELS "${T_LABELS}")
	if(T_LONG)
		set_tests_properties(${T_NAME} PROPERTIES COST 20)
	endif()
	if(FG_SANITIZE STREQUAL "thread")
		list(APPEND T_ENVIRONMENT "TSAN_OPTIONS=exitcode=1:suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp")
	endif()
	if(T_ENVIRONMENT)
		set_tests_properties(${T_NAME} PROPERTIES ENVIRONMENT "${T_ENVIRONMENT}")
	endif()
endfunction()

# fg_test_programs(folder...): target `tests` builds every program of these folders, and what it depends on.
function(fg_test_programs)
	foreach(folder IN LISTS ARGN)
		get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
		if(targets)
			add_dependencies(tests ${targets})
		endif()
	endforeach()
endfunction()

# ---- seeded defects: copies of the code with one text replaced, which a test must catch ---------------------------

# fg_edit(result dir file old new): copies `file`, named as code includes it, to dir/file with `old` replaced, to be
# found first with -I dir. Sets `result` to true, or to false where the file does not contain `old`.
function(fg_edit result dir file old new)
	set(text)
	foreach(root . lib lab)
		set(source ${PROJECT_SOURCE_DIR}/${root}/${file})
		if(EXISTS ${source})
			set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
			file(READ ${source} text)
			break()
		endif()
	endforeach()
	string(REPLACE "${old}" "${new}" edited "${text}")
	if(edited STREQUAL text)
		set(${result} false PARENT_SCOPE)
		return()
	endif()
	file(CONFIGURE OUTPUT ${dir}/${file} CONTENT "${edited}" @ONLY)
	set(${result} true PARENT_SCOPE)
endfunction()

# The same for a test of what it breaks. Where `old` is not there any more, that test fails: it has to be written anew.
function(fg_seed result test dir file old new)
	fg_edit(edited ${dir} ${file} "${old}" "${new}")
	if(NOT edited)
		fg_test(NAME ${test} PARALLEL LABELS defect
			COMMAND ${PROJECT_SOURCE_DIR}/tests/defect.sh stale "${file}" "${old}")
	endif()
	set(${result} ${edited} PARENT_SCOPE)
endfunction()
