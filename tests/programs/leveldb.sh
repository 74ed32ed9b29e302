# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# leveldb_db_bench is what scripts/leveldb builds; `make check-programs` does that first.
# shellcheck source=tests/programs/common.sh
. ./common.sh
PATH=$PATH:$prefix/programs
command -v leveldb_db_bench >"$scratch/where" ||
	{ echo 'leveldb_db_bench is not built: scripts/leveldb builds it' >&2; exit 77; }
bench_database leveldb_db_bench
