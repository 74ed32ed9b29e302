# SPDX-License-Identifier: MIT
# The lists of locks: lib/lock/LOCKS has those that are shipped to be used, lab/locks/LOCKS those that are shipped to be
# compared with, and the order of all. A line is name, class, brief, properties; tab separated. The comment of
# lib/lock/LOCKS says what each property means. In the lab's list a name alone is a lock of the library's. Sets
#   FG_LOCKS               all names, in order
#   FG_LIB_LOCKS           those of lib/lock/LOCKS
#   FG_BROAD_LOCKS         those with the property `broad`
#   FG_LOCK_<name>_FILE    for FGI_LOCK_FILE: lock/default/<name>.inc.h or locks/published/<name>.inc.h
#   FG_LOCK_<name>_CLASS   spin, block or adaptive
#   FG_LOCK_<name>_NEEDS_SLICE   true or false
#   FG_LOCK_<name>_<PROPERTY>    its value, or ON where it has none; not set: the lock does not have it
# and writes LOCKS in the build's folder, which is installed: name, class, brief, and what the lock needs.

# The properties, and what their values look like; none: the property stands alone.
set(FG_PROPERTIES does needs intent critical decides parks spinless clock pool numa queue passive slices thread operations
	everywhere broad model detect builds)
file(STRINGS ${PROJECT_SOURCE_DIR}/lib/lock/LOCKS fg_value_does REGEX "^#   does=")
string(REGEX REPLACE "#   does=([a-z]+)[^;]*" "\\1" fg_value_does "${fg_value_does}")
string(REPLACE ";" "|" fg_value_does "${fg_value_does}")
set(fg_value_needs "slice")
set(fg_value_clock "[A-Z_]+=[0-9]+:[0-9]+")
set(fg_value_queue "|[a-z_]+")
set(fg_value_operations "[0-9]+")
set(fg_value_model "((word|owner):[0-9]+)?,?(tail:[0-9]+)?(,culls)?")
set(fg_value_detect "([a-z]+:[0-9]+,?)+")
set(fg_value_builds "all")

# fg_lock_properties(list name text): sets FG_LOCK_<name>_<PROPERTY> for its caller's caller
macro(fg_lock_properties list name text)
	string(REPLACE " " ";" fg_words "${text}")
	foreach(word IN LISTS fg_words)
		string(REGEX MATCH "^([a-z]+)(=(.+))?$" matched "${word}")
		set(property "${CMAKE_MATCH_1}")
		set(value "${CMAKE_MATCH_3}")
		if(NOT matched OR NOT property IN_LIST FG_PROPERTIES OR NOT value MATCHES "^(${fg_value_${property}})$")
			message(FATAL_ERROR "${list}: ${name}: no such property, or not its value: ${word}")
		endif()
		string(TOUPPER ${property} property)
		if(value STREQUAL "")
			set(value ON)
		endif()
		set(FG_LOCK_${name}_${property} ${value})
		set(FG_LOCK_${name}_${property} ${value} PARENT_SCOPE)
	endforeach()
	if(NOT FG_LOCK_${name}_DOES)
		message(FATAL_ERROR "${list}: ${name}: does=WHAT is missing")
	endif()
	if(FG_LOCK_${name}_MODEL AND NOT FG_LOCK_${name}_DETECT OR FG_LOCK_${name}_DETECT AND NOT FG_LOCK_${name}_MODEL)
		message(FATAL_ERROR "${list}: ${name}: model= and detect= come together")
	endif()
endmacro()

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
		if(NOT line MATCHES "^([a-z0-9_-]+)\t(spin|block|adaptive)\t([^\t]+)\t([^\t]+)$")
			message(FATAL_ERROR "${list}: not `name<TAB>spin|block|adaptive<TAB>brief<TAB>properties`: ${line}")
		endif()
		set(name ${CMAKE_MATCH_1})
		set(class ${CMAKE_MATCH_2})
		set(shown "${name}\t${class}\t${CMAKE_MATCH_3}")
		fg_lock_properties(${list} ${name} "${CMAKE_MATCH_4}")
		set(slice false)
		if("${FG_LOCK_${name}_NEEDS}" STREQUAL "slice")
			set(slice true)
			string(APPEND shown "\tneeds=slice")
		endif()
		if(name IN_LIST found OR name IN_LIST FG_LIB_LOCKS)
			message(FATAL_ERROR "${list}: ${name} is there twice")
		endif()
		if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${folder}/${name}.inc.h)
			message(FATAL_ERROR "${list}: there is no ${folder}/${name}.inc.h")
		endif()
		set(FG_LOCK_${name}_FILE ${include}/${name}.inc.h PARENT_SCOPE)
		set(FG_LOCK_${name}_CLASS ${class} PARENT_SCOPE)
		set(FG_LOCK_${name}_NEEDS_SLICE ${slice} PARENT_SCOPE)
		set(fg_line_${name} "${shown}\n" PARENT_SCOPE)
		list(APPEND found ${name})
		string(APPEND text "${shown}\n")
	endforeach()
	set(${names} ${found} PARENT_SCOPE)
	set(${lines} "${text}" PARENT_SCOPE)
endfunction()

# fg_locks_with(result PROPERTY): the locks that have it
function(fg_locks_with result property)
	set(found)
	foreach(lock IN LISTS FG_LOCKS)
		if(FG_LOCK_${lock}_${property})
			list(APPEND found ${lock})
		endif()
	endforeach()
	set(${result} ${found} PARENT_SCOPE)
endfunction()

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
fg_locks_with(FG_BROAD_LOCKS BROAD)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/LOCKS @ONLY CONTENT
	"# name\tclass\tbrief\t[needs=slice: the kernel's time-slice extension]\n${fg_lines}")
