#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The default lock's knobs: each is in the manual and in the design note, with the default that the code has.
set -uo pipefail
cd "$1" || exit 1
knobs=0 failed=0
while read -r name ns; do
	us=$((ns / 1000))
	knobs=$((knobs + 1))
	grep -q "${name}_us=$us:" rust/cli/src/sections.rs || { echo "the manual does not say ${name}_us=$us"; failed=1; }
	grep -Eq "^\| \`${name}_us\` \|.*\| $us \|" docs/design/default-lock.md ||
		{ echo "docs/design/default-lock.md does not say that ${name}_us is $us"; failed=1; }
done < <(sed -n 's/^\t\.\([a-z]*\)_ns = \([0-9]*\),.*/\1 \2/p' locks/default/tune.c)
[ $knobs -gt 0 ] || { echo "locks/default/tune.c is not as this test knows it"; failed=1; }
exit $failed
