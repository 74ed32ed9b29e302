#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `make uninstall` removes what `make install` has put into a prefix, and nothing else.
#
#   uninstall.sh SOURCE      the source tree, with a build/ that `make` has made
set -euo pipefail
cd "$1"
[ -x build/bin/flexguard ] && [ -d build/.cmake ] && [ -d build/.cargo/release ] || exit 77
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "uninstall: $*" >&2; exit 1; }
run() { make -s "$1" DESTDIR="$scratch" PREFIX=/usr/local CARGO_TARGET_DIR="$PWD/build/.cargo"; }

run uninstall 2>"$scratch/said" && fail "it removes what is not installed"
grep -q 'not installed' "$scratch/said" || fail "said $(cat "$scratch/said")"
rm "$scratch/said"
run install
stranger=$scratch/usr/local/share/man/man1/other.1
[ -x "$scratch/usr/local/bin/flexguard" ] || fail "nothing was installed"
echo other >"$stranger"
run uninstall
left=$(find "$scratch" -type f -o -type l)
[ "$left" = "$stranger" ] || fail "left: $left"
[ ! -e "$scratch/usr/local/bin" ] || fail "an empty folder is left"
