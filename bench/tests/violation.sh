#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# fg-bench with a lock that excludes nobody: it must say so and end with 3. The sections are long, so that four threads
# meet, also on one CPU: a million cycles, or a walk along a thousand entries.
#
#   violation.sh WORKER shm|hashtable
set -u
case $2 in
shm) options=(--cycles-between 0 --section-cycles 1000000) ;;
hashtable) options=(--buckets 1 --keys 2000 --update-ratio 1 --theta 0) ;;
esac
out=$(timeout 60 "$1" "$2" --lock broken --threads 4 --seconds 0.5 "${options[@]}")
status=$?
echo "$out"
[ $status = 3 ] && [[ $out == *'"checksum_ok":false'* ]]
