#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# fg-bench with a lock that excludes nobody: it must say so and end with 3. In sections of a million cycles four threads
# meet, also on one CPU.
set -u
out=$(timeout 60 "$1" shm --lock broken --threads 4 --seconds 0.5 --cycles-between 0 --section-cycles 1000000)
status=$?
echo "$out"
[ $status = 3 ] && [[ $out == *'"checksum_ok":false'* ]]
