# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# To be sourced by a script that mounts, with its arguments: PREFIX. Runs the script again where nobody else sees its
# mounts, as `PREFIX inside SCRATCH`; there it starts a monitor at $scratch/socket/monitor.sock, and makes an empty
# $scratch/root. Ends it with 77 where it is not root, or the monitor cannot load.
# shellcheck disable=SC2034 # variables of start-monitor.sh and of the test

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
fail() { echo "$(basename "$0" .sh): $1"; exit 1; }

chmod 755 "$scratch"
mkdir -m 755 "$scratch/socket" "$scratch/root"
FLEXGUARD_SOCKET=$scratch/socket/monitor.sock
export FLEXGUARD_SOCKET
. "$(dirname "$0")/start-monitor.sh"
confined='setpriv --pdeathsig KILL'
start_monitor

# What the program of an ordinary user is started by. What unshare's --kill-child has set goes with the user.
nobody='setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all --no-new-privs
	--pdeathsig KILL'

value() { # name
	monitor_status
	sed -n "s/^$1: //p" "$scratch/status"
}

# The name of a case, and the command that becomes `unshare --fork --kill-child` of a worker. Ends it when it has
# registered and been counted.
watched() {
	name=$1
	shift
	before=$(value registered-processes)
	holders=$(value preempted-holders)
	"$@" > "$scratch/out" 2>&1 &
	client=$!
	tries=0
	until [ "$(value registered-processes)" -gt "$before" ] && [ "$(value preempted-holders)" -gt "$holders" ]; do
		tries=$((tries + 1))
		[ $tries -lt 2000 ] || { cat "$scratch/out" "$scratch/status"; fail "$name: not watched"; }
	done
	program=$(tr -d ' ' < "/proc/$client/task/$client/children")
	kill -9 "$client"
	wait "$client" 2> "$scratch/ignored" || true
	client=
	tries=0
	while [ -e "/proc/$program" ]; do
		tries=$((tries + 1))
		[ $tries -lt 1000 ] || fail "$name: the program outlives unshare"
		sleep 0.01
	done
	program=
	echo "$name: watched"
}
