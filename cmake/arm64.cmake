# SPDX-License-Identifier: MIT
# The C side for arm64, built on another machine with Debian's cross compiler (scripts/bootstrap arm64):
#   cmake -S . -B build/.cmake-arm64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/arm64.cmake
# ctest then runs the programs under user-mode emulation. `make arm64` and `make check-arm64` do all of this.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

# Headers and libraries of this machine are not arm64's. Programs (pkg-config, gdb) are this machine's.
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_CURRENT_LIST_DIR}/../tests/arm64/emulate)
