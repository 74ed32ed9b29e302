#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# lib/ needs nothing of lab/: a copy of the tree that has no lab/ builds the library and the default lock's interposer,
# lists no lock of the lab's, and a program that is linked to the library runs, and runs under the interposer.
#
#   lib-alone.sh SOURCE COMPILER
set -euo pipefail
source=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tree=$scratch/tree
build=$scratch/build
fail() { echo "lib-alone: $*" >&2; exit 1; }

mkdir "$tree"
cp -r "$source"/{CMakeLists.txt,cmake,abi,include,lib,command} "$tree"
CC=$2 cmake -S "$tree" -B "$build" -G Ninja --log-level=WARNING >"$scratch/said" 2>&1 &&
	cmake --build "$build" --target flexguard_shared flexguard_static interpose_flexguard >>"$scratch/said" 2>&1 ||
	{ cat "$scratch/said" >&2; fail 'a tree without lab/ does not build'; }
! grep -q "$source" <(ninja -C "$build" -t deps) || fail 'something was compiled with files of the whole tree'
names=$(sed -n 's/^\([a-z][^\t]*\)\t.*/\1/p' "$build/LOCKS" | paste -sd ' ')
[ "$names" = 'flexguard flexguard-slice' ] || fail "the locks are '$names'"

library=$(find "$build/lib" -name libflexguard.so)
"$2" -O2 -I"$tree/include" -o "$scratch/queue" "$source/examples/queue.c" "$library" -pthread
export FLEXGUARD_SOCKET=
LD_LIBRARY_PATH=${library%/*} "$scratch/queue" >/dev/null || fail 'examples/queue.c fails'
LD_LIBRARY_PATH=${library%/*} LD_PRELOAD=$build/lib/flexguard/flexguard.so "$scratch/queue" >/dev/null ||
	fail 'examples/queue.c fails under the interposer'
echo "lib-alone: built, and runs: $names"
