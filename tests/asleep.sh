#!/bin/sh
# SPDX-License-Identifier: MIT
# What asleep.c says of a command that naps, and of those that end.
#
#   asleep.sh PROGRAM
set -u

ends() { # status COMMAND...
	wanted=$1
	shift
	"$@"
	status=$?
	[ $status = "$wanted" ] || { echo "$*: $status, not $wanted" && exit 1; }
}

ends 2 "$1" sleep 1000
ends 2 "$1" sh -c 'sleep 1000 & wait'
ends 5 "$1" sh -c 'exit 5'
ends 137 "$1" sh -c 'kill -9 $$'
ends 2 sh -c 'ulimit -St 1; exec "$0" sh -c "while :; do :; done"' "$1"
ends 2 sh -c 'ulimit -St 1; exec "$0" sh -c "trap \"\" XCPU; while :; do :; done"' "$1"
