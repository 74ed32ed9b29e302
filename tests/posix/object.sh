#!/bin/sh
# SPDX-License-Identifier: MIT
# object.sh INTERPOSER EXPORTS: what the linker was asked for is what it made.
set -eu
so=$1 exports=$2 bad=0

is() # what, found, wanted
{
	[ "$2" = "$3" ] || { printf '%s: %s is\n%s\nnot\n%s\n' "$so" "$1" "$2" "$3"; bad=1; }
}

is 'what it needs' "$(readelf -dW "$so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')" libc.so.6
is 'what it exports' "$(nm -D --defined-only "$so" | awk '$2 != "A" { print $3 }' | sort)" "$(sort "$exports")"
flags=$(readelf -dW "$so" | sed -n 's/.*(FLAGS_1)//p; s/.*(FLAGS)//p')
# For arm64 the linker does not say STATIC_TLS: its relocations do.
readelf -rW "$so" | grep -q R_AARCH64_TLS_TPREL64 && ! readelf -rW "$so" | grep -q R_AARCH64_TLSDESC && flags="$flags STATIC_TLS"
for flag in BIND_NOW STATIC_TLS NODELETE; do
	case $flags in
	*$flag*) ;;
	*) echo "$so: not $flag: $flags"; bad=1 ;;
	esac
done
is 'executable stack' "$(readelf -lW "$so" | awk '/GNU_STACK/ { print $7 }')" RW
exit $bad
