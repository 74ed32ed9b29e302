# SPDX-License-Identifier: MIT
# lib/flexguard/for/: what `flexguard run` names in LD_PRELOAD is for/$LIB/NAME.so, and the loader of each program puts
# its own in for $LIB. To a 64-bit loader that leads to the interposers, to a 32-bit one to an object that has nothing in
# it, since it prints an error for each program where it finds none that it can load. musl's loader knows no $LIB, finds
# nothing, and says nothing. $LIB is lib/ARCHITECTURE on Debian, lib64 and lib on Fedora, lib and lib32 on Arch.
set(FG_FOR ${PROJECT_BINARY_DIR}/for)
file(REMOVE_RECURSE ${FG_FOR})

# fg_lead(directory): there are the interposers
function(fg_lead directory)
	cmake_path(GET directory PARENT_PATH above)
	string(REGEX REPLACE "[^/]+" ".." up "for/${above}")
	string(REGEX REPLACE "/$" "" up "${up}")
	file(MAKE_DIRECTORY ${FG_FOR}/${above})
	file(CREATE_LINK ${up} ${FG_FOR}/${directory} SYMBOLIC)
endfunction()

set(fg_lib lib/${CMAKE_LIBRARY_ARCHITECTURE})
set(fg_loaders)
if(NOT CMAKE_CROSSCOMPILING) # this machine's loader is not the other's
	file(GLOB fg_loaders /lib64/ld-linux-*.so.2 /lib/ld-linux-*.so.1)
endif()
foreach(loader IN LISTS fg_loaders)
	execute_process(COMMAND ${loader} --list-diagnostics OUTPUT_VARIABLE diagnostics ERROR_QUIET)
	if(diagnostics MATCHES "dl_dst_lib=\"([^\"]+)\"")
		set(fg_lib ${CMAKE_MATCH_1})
		break()
	endif()
endforeach()
fg_lead(${fg_lib})
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
	foreach(directory lib64 lib/x86_64-linux-gnu)
		if(NOT directory STREQUAL fg_lib)
			fg_lead(${directory})
		endif()
	endforeach()
	set(FG_OTHER_LOADERS lib32 lib/i386-linux-gnu)
	if(fg_lib STREQUAL lib64)
		set(FG_OTHER_LOADERS lib32 lib)
	elseif(fg_lib STREQUAL lib)
		set(FG_OTHER_LOADERS lib32)
	endif()
	execute_process(COMMAND ${CMAKE_C_COMPILER} -m32 -shared -nostdlib -Wl,-z,noexecstack -Wl,--build-id=none -x c
		/dev/null -o ${PROJECT_BINARY_DIR}/nothing-32.so RESULT_VARIABLE fg_failed OUTPUT_QUIET ERROR_QUIET)
	if(fg_failed)
		message(STATUS "no 32-bit object: ${CMAKE_C_COMPILER} -m32 cannot link; the loader of each 32-bit child complains")
		set(FG_OTHER_LOADERS)
	endif()
	foreach(directory IN LISTS FG_OTHER_LOADERS)
		file(MAKE_DIRECTORY ${FG_FOR}/${directory}/profile)
	endforeach()
endif()
set(FG_OTHER_LOADERS ${FG_OTHER_LOADERS} PARENT_SCOPE)
set(FG_FOR ${FG_FOR} PARENT_SCOPE)

# fg_nothing_for_others(object): for the loaders that cannot load it
function(fg_nothing_for_others object)
	foreach(directory IN LISTS FG_OTHER_LOADERS)
		configure_file(${PROJECT_BINARY_DIR}/nothing-32.so ${FG_FOR}/${directory}/${object}.so COPYONLY)
	endforeach()
endfunction()

install(DIRECTORY ${FG_FOR} DESTINATION ${FG_LOCKDIR})
