# SPDX-License-Identifier: MIT
# Reads locks/LOCKS (name, class, brief, perhaps needs=WHAT; tab separated) into
#   FG_LOCKS               the names, in the file's order
#   FG_LOCK_<name>_FILE    for FGI_LOCK_FILE: <name>.c of locks/published/ or locks/default/
#   FG_LOCK_<name>_CLASS   spin, block or adaptive
#   FG_LOCK_<name>_NEEDS_SLICE   true or false
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/locks/LOCKS)
file(STRINGS ${PROJECT_SOURCE_DIR}/locks/LOCKS fg_lines REGEX "^[^#]")
set(FG_LOCKS)
foreach(line IN LISTS fg_lines)
	if(NOT line MATCHES "^([a-z0-9_-]+)\t(spin|block|adaptive)\t[^\t]+(\tneeds=slice)?$")
		message(FATAL_ERROR "locks/LOCKS: not `name<TAB>spin|block|adaptive<TAB>brief[<TAB>needs=slice]`: ${line}")
	endif()
	set(name ${CMAKE_MATCH_1})
	set(FG_LOCK_${name}_CLASS ${CMAKE_MATCH_2})
	set(FG_LOCK_${name}_NEEDS_SLICE false)
	if(CMAKE_MATCH_3)
		set(FG_LOCK_${name}_NEEDS_SLICE true)
	endif()
	if(name IN_LIST FG_LOCKS)
		message(FATAL_ERROR "locks/LOCKS: ${name} stands there twice")
	endif()
	foreach(folder published default)
		if(EXISTS ${PROJECT_SOURCE_DIR}/locks/${folder}/${name}.c)
			set(FG_LOCK_${name}_FILE locks/${folder}/${name}.c)
		endif()
	endforeach()
	if(NOT FG_LOCK_${name}_FILE)
		message(FATAL_ERROR "locks/LOCKS: ${name} has no file ${name}.c in locks/published/ or locks/default/")
	endif()
	list(APPEND FG_LOCKS ${name})
endforeach()
