#!/bin/sh
# SPDX-License-Identifier: MIT
# On many CPUs that idle, the sleepers of a broadcast wake beside one another: broadcast.sh INTERPOSED POSIX
set -eu
throughput() # SIMULATOR LOCK
{
	"$1" broadcast --lock "$2" --threads 32 --seconds 0.02 --warmup 0.006 --machine socket-64 --host-limit 60 |
		sed 's/.*"throughput_ops_per_ms":\([0-9.]*\).*/\1/'
}
ours=$(throughput "$1" interposed) glibc=$(throughput "$2" posix)
echo "$ours operations a ms, glibc's model $glibc"
awk "BEGIN { exit !($ours > 0.8 * $glibc) }"
