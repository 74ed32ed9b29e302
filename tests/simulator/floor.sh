#!/bin/sh
# SPDX-License-Identifier: MIT
# CI's cells fail for a lock that does less than it did, and for no other: floor.sh CELLS DIRECTORY-OF-THE-WORKERS
set -eu
cells=$1 workers=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
printf 'near\t4\t0.01\tserver --section-us 5 --think-us 5\n' >"$dir/cells.tsv"
judge() # LOCK LOCK
{
	"$cells" --programs "$workers" --cells "$dir/cells.tsv" --floor "$@" >"$dir/said" && status=0 || status=$?
	cat "$dir/said"
	return $status
}
judge posix flexguard
if judge flexguard posix; then
	echo "glibc's model is slower in this cell, and nothing was said"
	exit 1
fi
grep -q 'posix does 0\.[0-9]* of flexguard.s, less than 0.95' "$dir/said"
# So does a worker that ends with an error.
printf 'near\t0\t0.01\tserver\n' >"$dir/cells.tsv"
if judge posix flexguard; then
	exit 1
fi
grep -q 'ended with an error' "$dir/said"
