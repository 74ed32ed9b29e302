#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a program beside a monitor: the one that serves this machine, or one for the occasion.
#
#   with-monitor.sh PREFIX PROGRAM ARGUMENTS...
set -u

prefix=$1
shift
export FLEXGUARD_REQUIRE=1 # or the program would not wait for the monitor for long on a busy machine
"$prefix/bin/flexguard" run --lock posix --monitor require -- "$@"
status=$?
# 125: the command itself failed, that is, no monitor can be had here.
[ $status = 125 ] && [ "${FLEXGUARD_REQUIRE_BPF:-}" != 1 ] && exit 77
exit $status
