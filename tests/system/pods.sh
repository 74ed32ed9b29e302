#!/bin/sh
# SPDX-License-Identifier: MIT
# As the pods of packaging/kubernetes are: a monitor that is root with two capabilities and no other, started by the
# DaemonSet's command on a BPF file system of the test's own, and a program of an ordinary user, without any, in
# namespaces of its own. The program is watched, also by the next monitor, after the first was ended as a pod is. The
# pod's other container serves what that monitor counts.
#
#   pods.sh PREFIX
set -eu

prefix=$1
[ "$(id -u)" = 0 ] || { echo 'only root can give capabilities away'; exit 77; }
if [ "${2:-}" != inside ]; then
	exec setpriv --pdeathsig KILL unshare --mount --propagation private "$0" "$prefix" inside
fi
scratch=$(mktemp -d)
monitor='' worker='' metrics=''
cleanup() {
	for process in $monitor $worker $metrics; do
		kill -9 "$process" 2> "$scratch/ignored" || true
	done
	rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$scratch"
mkdir -m 755 "$scratch/socket"
mount -t tmpfs tmpfs /mnt
mkdir /mnt/bpf
mount -t bpf bpf /mnt/bpf
FLEXGUARD_SOCKET=$scratch/socket/monitor.sock
PATH=$prefix/bin:$PATH
export FLEXGUARD_SOCKET PATH
. "$(dirname "$0")/start-monitor.sh"

unprivileged='setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs
	--pdeathsig KILL'
manifest=$(dirname "$0")/../../packaging/kubernetes/monitor.yaml
as_client() { # command...
	# shellcheck disable=SC2086 # a command and its arguments
	unshare --pid --fork --kill-child --mount --net --ipc --uts $unprivileged "$@"
}
client() {
	as_client env FLEXGUARD_REQUIRE=1 flexguard run --stats -- sh -c 'exit 3' 2> "$scratch/err"
}
fail() { echo "pods: $1"; cat "$scratch/err"; exit 1; }

# As start_monitor, with what the DaemonSet runs. The shell is $pod, and its child $monitor.
start_pod() {
	command=$(sed -n 's/^ *command: \[sh, -c, "\(.*\)"\]$/\1/p' "$manifest")
	[ -n "$command" ] || { echo 'the DaemonSet has no such command'; exit 1; }
	[ -p "$scratch/ready" ] || mkfifo "$scratch/ready"
	setpriv --inh-caps=-all,+bpf,+perfmon --bounding-set=-all,+bpf,+perfmon --no-new-privs sh -c "$command" \
		> "$scratch/ready" 2> "$scratch/log" &
	pod=$!
	exec 3< "$scratch/ready"
	grep -m 1 -q ready <&3 || {
		cat "$scratch/log"
		[ "${FLEXGUARD_REQUIRE_BPF:-}" = 1 ] && exit 1
		exit 77
	}
	monitor=$(tr -d ' ' < "/proc/$pod/task/$pod/children")
	grep -q "^CapEff:[[:space:]]*000000c000000000$" "/proc/$monitor/status" || { echo 'other capabilities'; exit 1; }
}

value() { # name
	monitor_status
	sed -n "s/^$1: //p" "$scratch/status"
}

await_counted() { # preempted holders: until more of them have been
	tries=0
	until [ "$(value preempted-holders)" -gt "$1" ]; do
		tries=$((tries + 1))
		[ $tries -lt 2000 ] || { echo 'the program is not counted'; cat "$scratch/status"; exit 1; }
	done
}

status=0
client || status=$?
[ "$status" = 125 ] || fail "without a monitor the client ended with $status, not 125"

start_pod
status=0
client || status=$?
[ "$status" = 3 ] || fail "the client ended with $status, not 3"
grep -q '^registered-processes: [1-9]' "$scratch/err" || fail 'the client was not watched'

as_client "$prefix/libexec/flexguard/fg-bench" shm --lock flexguard --threads 8 --seconds 100 --warmup 0 \
	> "$scratch/out" 2> "$scratch/err" &
worker=$!
await_counted 0
kill -TERM "$pod"
wait "$pod" || fail "the pod ended with $?"
[ ! -e "/proc/$monitor" ] || fail 'the monitor outlives its pod'
monitor=
start_pod
[ "$(value registered-processes)" = 0 ] || fail 'the program had to register again'
await_counted "$(value preempted-holders)"

# The port is one that is free here.
command=$(sed -n 's/^ *command: \[\(flexguard, metrics, .*:\)9477\(.*\)\]$/\10\2/p' "$manifest" | tr -d '",')
[ -n "$command" ] || { echo 'the DaemonSet serves no metrics'; exit 1; }
mkfifo "$scratch/serves"
# shellcheck disable=SC2086 # a command and its arguments
$unprivileged $command > "$scratch/serves" 2> "$scratch/err" &
metrics=$!
read -r line < "$scratch/serves" || fail 'no metrics'
python3 -c 'import sys, urllib.request as web; print(web.urlopen(sys.argv[1]).read().decode())' \
	"http://127.0.0.1:${line##*:}/metrics" > "$scratch/out"
grep -qx 'flexguard_up 1' "$scratch/out" || { cat "$scratch/out"; fail 'the metrics know no monitor'; }
grep -q 'warning: other machines' "$scratch/err" || fail 'no warning'
