# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# leveldb_db_bench is what scripts/leveldb builds; `make check-programs` does that first.
# shellcheck source=tests/programs/common.sh
. ./common.sh
PATH=$PATH:$prefix/programs
command -v leveldb_db_bench >"$scratch/where" ||
	{ echo 'leveldb_db_bench is not built: scripts/leveldb builds it' >&2; exit 77; }
for threads in 8 32; do
	under_lock leveldb_db_bench --benchmarks=fillrandom,readrandom,readwhilewriting --num=4000 --reads=4000 \
		--threads=$threads --db="$scratch/db$threads"
	for benchmark in fillrandom readrandom readwhilewriting; do
		says "^$benchmark +: .* micros/op"
	done
	says '[1-9][0-9]* of [0-9]+ found'
done
