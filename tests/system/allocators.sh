#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A program on an allocator that is preloaded, without an interposer and with one before it and behind it.
#
#   allocators.sh PROGRAM LIBRARY FUNCTION LOCK=INTERPOSER...     a function that only that library has
set -euo pipefail
program=$1 library=$2 function=$3
found=$(compgen -G "/usr/lib/*/$library.so.*" || compgen -G "/usr/lib*/$library.so.*" || compgen -G "/usr/lib/*/$library.so") ||
	{ echo "$library is not installed: scripts/bootstrap check installs it" >&2; exit 77; }
found=${found%%$'\n'*}

under() # lock, what to preload
{
	FG_TEST_LOCK=$1 LD_PRELOAD=$2 FLEXGUARD_SOCKET='' "$program" "$function" || { echo "failed: $1, LD_PRELOAD=$2" >&2; exit 1; }
}
under glibc "$found"
for pair in "${@:4}"; do
	under "${pair%%=*}" "${pair#*=}:$found"
	under "${pair%%=*}" "$found:${pair#*=}"
done
