# SPDX-License-Identifier: MIT
# How C targets are compiled. The options stand in files, one a line, which Cargo's build scripts (lab/peers/rust,
# tests/checks/order) and what compiles by hand read, too: cmake/c-flags for every target (`fg_flags` carries them, and
# the include roots), c-flags-release for Release, c-flags-runtime for what goes into the library and the interposers.
set(fg_flags_file ${PROJECT_SOURCE_DIR}/cmake/c-flags)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
	${fg_flags_file} ${fg_flags_file}-release ${fg_flags_file}-runtime)
file(STRINGS ${fg_flags_file} FG_C_FLAGS)
file(STRINGS ${fg_flags_file}-release fg_release)
list(JOIN fg_release " " fg_release)
file(STRINGS ${fg_flags_file}-runtime FG_RUNTIME_FLAGS)
if(NOT FG_C_FLAGS MATCHES "-std=gnu([0-9]+)")
	message(FATAL_ERROR "cmake/c-flags names no standard of C")
endif()
set(CMAKE_C_STANDARD ${CMAKE_MATCH_1})
set(fg_options ${FG_C_FLAGS})
list(FILTER fg_options EXCLUDE REGEX "^-std=") # for C++, too

option(FG_WERROR "treat warnings as errors (on in CI; off for users, whose compiler we have not seen)" OFF)
set(FG_SANITIZE "" CACHE STRING "address, undefined, address,undefined or thread: for the unit and stress tests")

if(NOT CMAKE_BUILD_TYPE)
	set(CMAKE_BUILD_TYPE Release CACHE STRING "Release (${fg_release}), Debug (-O0 -g)" FORCE)
endif()
# NDEBUG is never defined: an assert in a test must not vanish in the build that is tested.
set(FG_RELEASE "${fg_release}" CACHE STRING "the flags of Release")
set(CMAKE_C_FLAGS_RELEASE "${FG_RELEASE}")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g")
set(CMAKE_CXX_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}") # tests and adapters around C++ locks
set(CMAKE_CXX_FLAGS_DEBUG "${CMAKE_C_FLAGS_DEBUG}")
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(fg_flags INTERFACE)
target_include_directories(fg_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/lib
	${PROJECT_SOURCE_DIR}/include)
target_compile_options(fg_flags INTERFACE ${fg_options})
target_link_libraries(fg_flags INTERFACE Threads::Threads)
if(FG_WERROR)
	target_compile_options(fg_flags INTERFACE -Werror)
endif()

# ThreadSanitizer sees no inline assembly, by which the locks of x86-64 take and release. So it sees the generic
# architecture, which is C (lib/runtime/arch/arch.h).
if(FG_SANITIZE)
	string(REPLACE "," ";" fg_sanitizers "${FG_SANITIZE}")
	foreach(sanitizer ${fg_sanitizers})
		if(NOT sanitizer MATCHES "^(address|undefined)$" AND NOT FG_SANITIZE STREQUAL "thread")
			message(FATAL_ERROR "FG_SANITIZE=${FG_SANITIZE}: choose address, undefined, address,undefined or thread")
		endif()
	endforeach()
	target_compile_options(fg_flags INTERFACE -fsanitize=${FG_SANITIZE} -fno-sanitize-recover=all
		-fno-omit-frame-pointer)
	target_link_options(fg_flags INTERFACE -fsanitize=${FG_SANITIZE})
	if(FG_SANITIZE STREQUAL "thread")
		target_compile_definitions(fg_flags INTERFACE FGI_ARCH_GENERIC)
	endif()
endif()
