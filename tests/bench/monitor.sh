#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every worker registers with the Preemption Monitor, whatever its lock: else a benchmark would silently measure a lock
# without it.
#
#   monitor.sh PREFIX
set -u
prefix=$1
export FLEXGUARD_REQUIRE=1 # a worker waits for a monitor that is slow because the machine is busy
if ! "$prefix/bin/flexguard" run --monitor require -- true; then
	[ "${FLEXGUARD_REQUIRE_BPF:-}" = 1 ] && exit 1
	exit 77
fi
failed=0
# A worker carries its lock itself; nothing is to be preloaded.
for lock in $("$prefix/libexec/flexguard/fg-bench" --list | cut -f 1); do
	out=$("$prefix/bin/flexguard" run --lock posix --monitor require -- \
		"$prefix/libexec/flexguard/fg-bench" shm --lock "$lock" --threads 1 --seconds 0.01 --warmup 0)
	[ $? = 77 ] && continue # it cannot run here
	[[ $out == *'"monitor":true'* ]] || { echo "$lock: not registered: $out"; failed=1; }
done
exit $failed
