#!/bin/sh
# SPDX-License-Identifier: MIT
# The monitor is killed with -9 under load: the programs it served go on, and do not collapse (I7).
#
#   monitor-killed.sh PREFIX LOCK
#
# The worker checks mutual exclusion itself (exit status 3) and that it ends. In the second that begins one second after
# the kill it is to do what the same lock does without a monitor, on which it falls back. Runs of both take turns; the
# median of the ratios is 0.74 to 0.93 on a quiet machine, and a third is asked for.
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

# False if the machine was so busy that there is nothing to measure.
killed_under_load() {
	start_monitor
	began=$(date +%s%N)
	load 1 2 > "$scratch/killed" &
	worker=$!
	tries=0
	until monitor_status && grep -q '^preempted-holders: [1-9]' "$scratch/status"; do
		tries=$((tries + 1))
		[ $tries -lt 1000 ] || { echo "no critical section was ever preempted"; cat "$scratch/status"; exit 1; }
	done
	# What is counted begins 2 s after the start, and is to begin one second after the kill.
	passed=$(($(date +%s%N) - began))
	[ $passed -ge 1000000000 ] || sleep "$(awk -v ns=$((1000000000 - passed)) 'BEGIN { print ns / 1e9 }')"
	kill -0 "$monitor" || { echo "the monitor has died by itself"; exit 1; }
	kill_monitor
	wait "$worker" || { echo "the worker failed after its monitor was killed: $?"; exit 1; }
	[ $passed -lt 1000000000 ] || { echo "critical sections were preempted too late to measure what comes after"; return 1; }
}

for round in 1 2 3; do
	until killed_under_load; do :; done
	load 1 0 > "$scratch/never" # no monitor listens there any more
	killed=$(throughput "$scratch/killed") never=$(throughput "$scratch/never")
	echo "$lock, $round: killed under load $killed ops/ms, without a monitor $never ops/ms"
	awk -v k="$killed" -v n="$never" 'BEGIN { print k / n }' >> "$scratch/ratios"
done
median=$(sort -g "$scratch/ratios" | sed -n 2p)
echo "$lock: median $median"
awk -v m="$median" 'BEGIN { exit !(m > 1 / 3) }'
