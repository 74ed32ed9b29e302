#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs a command beside a monitor. Ends as the command does, with 1 if no process of it has registered, or with 77 where
# no monitor can be had.
#
#   on.sh PREFIX COMMAND ARGUMENTS...
set -u

prefix=$1
shift
stats=$(mktemp)
trap 'rm -f "$stats"' EXIT
"$prefix/bin/flexguard" run --lock posix --monitor require --stats --stats-file "$stats" -- "$@"
status=$?
# 125: the command itself failed, that is, no monitor can be had here.
[ $status != 125 ] || [ "${FLEXGUARD_REQUIRE_BPF:-}" = 1 ] || exit 77
grep -E '^(monitor|registered-processes|preempted-critical-sections|mode-transitions):' "$stats"
grep -q '^registered-processes: [1-9]' "$stats" || { echo "no process has registered"; exit 1; }
exit $status
