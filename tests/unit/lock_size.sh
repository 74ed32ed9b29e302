#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# scripts/lock-size holds for this tree. It fails for a lock with a line, or a chosen number, too many, wherever the line
# stands; comments and blank lines do not count.
set -euo pipefail
cd "$(dirname "$0")/../.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT

fresh() # a copy of what the script reads
{
	rm -rf "${copy:?}"/*
	mkdir "$copy/lab"
	cp -r lib "$copy/lib"
	cp -r lab/locks "$copy/lab/locks"
}

lines() # of that copy
{
	scripts/lock-size "$copy" | awk '/ lines, at most/ { print $1 }'
}

fails() # file, text: if it ends with this text
{
	fresh
	printf '%b' "$2" >>"$copy/$1"
	if scripts/lock-size "$copy" >/dev/null; then
		echo "$1: not seen: $2" >&2
		exit 1
	fi
}

scripts/lock-size >/dev/null
fresh
before=$(lines)
printf '\n\n/* one\n * two */\n// three\n' >>"$copy/lib/lock/default/pace.h"
[ "$(lines)" = "$before" ]
printf 'static int one;\n' >>"$copy/lib/lock/default/pace.h"
[ "$(lines)" = $((before + 1)) ]
# What only the default lock uses counts wherever it stands; what others use does not.
fresh
printf 'static inline int only_here(void)\n{\n\treturn 1;\n}\n' >>"$copy/lib/runtime/clock.h"
[ "$(lines)" = "$before" ]
printf 'static int one = only_here();\n' >>"$copy/lib/lock/default/pace.h"
[ "$(lines)" = $((before + 5)) ]
printf 'static int two = only_here();\n' >>"$copy/lab/locks/published/mcs.inc.h"
[ "$(lines)" = $((before + 1)) ]
fails lib/lock/default/waiters.h "$(printf 'static int x;\\n%.0s' {1..600})"
fails lib/lock/default/numbers.h '#define FGI_ANOTHER 5u\n'
