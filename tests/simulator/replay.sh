#!/bin/sh
# SPDX-License-Identifier: MIT
# The command that the checker prints of a schedule that fails runs the same schedule: it ends at the same step, with
# the same message, whatever the environment. Three schedules of a seeded defect: replay.sh CHECKER ARGUMENTS...
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
run() # name, command...: keeps what it prints, and its exit status
{
	name=$1
	shift
	status=0
	"$@" >"$dir/$name.out" 2>"$dir/$name.err" || status=$?
	cat "$dir/$name.err" "$dir/$name.out"
	[ "$status" = 1 ] || { echo "status $status, not 1: $*" && exit 1; }
}
seed=0
for _ in 1 2 3; do
	run found "$@" --seconds 60 --first $((seed + 1))
	again=$(sed -n 's/.*; again: //p' "$dir/found.out")
	[ -n "$again" ] || { echo "no command is printed" && exit 1; }
	seed=$(echo "$again" | sed 's/.* --seed \([0-9]*\).*/\1/')
	sed -n 's/.*(after \([0-9]*\) steps)$/\1/p' "$dir/found.err" >>"$dir/steps"
	FILL=$(head -c 5000 /dev/zero | tr '\0' x)
	export FILL
	run again sh -c "$again"
	unset FILL
	for stream in err out; do
		cmp "$dir/found.$stream" "$dir/again.$stream" || { echo "the schedule did not replay" && exit 1; }
	done
done
[ "$(wc -l <"$dir/steps")" = 3 ] || { echo "not each message says its step" && exit 1; }
[ "$(sort -u "$dir/steps" | wc -l)" -gt 1 ] || { echo "all three end at one step: that tells nothing" && exit 1; }
