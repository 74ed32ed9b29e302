# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# To be sourced. A monitor of the test's own, at $FLEXGUARD_SOCKET, with its output in $scratch; $prefix is where `make`
# assembled everything.
# shellcheck disable=SC2154 # the three are the test's

# Leaves its process id in $monitor once it is ready. It is started by $confined, if that is set.
# Ends the test with 77 where it cannot load.
start_monitor() {
	[ -p "$scratch/ready" ] || mkfifo "$scratch/ready"
	# shellcheck disable=SC2086 # a command and its arguments
	${confined:-} "$prefix/bin/flexguard" monitor --socket "$FLEXGUARD_SOCKET" \
		> "$scratch/ready" 2> "$scratch/log" &
	monitor=$!
	exec 3< "$scratch/ready"
	read -r line <&3 || {
		cat "$scratch/log"
		[ "${FLEXGUARD_REQUIRE_BPF:-}" = 1 ] && exit 1
		exit 77
	}
	case $line in
	*ready*) ;;
	*) echo "the monitor said: $line"; exit 1 ;;
	esac
}

kill_monitor() { # -9; when this returns, no monitor answers any more
	kill -9 "$monitor"
	wait "$monitor" 2> "$scratch/ignored" || true
	monitor=
}

monitor_status() { # into $scratch/status
	"$prefix/bin/flexguard" monitor --status --socket "$FLEXGUARD_SOCKET" > "$scratch/status"
}
