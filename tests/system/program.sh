#!/bin/sh
# SPDX-License-Identifier: MIT
# A real, unmodified program runs to the right end under a lock.
#
#   program.sh PREFIX LOCK PROGRAM
#
# PREFIX holds bin/flexguard. The monitor is used where it can be (with FLEXGUARD_REQUIRE_BPF=1: must be). Ends 0 if the
# program's own verdict and its output are right, 77 if the program is not installed, 1 otherwise.
set -eu

prefix=$1 lock=$2 program=$3
monitor=auto
# A lock whose kernel feature is absent must work all the same; that it is refused by default is the CLI tests' matter.
export FLEXGUARD_FORCE=1
[ "${FLEXGUARD_REQUIRE_BPF:-}" = 1 ] && monitor=require && export FLEXGUARD_REQUIRE=1
[ -x "$prefix/bin/flexguard" ] || { echo "$prefix/bin/flexguard is missing: run make first" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

needs() {
	command -v "$1" > "$scratch/where" || { echo "$1 is not installed: scripts/bootstrap installs it" >&2; exit 77; }
}

# Output and summary go to files; both are shown when something is wrong.
under_lock() {
	"$prefix/bin/flexguard" run --lock "$lock" --monitor $monitor --stats -- "$@" > "$scratch/out" 2> "$scratch/err" ||
		wrong "exit status $?"
	grep -q '^registered-processes: [1-9]' "$scratch/err" || grep -q '^monitor: absent' "$scratch/err" ||
		wrong 'the program did not register with the monitor'
}

wrong() {
	echo "$program under $lock: $1" >&2
	tail -n 30 "$scratch/out" "$scratch/err" >&2
	exit 1
}

says() {
	grep -Eq -- "$1" "$scratch/out" || wrong "did not say $1"
}

# Spinlocks that collapse by nature get as many threads as the machine has contexts.
threads=8
awk -F '\t' -v lock="$lock" '$1 == lock && $2 == "spin" { spin = 1 } END { exit !spin }' "$prefix/share/flexguard/LOCKS" &&
	threads=2

case $program in
kccachetest)
	needs kccachetest
	under_lock kccachetest wicked -th $threads -it 2 20000
	says '^ok$'
	;;
kcutiltest-mutex | kcutiltest-para | kcutiltest-cond)
	needs kcutiltest
	under_lock kcutiltest "${program#kcutiltest-}" -th $threads 2000
	says '^ok$'
	;;
sysbench-mutex)
	needs sysbench
	under_lock sysbench mutex --threads=$threads --mutex-num=4 --mutex-locks=20000 --mutex-loops=100 run
	says "total number of events: +$threads\$"
	;;
sysbench-threads)
	needs sysbench
	under_lock sysbench threads --threads=$threads --thread-locks=2 --thread-yields=20 --events=2000 --time=0 run
	says 'total number of events: +2000$'
	;;
pbzip2)
	needs pbzip2
	head -c 4000000 /dev/urandom > "$scratch/data"
	head -c 4000000 /dev/zero >> "$scratch/data"
	under_lock pbzip2 -p$threads -1 -b1 -k "$scratch/data"
	under_lock pbzip2 -p$threads -d -k -c "$scratch/data.bz2"
	cmp "$scratch/data" "$scratch/out" || wrong 'the data came back changed'
	;;
db_bench)
	needs db_bench
	under_lock db_bench --benchmarks=fillrandom,readrandom,overwrite,readwhilewriting --num=8000 --reads=8000 \
		--threads=$threads --db="$scratch/db"
	for benchmark in fillrandom readrandom overwrite readwhilewriting; do
		says "^$benchmark +: .* micros/op"
	done
	says '[1-9][0-9]* of [0-9]+ found'
	;;
*)
	echo "no such program: $program" >&2
	exit 1
	;;
esac
