#!/bin/sh
# SPDX-License-Identifier: MIT
# Random operations (tests/random/random.c) under a lock while the monitor is killed with -9 and started again, at random.
#
#   random.sh PREFIX LOCK PROGRAM SECONDS [SEED]
set -eu

prefix=$1 lock=$2 program=$3 seconds=$4 seed=${5:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
scratch=$(mktemp -d)
monitor=''
worker=''
cleanup() {
	[ -z "$monitor" ] || kill -9 "$monitor" 2> "$scratch/ignored" || true
	[ -z "$worker" ] || kill -9 "$worker" 2> "$scratch/ignored" || true
	rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM
FLEXGUARD_SOCKET=@flexguard-test-random.$$
export FLEXGUARD_SOCKET
. "$(dirname "$0")/../system/start-monitor.sh"

start_monitor
FLEXGUARD_RECONNECT=1 FG_TEST_LOCK=$lock LD_PRELOAD=$prefix/lib/flexguard/$lock.so "$program" "$seconds" "$seed" &
worker=$!
# It registers when it starts: with this monitor, so at least one serves it.
until monitor_status && grep -q '^registered-processes: [1-9]' "$scratch/status"; do
	kill -0 "$worker" 2> "$scratch/ignored" || break
done
served=0 killed=0
grep -q '^registered-processes: [1-9]' "$scratch/status" && served=1
while kill -0 "$worker" 2> "$scratch/ignored"; do
	random=$(od -An -N1 -tu1 /dev/urandom | tr -d ' ')
	# A program whose monitor was killed registers again after a second.
	[ -z "$monitor" ] || [ "$killed" = 0 ] || random=$((random + 100))
	sleep "$((random * 12 / 1000)).$(printf %03d $((random * 12 % 1000)))"
	[ -n "$monitor" ] || { start_monitor && continue; }
	if [ "$killed" -gt 0 ]; then # the first has been counted
		monitor_status && grep -q '^registered-processes: [1-9]' "$scratch/status" && served=$((served + 1))
	fi
	kill_monitor
	killed=$((killed + 1))
done
wait "$worker" || { echo "$lock failed with seed $seed: $?"; exit 1; }
worker=
echo "monitors: $killed killed, $served of them served it"
[ "$served" -gt 0 ] || { echo "no monitor ever served the program"; exit 1; }
