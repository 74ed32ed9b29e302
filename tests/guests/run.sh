#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# run.sh SOURCE-TREE: lab/guest/run, with a program in the place of the kernel: its arguments, all of its output, its status.
set -uo pipefail
cd "$1" || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
: >"$scratch/script"
cat >"$scratch/kernel" <<'END'
#!/bin/sh
case "$*" in
*' flexguard_test=lines') seq 20000 ;;
*'/burn flexguard_test=boots-not') exit 1 ;;
*'/burn two=2'*) echo 'guest: lock x' && echo "$$" >"${0%kernel}burning" && exec sleep 1000 ;;
*' flexguard_test=three') exit 3 ;;
*' flexguard_test=endless') echo "pid $$" && exec sleep 1000 ;;
*) printf '%s\n' "$@" ;;
esac
END
chmod +x "$scratch/kernel"

try() # what, expected status, arguments of lab/guest/run...
{
	lab/guest/run "${@:3}" "$scratch/kernel" "$scratch/script" >"$scratch/log" 2>&1
	local status=$?
	[ $status = "$2" ] || { echo "run: $1: ended with $status, not $2" && failed=1; }
}

prints() # what, expected text: a whole line
{
	grep -qxF "$2" "$scratch/log" || { echo "run: $1: it does not say '$2'" && failed=1; }
}

try 'arguments' 0 -n 2 -c 3 -m 64M -a one=1 -a two=2
for line in ncpus=3 mem=64M one=1 two=2 "guest_script=$scratch/script"; do
	prints 'arguments' "1: $line"
	prints 'arguments' "2: $line"
done

# All that the guests print is there when it ends, also the last lines.
try 'output' 0 -n 3 -a flexguard_test=lines
[ "$(wc -l <"$scratch/log")" = 60000 ] || { echo "run: output: $(wc -l <"$scratch/log") lines" && failed=1; }

try 'a guest that fails' 1 -a flexguard_test=three
prints 'a guest that fails' 'run: guest 1 ended with 3'
try 'a guest that does not end' 124 -n 2 -t 1 -a flexguard_test=endless
prints 'a guest that does not end' 'run: guest 2 did not end within 1 s, and was killed'
for pid in $(sed -n 's/^[12]: pid //p' "$scratch/log"); do
	! kill -0 "$pid" 2>/dev/null || { echo "run: guest $pid is still there" && failed=1; }
done

try 'a burning guest' 0 -b 1 -a two=2
grep -qxE '0: result burned_ns [0-9]+' "$scratch/log" || { echo 'run: it does not say what was burned' && failed=1; }
! kill -0 "$(cat "$scratch/burning")" 2>/dev/null || { echo 'run: the burning guest is still there' && failed=1; }
try 'a burning guest that does not boot' 1 -b 1 -a flexguard_test=boots-not
prints 'a burning guest that does not boot' 'run: a burning guest did not boot: it printed nothing more'

# However a run is ended, its guests end with it.
for signal in KILL TERM INT; do
	rm -f "$scratch/burning"
	: >"$scratch/log" # at once: it still has what the guests before said
	(trap - INT && exec lab/guest/run -n 2 -b 1 -a two=2 -a flexguard_test=endless "$scratch/kernel" "$scratch/script") \
		>"$scratch/log" 2>&1 &
	run=$!
	until [ "$(grep -c ': pid ' "$scratch/log")" = 2 ]; do
		kill -0 $run || { echo "run: SIG$signal: it has ended already" && cat "$scratch/log" && exit 1; }
	done
	kill -$signal $run
	wait $run 2>/dev/null
	status=$?
	[ $status = $((128 + $(kill -l $signal))) ] || { echo "run: SIG$signal: ended with $status" && failed=1; }
	while read -r pid; do
		while [ -e "/proc/$pid/exe" ]; do :; done # else the test does not end
	done < <(cat "$scratch/burning" && sed -n 's/^[12]: pid //p' "$scratch/log")
done
exit $failed
