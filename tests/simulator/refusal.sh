#!/bin/sh
# SPDX-License-Identifier: MIT
# What is wrong ends with a message that says so, and with its exit status: refusal.sh SIMULATOR SEMANTICS LOCK
set -eu
simulator=$1
semantics=$2
lock=$3
file=$(mktemp)
trap 'rm -f "$file"' EXIT
fails() # status, part of the message, command...
{
	status=$1
	part=$2
	shift 2
	code=0
	message=$("$@" 2>&1 >/dev/null) || code=$?
	[ "$code" = "$status" ] || { echo "status $code, not $status: $*: $message" && exit 1; }
	case $message in
	*"$part"*) ;;
	*) echo "no '$part' in: $message" && exit 1 ;;
	esac
}
machine() # line, message
{
	printf '# a machine\ncores = 2\n%s\n' "$1" >"$file"
	fails 2 "$2" "$semantics" futex --machine "$file"
}

machine 'nonsense' 'line 3: not `key = value`'
machine 'speed = 3' "line 3: no key is called 'speed'"
machine 'pause = -1' 'line 3: pause is not a number from 1 to 1000'
machine 'pause = 30 ns' 'line 3: pause is not a number from 1 to 1000'
machine 'pause = nan' 'line 3: pause is not a number from 1 to 1000'
machine 'cores = 4' 'line 3: this key stands there twice'
machine 'threads = 1.5' 'are whole numbers'
machine 'sockets = 16
complexes = 64' 'CPUs, but the model holds 512'
fails 2 'cannot read machine file' "$semantics" futex --machine ./no-such-file
fails 2 "'x' is not a whole number" "$semantics" futex --seed x
fails 2 "no key is called 'x'" "$semantics" futex --cost x=1
fails 2 'is not a whole number from 1 to 4096' "$simulator" server --lock "$lock" --threads 5000 --seconds 1
fails 4 'more threads than the model holds (4096)' "$semantics" threads
fails 4 'every thread sleeps' "$semantics" deadlock
fails 4 'the virtual clock has reached 0.05 s' "$semantics" endless --virtual-limit 0.05
fails 4 'the virtual clock has reached 0.05 s' "$semantics" clock --virtual-limit 0.05
fails 4 '1 s are over' "$semantics" endless --host-limit 1
