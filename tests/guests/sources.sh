#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# sources.sh SOURCE-TREE: guest/build refuses a kernel's source that is not the one guest/touches was made for, and a lock
# that it does not know. It says what is wrong, and changes nothing in that source.
set -uo pipefail
cd "$1" || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
source=$scratch/guests/linux-source-7.3
first=$(sed -n 's/^edit *\([^ ]*\).*/\1/p' guest/touches | sed -n 1p)
failed=0

refuses() # what, expected text
{
	local before after
	before=$(find "$scratch" -type f -exec sha256sum {} + | sort)
	if FLEXGUARD_KERNELS=$scratch guest/build ticket >"$scratch.log" 2>&1; then
		echo "sources: $1: guest/build built a kernel" && failed=1
	elif ! grep -q "$2" "$scratch.log"; then
		echo "sources: $1: guest/build does not say '$2':" && failed=1
		cat "$scratch.log"
	fi
	after=$(find "$scratch" -type f -not -name '*.original' -exec sha256sum {} + | sort)
	if [ "$after" != "$(grep -v '\.original$' <<<"$before")" ]; then
		echo "sources: $1: guest/build changed the source" && failed=1
	fi
	rm -f "$scratch.log"
}

mkdir -p "$source/$(dirname "$first")"
: >"$source/.complete"
refuses 'a source without a file' "has no $first"
echo 'another version' >"$source/$first"
refuses 'a file that differs' "$first is another than guest/touches is for"
# A second try does not take the file for one that guest/build has edited.
refuses 'a file that differs, again' "$first is another than guest/touches is for"

if FLEXGUARD_KERNELS=$scratch/none guest/build unheard-of >"$scratch/log" 2>&1 ||
	! grep -q 'no lock is called unheard-of' "$scratch/log" || [ -e "$scratch/none/guests" ]; then
	echo 'sources: a lock that is unknown is not refused, or only after a download' && failed=1
	cat "$scratch/log"
fi
exit $failed
