#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What scripts/bootstrap says on a machine where things are missing: played by a PATH with next to nothing on it.
set -uo pipefail
cd "$1" || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/bin" "$scratch/home"
for tool in bash env sed sort head cut printf dirname id sh; do
	ln -s "$(command -v $tool)" "$scratch/bin/$tool"
done
failed=0
expect() # what, text, pattern
{
	[[ $2 == *$3* ]] || { printf '%s: no "%s" in:\n%s\n' "$1" "$3" "$2"; failed=1; }
}
bare() { env -i PATH="$scratch/bin" HOME="$scratch/home" bash scripts/bootstrap "$@" 2>&1; }

out=$(bare build check) && { echo "bootstrap found on an empty PATH what it needs"; failed=1; }
expect 'missing tools' "$out" 'this machine does not have: '
expect 'missing tools' "$out" 'cmake'
expect 'missing tools' "$out" 'apt-get install '
expect 'missing tools' "$out" 'rocksdb-tools'
expect 'missing Rust' "$out" 'this machine has none'
expect 'missing Rust' "$out" 'https://rustup.rs'

# Packages are made without what only checks them.
out=$(bare packages) && { echo "bootstrap found on an empty PATH what packages need"; failed=1; }
expect 'tools of packages' "$out" 'dpkg-dev debhelper'
[[ $out != *lintian* && $out != *debootstrap* ]] || { echo "\`make deb\` asks for tools of its tests: $out"; failed=1; }

# A Rust that is too old is named, and left alone.
printf '#!/bin/sh\necho "rustc 1.63.0 (Debian)"\n' >"$scratch/bin/rustc"
printf '#!/bin/sh\n' >"$scratch/bin/cargo"
chmod +x "$scratch/bin/rustc" "$scratch/bin/cargo"
out=$(bare build) && { echo "bootstrap took rustc 1.63"; failed=1; }
expect 'old Rust' "$out" 'this machine has rustc 1.63.0'
printf '#!/bin/sh\necho "rustc 1.100.0"\n' >"$scratch/bin/rustc"
out=$(bare build)
[[ $out != *rustup* ]] || { echo "bootstrap refused rustc 1.100: $out"; failed=1; }

bare nonsense >/dev/null
[ $? = 2 ] || { echo "an unknown group must end with 2"; failed=1; }
exit $failed
