#!/bin/sh
# SPDX-License-Identifier: MIT
# Clients in namespaces of their own, as containers have them, and in a chroot: each registers through a bind mount of
# the socket's directory, with FLEXGUARD_SOCKET unset, and its preempted critical sections are counted.
#
#   namespaces.sh PREFIX
set -eu

prefix=$1
[ "$(id -u)" = 0 ] || { echo 'only root can mount and become another user'; exit 77; }
if [ "${2:-}" != inside ]; then
	# What is mounted is seen by the inner script alone, and ends with it. Here there are empty directories to remove.
	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	trap 'exit 1' HUP INT TERM
	status=0
	setpriv --pdeathsig KILL unshare --mount --propagation private "$0" "$prefix" inside "$scratch" || status=$?
	exit $status
fi
scratch=$3
monitor='' client='' program=''
cleanup() { # removes nothing: the host's files are mounted below
	for process in $monitor $client $program; do
		kill -9 "$process" 2> "$scratch/ignored" || true
	done
}
trap cleanup EXIT
trap 'exit 1' HUP INT TERM
chmod 755 "$scratch"
mkdir -m 755 "$scratch/socket" "$scratch/root"
FLEXGUARD_SOCKET=$scratch/socket/monitor.sock
export FLEXGUARD_SOCKET
. "$(dirname "$0")/start-monitor.sh"
start_monitor

# As in a container: the socket at its usual place, on a mount of its own. And the same files again, for chroot.
mount -t tmpfs -o mode=755 run /run
mkdir -m 755 /run/flexguard
mount --bind "$scratch/socket" /run/flexguard
mount -o remount,bind,ro /run/flexguard
mount --rbind / "$scratch/root"

# What unshare's --kill-child has set goes with the user.
nobody='setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs'
nobody="$nobody --pdeathsig KILL"
worker="env -u FLEXGUARD_SOCKET $prefix/libexec/flexguard/fg-bench shm --lock flexguard-sosp25 --threads 8
	--seconds 100 --warmup 0"

value() { # name
	monitor_status
	sed -n "s/^$1: //p" "$scratch/status"
}

# The name of a case, and what runs the worker. Ends it when it has registered and been counted.
watched() {
	name=$1
	shift
	before=$(value registered-processes)
	holders=$(value preempted-holders)
	# shellcheck disable=SC2086 # a command and its arguments
	"$@" $worker > "$scratch/out" 2>&1 &
	client=$!
	tries=0
	until [ "$(value registered-processes)" -gt "$before" ] && [ "$(value preempted-holders)" -gt "$holders" ]; do
		tries=$((tries + 1))
		[ $tries -lt 2000 ] || { echo "$name: not watched"; cat "$scratch/out" "$scratch/status"; exit 1; }
	done
	program=$(tr -d ' ' < "/proc/$client/task/$client/children")
	kill -9 "$client"
	wait "$client" 2> "$scratch/ignored" || true
	client=
	tries=0
	while [ -e "/proc/$program" ]; do
		tries=$((tries + 1))
		[ $tries -lt 1000 ] || { echo "$name: the worker outlives unshare"; exit 1; }
		sleep 0.01
	done
	program=
	echo "$name: watched"
}

pid='unshare --pid --fork --kill-child'
# shellcheck disable=SC2086 # commands and their arguments
{
	watched 'chroot, user nobody' $pid chroot "$scratch/root" $nobody
	watched 'all namespaces but that of users' $pid --mount --net --ipc --uts --cgroup \
		chroot "$scratch/root" $nobody
	watched 'time namespace, ahead' $pid --time --monotonic 1000000 --boottime 1000000 chroot "$scratch/root" $nobody
	watched 'time namespace, behind' $pid --time --monotonic -100 chroot "$scratch/root" $nobody
	# In a chroot the kernel makes no namespace of users.
	watched 'user namespace, its root' $nobody $pid --user --map-root-user
	watched 'user and all other namespaces, its root' $nobody \
		$pid --user --map-root-user --mount --net --ipc --uts --cgroup --time
}
