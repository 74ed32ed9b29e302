#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# sources.sh SOURCE-TREE: lab/guest/build refuses a kernel's source that is not the one lab/guest/touches was made for, and a lock
# that it does not know; and it says so where the source cannot be had. It changes nothing in that source.
set -uo pipefail
cd "$1" || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
source=$scratch/guests/linux-source-7.3
first=$(sed -n 's/^edit *\([^ ]*\).*/\1/p' lab/guest/touches | sed -n 1p)
failed=0

refuses() # what, expected text
{
	local before after
	before=$(find "$scratch" -type f -exec sha256sum {} + | sort)
	if FLEXGUARD_KERNELS=$scratch lab/guest/build ticket >"$scratch.log" 2>&1; then
		echo "sources: $1: lab/guest/build built a kernel" && failed=1
	elif ! grep -q "$2" "$scratch.log"; then
		echo "sources: $1: lab/guest/build does not say '$2':" && failed=1
		cat "$scratch.log"
	fi
	after=$(find "$scratch" -type f -not -name '*.original' -exec sha256sum {} + | sort)
	if [ "$after" != "$(grep -v '\.original$' <<<"$before")" ]; then
		echo "sources: $1: lab/guest/build changed the source" && failed=1
	fi
	rm -f "$scratch.log"
}

mkdir -p "$source/$(dirname "$first")"
: >"$source/.complete"
refuses 'a source without a file' "has no $first"
echo 'another version' >"$source/$first"
refuses 'a file that differs' "$first is another than lab/guest/touches is for"
# A second try does not take the file for one that lab/guest/build has edited.
refuses 'a file that differs, again' "$first is another than lab/guest/touches is for"

# Where the mirror has no such package, or does not answer. A machine that is no Debian says so instead.
mkdir -p "$scratch/bin"
cat >"$scratch/bin/apt-get" <<'END'
#!/bin/sh
case "$*" in *update*) [ -z "$APT_IS_DOWN" ] ;; *) exit 1 ;; esac
END
chmod +x "$scratch/bin/apt-get"
unreachable() # APT_IS_DOWN, expected text
{
	if APT_IS_DOWN=$1 PATH=$scratch/bin:$PATH FLEXGUARD_KERNELS=$scratch/unreachable lab/guest/build ticket >"$scratch/log" 2>&1 ||
		! grep -qE "build: ($2|skipped: (this is no amd64 Debian|no Debian mirror))" "$scratch/log"; then
		echo "sources: lab/guest/build does not say '$2':" && failed=1
		cat "$scratch/log"
	fi
	if [ -n "$(find "$scratch/unreachable" -path '*guests/*' -o -name '*.deb')" ]; then
		echo "sources: $2: something is left behind" && failed=1
	fi
}
unreachable '' 'cannot download linux-source-7.3'
unreachable 1 'skipped: the package mirror cannot be reached'

if FLEXGUARD_KERNELS=$scratch/none lab/guest/build unheard-of >"$scratch/log" 2>&1 ||
	! grep -q 'no lock is called unheard-of' "$scratch/log" || [ -e "$scratch/none/guests" ]; then
	echo 'sources: a lock that is unknown is not refused, or only after a download' && failed=1
	cat "$scratch/log"
fi
exit $failed
