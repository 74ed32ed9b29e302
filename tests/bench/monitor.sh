#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every worker registers with the Preemption Monitor, whatever its lock: else a benchmark would silently measure a lock
# without it.
#
#   monitor.sh PREFIX
set -u
prefix=$1
export FLEXGUARD_REQUIRE=1 # a worker waits for a monitor that is slow because the machine is busy
export FLEXGUARD_SOCKET=@flexguard-test-bench-monitor-$$
scratch=$(mktemp -d)
trap 'kill "$monitor" 2>/dev/null; wait; rm -rf "$scratch"' EXIT
mkfifo "$scratch/told"
"$prefix/bin/flexguard" monitor --socket "$FLEXGUARD_SOCKET" >"$scratch/told" &
monitor=$!
read -r line <"$scratch/told"
if [[ $line != *ready* ]]; then
	[ "${FLEXGUARD_REQUIRE_BPF:-}" = 1 ] && exit 1
	exit 77
fi
failed=0
# A worker carries its lock itself.
for lock in $("$prefix/libexec/flexguard/fg-bench" --list | cut -f 1); do
	out=$("$prefix/libexec/flexguard/fg-bench" shm --lock "$lock" --threads 1 --seconds 0.01 --warmup 0)
	[ $? = 77 ] && continue # it cannot run here
	[[ $out == *'"monitor":true'* ]] || { echo "$lock: not registered: $out"; failed=1; }
done
exit $failed
