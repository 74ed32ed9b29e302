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
