#!/bin/sh
# SPDX-License-Identifier: MIT
# As the pods of packaging/kubernetes are: a monitor that is root with two capabilities and no other, and a program of
# an ordinary user, without any, in namespaces of its own. The program is watched.
#
#   pods.sh PREFIX
set -eu

prefix=$1
[ "$(id -u)" = 0 ] || { echo 'only root can give capabilities away'; exit 77; }
scratch=$(mktemp -d)
monitor=''
cleanup() {
	[ -z "$monitor" ] || kill -9 "$monitor" 2> "$scratch/ignored" || true
	rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$scratch"
mkdir -m 755 "$scratch/socket"
FLEXGUARD_SOCKET=$scratch/socket/monitor.sock
export FLEXGUARD_SOCKET
. "$(dirname "$0")/start-monitor.sh"

client() {
	unshare --pid --fork --kill-child --mount --net --ipc --uts setpriv --reuid=65534 --regid=65534 --clear-groups \
		--inh-caps=-all --bounding-set=-all --no-new-privs env FLEXGUARD_REQUIRE=1 \
		"$prefix/bin/flexguard" run --stats -- sh -c 'exit 3' 2> "$scratch/err"
}
fail() { echo "pods: $1"; cat "$scratch/err"; exit 1; }

status=0
client || status=$?
[ "$status" = 125 ] || fail "without a monitor the client ended with $status, not 125"

# shellcheck disable=SC2034 # start-monitor.sh uses it
confined='setpriv --inh-caps=-all,+bpf,+perfmon --bounding-set=-all,+bpf,+perfmon --no-new-privs'
start_monitor
grep -q "^CapEff:[[:space:]]*000000c000000000$" "/proc/$monitor/status" || { echo 'other capabilities'; exit 1; }
status=0
client || status=$?
[ "$status" = 3 ] || fail "the client ended with $status, not 3"
grep -q '^registered-processes: [1-9]' "$scratch/err" || fail 'the client was not watched'
