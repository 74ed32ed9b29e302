#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every worker registers with the Preemption Monitor, whatever its lock: else a benchmark would silently measure a lock
# without it.
#
#   monitor.sh PREFIX
set -u
prefix=$1
if ! "$prefix/bin/flexguard" run --monitor require -- true; then
	[ "${FLEXGUARD_REQUIRE_BPF:-}" = 1 ] && exit 1
	exit 77
fi
failed=0
while IFS=$'\t' read -r lock kind; do
	preload=$lock # a worker carries its lock itself; that of others cannot be preloaded
	[ "$kind" = own ] || preload=posix
	out=$("$prefix/bin/flexguard" run --lock "$preload" --monitor require -- \
		"$prefix/libexec/flexguard/fg-bench" shm --lock "$lock" --threads 1 --seconds 0.01 --warmup 0)
	[ $? = 77 ] && continue # it cannot run here
	[[ $out == *'"monitor":true'* ]] || { echo "$lock: not registered: $out"; failed=1; }
done < <("$prefix/libexec/flexguard/fg-bench" --list)
exit $failed
