#!/bin/sh
# SPDX-License-Identifier: MIT
# Every workload that waits by pthread calls runs on the models of glibc's functions, or on ours, and adds up:
# waits.sh SIMULATOR LOCK
set -eu
for workload in turns pipeline pool broadcast timed tokens barrier rwlock writegroup spinlock; do
	result=$("$1" "$workload" --lock "$2" --threads 6 --seconds 0.01 --warmup 0.001 --machine far --host-limit 60)
	case $result in
	*'"ops":0,'*) echo "$workload did nothing: $result" && exit 1 ;;
	*'"checksum_ok":true}') ;;
	*) echo "$workload: $result" && exit 1 ;;
	esac
done
