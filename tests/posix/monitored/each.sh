#!/bin/sh
# SPDX-License-Identifier: MIT
# Programs of tests/posix and tests/conformance under a lock, one after the other, each with a tenth of its rounds unless
# FG_TEST_SHORT says otherwise.
#
#   each.sh LOCK INTERPOSER PROGRAM[:ARGUMENT]...
set -u

export FG_TEST_LOCK="$1" FG_TEST_SHORT="${FG_TEST_SHORT:-10}"
interposer=$2
shift 2

uptime_ms() # not of date, whose nanoseconds busybox does not know
{
	read -r seconds _ </proc/uptime
	echo "${seconds%.*}${seconds#*.}0"
}

failed=
for pair; do
	program=${pair%%:*} argument=${pair#*:}
	began=$(uptime_ms)
	if [ "$argument" = "$pair" ]; then
		LD_PRELOAD=$interposer "$program"
	else
		LD_PRELOAD=$interposer "$program" "$argument"
	fi
	status=$?
	echo "$(basename "$program"): status $status after $(($(uptime_ms) - began)) ms"
	[ $status = 0 ] || [ $status = 77 ] || failed="$failed $(basename "$program")"
done
[ -z "$failed" ] || { echo "failed under $FG_TEST_LOCK:$failed"; exit 1; }
