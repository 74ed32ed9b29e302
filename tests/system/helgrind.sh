#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Helgrind understands the C API: it reports nothing in the examples, and finds the race of each of races.c.
#
#   helgrind.sh COMPILER LIBRARY WRAPPERS    (what CMake built: libflexguard.so, helgrind.so)
set -euo pipefail
here=$(dirname "$(realpath "$0")")
top=$here/../..
compiler=$1 library=$2 wrappers=${3:-}
if [ ! -e "$wrappers" ] || ! command -v valgrind >/dev/null; then
	echo 'Valgrind was not installed when this was configured: scripts/bootstrap check installs it'
	exit 77
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "helgrind: $*" >&2; cat "$scratch/said" >&2; exit 1; }

helgrind() # program, arguments...
{
	env LD_LIBRARY_PATH="${library%/*}" FLEXGUARD_SOCKET='' LD_PRELOAD="$wrappers" \
		valgrind --tool=helgrind --suppressions="$top/lib/helgrind/helgrind.supp" --error-exitcode=9 \
		--log-file="$scratch/said" "$@" >"$scratch/out"
}

"$compiler" -O2 -g -I"$top/include" -o "$scratch/races" "$here/races.c" "$library" -pthread
for race in after-unlock other-mutex read-lock; do
	! helgrind "$scratch/races" "$race" || fail "does not find $race"
	races=$(grep -c 'Possible data race' "$scratch/said") || true
	[ "$races" = "$(grep -c 'inside data symbol "shared"' "$scratch/said")" ] ||
		fail "finds more than $race"
done
for example in queue phases; do
	"$compiler" -O2 -g -I"$top/include" -o "$scratch/$example" "$top/examples/$example.c" "$library" -pthread
	helgrind "$scratch/$example" || fail "reports something in $example, or it failed"
done
c++ -std=c++17 -O2 -g -I"$top/include" -o "$scratch/table" "$top/examples/table.cc" "$library" -pthread
helgrind "$scratch/table" || fail 'reports something in table, or it failed'
# That is the wrappers' doing.
wrappers=
! helgrind "$scratch/phases" || fail 'reports nothing in phases without the wrappers, either'
echo 'helgrind: three races found, three examples clean'
