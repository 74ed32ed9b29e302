#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every function that the library exports has a manual page, which says in a sentence or more what the function does, and
# which groff formats without a warning.
#
#   man3.sh SOURCE
set -euo pipefail
source=$1
pages=$(mktemp -d)
trap 'rm -rf "$pages"' EXIT
fail() { echo "man3: $*" >&2; exit 1; }

"$source/scripts/man3" "$source/include/flexguard" "$pages"
# Names that end in a number are inline.h's own calls.
functions=$(sed -n 's/^\(fg_[a-z_]*[a-z]\)@.*/\1/p' "$source/tests/system/symbols" | grep -vx fg_thread)
[ -n "$functions" ] || fail "tests/system/symbols names no function"
for function in $functions; do
	page=$pages/$function.3
	[ -s "$page" ] || fail "no page for $function"
	[ "$(head -n 1 "$page")" = ".so man3/$(sed -n 's|^\.so man3/||p' "$page")" ] || fail "$function.3 leads nowhere"
	whole=$pages/$(sed -n 's|^\.so man3/||p' "$page")
	grep -qF "$function(" "$whole" || fail "$(basename "$whole") does not show $function"
	# Below .TP, its declaration, and those that .TQ adds comes the text.
	awk -v name="$function(" '
		/^\.TP/ { here = 0 }
		/^\.B / && index($0, name) { here = 1 }
		/^\.SH/ { here = 0 }
		here && !/^\./ && length > 15 { found = 1 }
		END { exit !found }' "$whole" || fail "$(basename "$whole") does not say what $function does"
done
for page in "$pages"/*.3; do
	grep -q '^\.so ' "$page" && continue
	said=$(groff -man -Tutf8 -ww -z "$page" 2>&1)
	[ -z "$said" ] || fail "$(basename "$page"): $said"
done
