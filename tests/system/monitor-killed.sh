#!/bin/sh
# SPDX-License-Identifier: MIT
# The monitor is killed with -9 under load: the programs it served go on, and do not collapse (I7).
#
#   monitor-killed.sh PREFIX LOCK
#
# The worker checks mutual exclusion itself (exit status 3) and that it ends. Collapse means orders of magnitude, so
# that is what is looked for: less than a twentieth of what the same lock does when it never had a monitor.
set -eu

prefix=$1 lock=$2
scratch=$(mktemp -d)
monitor=
cleanup() {
	[ -z "$monitor" ] || kill -9 "$monitor" 2> "$scratch/ignored" || true
	rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM
FLEXGUARD_SOCKET=@flexguard-test-killed.$$
export FLEXGUARD_SOCKET
. "$(dirname "$0")/start-monitor.sh"

load() { # seconds, and seconds before that are not counted
	"$prefix/libexec/flexguard/fg-bench" shm --lock "$lock" --threads 8 --seconds "$1" --warmup "$2"
}
throughput() { # file
	sed -n 's/.*"throughput_ops_per_ms":\([0-9.]*\).*/\1/p' "$1"
}

start_monitor
began=$(date +%s%N)
load 1 3 > "$scratch/killed" &
worker=$!
# Kill it once the worker is registered and critical sections are being preempted.
tries=0
until monitor_status && grep -q '^preempted-holders: [1-9]' "$scratch/status"; do
	tries=$((tries + 1))
	[ $tries -lt 1000 ] || { echo "no critical section was ever preempted"; cat "$scratch/status"; exit 1; }
done
kill_monitor
# So that all of the throughput is from after the kill.
[ $(($(date +%s%N) - began)) -lt 3000000000 ] || { echo "the monitor was killed too late to measure what comes after"; exit 1; }
wait "$worker" || { echo "the worker failed after its monitor was killed: $?"; exit 1; }

load 1 0 > "$scratch/never" # no monitor listens there any more
killed=$(throughput "$scratch/killed") never=$(throughput "$scratch/never")
echo "$lock: killed under load $killed ops/ms, never a monitor $never ops/ms"
awk -v k="$killed" -v n="$never" 'BEGIN { exit !(n > 0 && k > n / 20) }'
