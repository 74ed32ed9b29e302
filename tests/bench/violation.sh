#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# fg-bench with a lock that excludes nobody: it must say so and end with 3. The sections are long, so that four threads
# meet, also on one CPU: longer than a time slice, a million cycles, a walk along a thousand entries, or a yield.
#
#   violation.sh WORKER WORKLOAD [PRELOADED]
set -u
case $2 in
shm) options=(--cycles-between 0 --section-cycles 1000000) ;;
hashtable | hotlock) options=(--buckets 1 --keys 2000 --update-ratio 1 --theta 0) ;;
server | pipeline) options=(--section-us 20000) ;;
phases) options=(--section-us 20000 --sections 2) ;;
yielding) options=(--lock-count 1) ;;
tokens) options=(--hold-us 20000) ;;
pool | broadcast) options=(--think-us 0 --section-us 20000) ;;
*) options=() ;;
esac
lock=broken
[ $# = 3 ] && lock=posix && export LD_PRELOAD=$3
# Until two of the threads have had a CPU in a section: in a tenth of a second the machine may have given none.
for seconds in 0.1 1 10; do
	out=$(timeout 60 "$1" "$2" --lock $lock --threads 4 --warmup 0 --seconds $seconds "${options[@]}")
	status=$?
	echo "$out"
	[ $status = 0 ] || break
done
[ $status = 3 ] && [[ $out == *'"checksum_ok":false'* ]]
