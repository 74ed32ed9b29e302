# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# To be sourced by the script of a program, which is run as: SCRIPT PREFIX LOCK. LOCK is glibc, or one of `flexguard
# list`. A script ends 0 if the program's result is right, 77 if the program is not installed, otherwise 1.
set -euo pipefail

prefix=$(realpath "$1") lock=$2
monitor=auto
[ "${FLEXGUARD_REQUIRE_BPF:-}" != 1 ] || monitor=require
scratch=$(mktemp -d)
server=

# A server ends with its script, also when the script is killed.
leave()
{
	[ -z "$server" ] || { kill -TERM "$server" && wait "$server"; } 2>>"$scratch/err" || true
	rm -rf "$scratch"
}
trap leave EXIT
trap 'exit 1' HUP INT TERM
touch "$scratch/out" "$scratch/err"

needs() # programs...
{
	local program
	for program in "$@"; do
		command -v "$program" >"$scratch/where" ||
			{ echo "$program is not installed: scripts/bootstrap check-programs installs it" >&2; exit 77; }
	done
}

headers() # headers...
{
	local header
	for header in "$@"; do
		echo "#include <$header>" | cc -E - >"$scratch/where" 2>&1 ||
			{ echo "$header is not installed: scripts/bootstrap check-programs installs it" >&2; exit 77; }
	done
}

wrong() # what
{
	echo "under $lock: $1" >&2
	tail -n 30 "$scratch/out" "$scratch/err" >&2
	exit 1
}

# The words of the command that runs a program under the lock, and the check that the lock was there.
run=()
if [ "$lock" != glibc ]; then
	run=("$prefix/bin/flexguard" run --lock "$lock" --monitor "$monitor" --stats-file "$scratch/stats" --)
fi
registered()
{
	[ "$lock" = glibc ] || grep -Eq '^registered-processes: [1-9]|^monitor: absent' "$scratch/stats" ||
		wrong 'the program did not register with the monitor'
}

under_lock() # program, arguments...
{
	"${run[@]}" "$@" >"$scratch/out" 2>"$scratch/err" || wrong "$1: exit status $?"
	registered
}

# For what is run beside a server: without the lock.
client() # program, arguments...
{
	"$@" >"$scratch/out" 2>>"$scratch/err" || wrong "$1: exit status $?"
}

server_wrong() # what
{
	cat "$scratch/log" >>"$scratch/err"
	wrong "$1"
}

serve() # program, arguments...
{
	"${run[@]}" "$@" >"$scratch/log" 2>&1 &
	server=$!
}

# A server has no common way to say that it listens. The loop ends when it answers or is gone; the runner has a limit.
await() # command that succeeds once the server answers...
{
	until "$@" >"$scratch/out" 2>"$scratch/err"; do
		kill -0 "$server" 2>>"$scratch/err" || server_wrong 'the server did not start'
		sleep 0.1
	done
}

end_server() # signal, exit status that is right
{
	local status=0
	kill -"$1" "$server"
	wait "$server" || status=$?
	server=
	[ "$status" = "$2" ] || server_wrong "the server ended with $status, not $2"
	registered
}

says() # extended regular expression
{
	grep -Eq -- "$1" "$scratch/out" || wrong "did not say $1"
}

# RocksDB's and LevelDB's programs take the same options and print the same lines.
bench_database() # program, one more benchmark
{
	local threads benchmark benchmarks=(fillrandom readrandom readwhilewriting) all
	all=$(IFS=, && echo "${benchmarks[*]}${2:+,$2}")
	for threads in 8 32; do
		under_lock "$1" --benchmarks="$all" --num=4000 --reads=4000 --threads=$threads --db="$scratch/db$threads"
		for benchmark in "${benchmarks[@]}"; do
			says "^$benchmark +: .* micros/op"
		done
		says '[1-9][0-9]* of [0-9]+ found'
	done
}

is_same() # two files
{
	cmp "$1" "$2" >>"$scratch/err" 2>&1 || wrong "${1##*/} and ${2##*/} differ"
}

# Half of it does not compress, half of it does.
make_data() # file
{
	head -c 4000000 /dev/urandom >"$1"
	head -c 4000000 /dev/zero >>"$1"
}
