#!/bin/sh
# SPDX-License-Identifier: MIT
# Trees of processes (lifecycle.c) that come, change and die, beside a monitor that is stopped, starved, ended, killed and
# started again. Afterwards nothing is counted or watched, the monitor has as many descriptors as before, hardly more
# memory, and no process is left.
#
#   lifecycles.sh PREFIX LOCK PROGRAM SECONDS [SEED]
#
# OLDER in the environment is the prefix of another build, with another version of the ABI, say: half of the monitors that
# are started are of that one.
set -eu

prefix=$1 lock=$2 program=$3 seconds=$4 seed=${5:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
trees=4
scratch=$(mktemp -d)
monitor='' running='' groups=''
cleanup() {
	[ -z "$monitor" ] || kill -9 "$monitor" 2> "$scratch/ignored" || true
	for tree in $running; do
		kill -9 "$tree" 2> "$scratch/ignored" || true
	done
	for group in $groups; do
		rmdir "$group" 2> "$scratch/ignored" || true
	done
	rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM
FLEXGUARD_SOCKET=@flexguard-test-lifecycles.$$
export FLEXGUARD_SOCKET
. "$(dirname "$0")/../system/start-monitor.sh"

fail() {
	echo "$lock, seed $seed: $*" >&2
	exit 1
}

# The next of a sequence that the seed fixes, below $1.
state=$seed
draw() {
	state=$(((state * 1103515245 + 12345) % 2147483648))
	drawn=$((state / 65536 % $1))
}

descriptors() {
	find "/proc/$monitor/fd" -mindepth 1 | wc -l
}

memory() { # kB
	sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$monitor/status"
}

value() { # of a counter in the status
	sed -n "s/^$1: *\([0-9]*\).*/\1/p" "$scratch/status"
}

# Until the monitor that serves now watches nothing, and counts nothing.
settle() {
	deadline=$(($(date +%s) + 60))
	while :; do
		"$prefix/bin/flexguard" status --json > "$scratch/status.json" 2> "$scratch/why" &&
			tr -d ' \n' < "$scratch/status.json" > "$scratch/flat" &&
			grep -q '"counter":0,' "$scratch/flat" && grep -q '"programs":\[\],' "$scratch/flat" &&
			grep -q '"preempted_now":\[\]' "$scratch/flat" && return
		[ "$(date +%s)" -lt "$deadline" ] || fail "at rest: $(cat "$scratch/flat" "$scratch/why")"
		sleep 0.1
	done
}

start_any() { # of the two builds
	own=$prefix of_other=''
	if [ -n "${OLDER:-}" ]; then
		draw 2
		[ "$drawn" = 0 ] || { prefix=$OLDER of_other=1 events="$events other"; }
	fi
	start_monitor
	prefix=$own
}

end_monitor() {
	kill -TERM "$monitor"
	wait "$monitor" || fail "the monitor ended with $?: $(cat "$scratch/log")"
	exec 3<&- # with what it has said
}

for name in a b; do
	for mount in /sys/fs/cgroup/unified /sys/fs/cgroup; do
		group=$mount/flexguard-test-lifecycles.$$.$name
		[ -e "$mount/cgroup.procs" ] && mkdir "$group" 2> "$scratch/ignored" && groups="$groups $group" && break
	done
done
start_monitor
settle
fds=$(descriptors) rss=$(memory)
for tree in $(seq $trees); do
	draw 1000000
	# shellcheck disable=SC2086 # paths without spaces
	FLEXGUARD_RECONNECT=1 LD_PRELOAD=$prefix/lib/flexguard/$lock.so "$program" "$seconds" $((drawn + tree)) $groups 3<&- &
	running="$running $!"
done

events='' of_other=''
until_time=$(($(date +%s) + seconds))
while [ "$(date +%s)" -lt "$until_time" ]; do
	draw 1500
	sleep "$((drawn / 1000)).$(printf %03d $((drawn % 1000)))"
	draw 5
	case $drawn in
	0)
		kill -STOP "$monitor"
		sleep 0.3
		kill -CONT "$monitor"
		events="$events stopped"
		;;
	1)
		kill_monitor
		draw 2
		sleep "0.$drawn"
		start_any
		events="$events killed"
		;;
	2)
		end_monitor
		start_any
		events="$events ended"
		;;
	3)
		chrt -i -a -p 0 "$monitor" > "$scratch/ignored" 2>&1 || true
		events="$events starved"
		;;
	*) chrt -o -a -p 0 "$monitor" > "$scratch/ignored" 2>&1 || true ;;
	esac
done
for tree in $running; do
	wait "$tree" || fail "a tree ended with $?"
done
running=''
if [ -n "$of_other" ]; then # what it says at rest, only it knows
	end_monitor
	start_monitor
fi
settle
left=$(pgrep -f "^$program " | wc -l)
[ "$left" = 0 ] || fail "$left processes are left"
[ "$(descriptors)" -le $((fds + 2)) ] || fail "descriptors: $fds before, $(descriptors) now"
[ "$(memory)" -le $((rss + 8192)) ] || fail "memory: $rss kB before, $(memory) kB now"
"$prefix/bin/flexguard" monitor --status > "$scratch/status"
echo "seed $seed; events:$(printf '%s\n' $events | sort | uniq -c | tr -s ' \n' ' ')"
