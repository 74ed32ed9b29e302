# SPDX-License-Identifier: MIT
# fg_test(NAME name [TIMEOUT s] [LABELS l...] [ENVIRONMENT var=value...] COMMAND command...)
# A test ends 0 (passed), 77 (this machine cannot run it: skipped) or otherwise (failed).
function(fg_test)
	cmake_parse_arguments(T "" "NAME;TIMEOUT" "LABELS;ENVIRONMENT;COMMAND" ${ARGN})
	if(NOT T_TIMEOUT)
		set(T_TIMEOUT 120)
	endif()
	add_test(NAME ${T_NAME} COMMAND ${T_COMMAND})
	set_tests_properties(${T_NAME} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT ${T_TIMEOUT})
	if(T_LABELS)
		set_tests_properties(${T_NAME} PROPERTIES LABELS "${T_LABELS}")
	endif()
	if(T_ENVIRONMENT)
		set_tests_properties(${T_NAME} PROPERTIES ENVIRONMENT "${T_ENVIRONMENT}")
	endif()
endfunction()

# Ways to run the default lock that tests try: each regime alone, and both by turns as fast as they can be changed.
set(FG_TUNES greedy leased restless)
set(FG_TUNE_greedy regime=greedy)
set(FG_TUNE_leased regime=leased)
set(FG_TUNE_restless sample_us=1,lease_us=1)

# ---- seeded defects: copies of the code with one text replaced, which a test must catch ---------------------------

# fg_edit(result dir file old new): copies `file` to dir/file with `old` replaced, to be found first with -I dir. Sets
# `result` to true, or to false where the file does not contain `old`.
function(fg_edit result dir file old new)
	set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${file})
	set(text)
	if(EXISTS ${PROJECT_SOURCE_DIR}/${file})
		file(READ ${PROJECT_SOURCE_DIR}/${file} text)
	endif()
	string(REPLACE "${old}" "${new}" edited "${text}")
	if(edited STREQUAL text)
		set(${result} false PARENT_SCOPE)
		return()
	endif()
	file(CONFIGURE OUTPUT ${dir}/${file} CONTENT "${edited}" @ONLY)
	set(${result} true PARENT_SCOPE)
endfunction()

# A test that fails: what it is to break is no longer there, so it has to be written anew.
function(fg_stale_defect test file old)
	fg_test(NAME ${test} LABELS defect COMMAND ${PROJECT_SOURCE_DIR}/tests/defect.sh stale "${file}" "${old}")
endfunction()
