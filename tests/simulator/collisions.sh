#!/bin/sh
# SPDX-License-Identifier: MIT
# Futex calls for each section of two threads with 400 cycles between their sections, on CPUs of two complexes. On
# hardware 0.23 (docs/results/simulator.md): collisions.sh WORKER
set -eu
result=$("$1" shm --cycles-between 400 --lock posix --threads 2 --seconds 0.01 --warmup 0.002 --machine far)
value() # name
{
	echo "$result" | sed "s/.*\"$1\":\([0-9]*\).*/\1/"
}
calls=$(($(value futex_waits) + $(value futex_wakes))) ops=$(value ops)
echo "$calls calls, $ops sections"
[ "$calls" -gt $((ops / 10)) ] && [ "$calls" -lt $((ops / 2)) ]
