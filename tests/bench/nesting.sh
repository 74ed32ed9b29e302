#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# No thread of any workload asks for a third lock: tests/bench/nesting_lock.inc.h traps then.
#
#   nesting.sh WORKER WORKLOAD...
set -u
worker=$1
for workload in "${@:2}"; do
	options=(--threads 2 --seconds 0.1)
	[ "$workload" = index ] && options+=(--keys 5000) # every leaf is split several times
	timeout 60 "$worker" "$workload" --lock nesting "${options[@]}" >/dev/null || { echo "$workload: status $?"; exit 1; }
done
