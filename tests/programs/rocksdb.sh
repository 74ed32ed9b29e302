# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs db_bench
for threads in 8 32; do
	under_lock db_bench --benchmarks=fillrandom,readrandom,readwhilewriting,verifychecksum --num=4000 --reads=4000 \
		--threads=$threads --db="$scratch/db$threads"
	for benchmark in fillrandom readrandom readwhilewriting; do
		says "^$benchmark +: .* micros/op"
	done
	says '[1-9][0-9]* of [0-9]+ found'
done
