#!/bin/sh
# SPDX-License-Identifier: MIT
# The monitor is killed with -9 while a program runs, and another one is started: the program is counted again, if it
# was started with FLEXGUARD_RECONNECT=1; otherwise it makes no attempt. So is a program that was there before any
# monitor.
#
#   monitor-restarted.sh PREFIX LOCK
set -eu

prefix=$1 lock=$2
scratch=$(mktemp -d)
monitor='' workers=''
cleanup() {
	for process in $monitor $workers; do
		kill -9 "$process" 2> "$scratch/ignored" || true
	done
	rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM
FLEXGUARD_SOCKET=@flexguard-test-restarted.$$
export FLEXGUARD_SOCKET
. "$(dirname "$0")/start-monitor.sh"

start_worker() { # value of FLEXGUARD_RECONNECT
	FLEXGUARD_RECONNECT=$1 "$prefix/libexec/flexguard/fg-bench" shm --lock "$lock" --threads 4 --seconds 100 \
		--warmup 0 > "$scratch/out" 2>&1 &
	workers="$workers $!"
}

# Until so many processes are registered, and critical sections of theirs have been preempted.
await_counted() { # processes
	tries=0
	until monitor_status &&
		grep -q "^registered-processes: $1\$" "$scratch/status" &&
		grep -q '^preempted-holders: [1-9]' "$scratch/status"; do
		tries=$((tries + 1))
		[ $tries -lt 2000 ] || { echo "not counted: "; cat "$scratch/status"; exit 1; }
	done
}

start_worker 1 # before there is any monitor
start_monitor
start_worker 1
start_worker 0
await_counted 3
kill_monitor
start_monitor
await_counted 2
# Those that wanted to have had their second, and no third has come.
monitor_status
grep -q '^registered-processes: 2$' "$scratch/status"
for worker in $workers; do
	kill -0 "$worker" || { echo "a worker has died"; exit 1; }
done
