# SPDX-License-Identifier: MIT
# The lists of locks: lib/lock/LOCKS has those that are shipped to be used, lab/locks/LOCKS those that are shipped to be
# compared with, and the order of all. A line is name, class, brief, perhaps needs=WHAT; tab separated. In the lab's
# list a name alone is a lock of the library's. Sets
#   FG_LOCKS               all names, in order
#   FG_LIB_LOCKS           those of lib/lock/LOCKS
#   FG_LOCK_<name>_FILE    for FGI_LOCK_FILE: lock/default/<name>.c or locks/published/<name>.c
#   FG_LOCK_<name>_CLASS   spin, block or adaptive
#   FG_LOCK_<name>_NEEDS_SLICE   true or false
# and writes all lines to LOCKS in the build's folder, which is installed.

# fg_lock_list(names lines list folder include): a list whose locks have their files in this folder
function(fg_lock_list names lines list folder include)
	set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${list})
	file(STRINGS ${PROJECT_SOURCE_DIR}/${list} read REGEX "^[^#]")
	set(found)
	set(text)
	foreach(line IN LISTS read)
		if(line IN_LIST FG_LIB_LOCKS)
			list(APPEND found ${line})
			string(APPEND text "${fg_line_${line}}")
			continue()
		endif()
		if(NOT line MATCHES "^([a-z0-9_-]+)\t(spin|block|adaptive)\t[^\t]+(\tneeds=slice)?$")
			message(FATAL_ERROR "${list}: not `name<TAB>spin|block|adaptive<TAB>brief[<TAB>needs=slice]`: ${line}")
		endif()
		set(name ${CMAKE_MATCH_1})
		if(FG_PUBLISHED_LOCKS AND folder MATCHES "^lab/" AND NOT name IN_LIST FG_PUBLISHED_LOCKS)
			continue()
		endif()
		set(class ${CMAKE_MATCH_2})
		set(slice false)
		if(CMAKE_MATCH_3)
			set(slice true)
		endif()
		if(name IN_LIST found OR name IN_LIST FG_LIB_LOCKS)
			message(FATAL_ERROR "${list}: ${name} is there twice")
		endif()
		if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${folder}/${name}.c)
			message(FATAL_ERROR "${list}: there is no ${folder}/${name}.c")
		endif()
		set(FG_LOCK_${name}_FILE ${include}/${name}.c PARENT_SCOPE)
		set(FG_LOCK_${name}_CLASS ${class} PARENT_SCOPE)
		set(FG_LOCK_${name}_NEEDS_SLICE ${slice} PARENT_SCOPE)
		set(fg_line_${name} "${line}\n" PARENT_SCOPE)
		list(APPEND found ${name})
		string(APPEND text "${line}\n")
	endforeach()
	set(${names} ${found} PARENT_SCOPE)
	set(${lines} "${text}" PARENT_SCOPE)
endfunction()

set(FG_PUBLISHED_LOCKS "" CACHE STRING "of the locks of lab/locks these alone are built, without tests; empty: all")
set(FG_LIB_LOCKS)
fg_lock_list(FG_LIB_LOCKS fg_lines lib/lock/LOCKS lib/lock/default lock/default)
set(FG_LOCKS ${FG_LIB_LOCKS})
if(EXISTS ${PROJECT_SOURCE_DIR}/lab/locks/LOCKS)
	fg_lock_list(FG_LOCKS fg_lines lab/locks/LOCKS lab/locks/published locks/published)
	foreach(name IN LISTS FG_LIB_LOCKS)
		if(NOT name IN_LIST FG_LOCKS)
			message(FATAL_ERROR "lab/locks/LOCKS does not say where ${name} of lib/lock/LOCKS stands")
		endif()
	endforeach()
endif()
file(STRINGS ${PROJECT_SOURCE_DIR}/lib/lock/LOCKS fg_head LIMIT_COUNT 1)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/LOCKS CONTENT "${fg_head}\n${fg_lines}" @ONLY)
