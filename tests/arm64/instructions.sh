#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What the compilers make of lib/runtime/atomic.h for arm64: each operation must become the instructions that have the order its
# name says, with exclusive loads and stores (ARMv8.0), with atomic instructions (8.1), and as gcc does it by default: a
# call that chooses between the two.
#
#   instructions.sh SOURCE
set -euo pipefail
source=$1
cross=aarch64-linux-gnu
for tool in $cross-gcc $cross-objdump; do
	command -v $tool >/dev/null || { echo "no $tool here: skipped"; exit 77; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$source"

# Accesses to memory and barriers, and what is called, by function: "add_release ldxr stlxr".
accesses() # compiler, options...
{
	"$@" -std=gnu11 -O2 -I. -Ilib -c tests/arm64/instructions.c -o "$dir/object"
	$cross-objdump -dr --no-show-raw-insn "$dir/object" | awk '
		/>:$/ { if (line) print line; line = $2; gsub(/[<>:]/, "", line) }
		$2 ~ /^(ld|st|cas|swp|dmb)/ && $0 !~ /x29|\[sp/ { line = line " " $2 }
		/R_AARCH64_(CALL|JUMP)26/ { line = line " " $NF }
		END { print line }'
}

failed=0
must_be() # what, expected, compiler, options...
{
	local what=$1 expected=$2
	shift 2
	if diff <(echo "$expected") <(accesses "$@"); then
		echo "$what: as meant"
	else
		echo "$what: not what is meant (<)"
		failed=1
	fi
}

plain='load_relaxed ldr
load_acquire ldar
store_relaxed str
store_release stlr'
exclusive="$plain
add_release ldxr stlxr
or_relaxed ldxr stxr
and_relaxed ldxr stxr
asymmetric_release ldxr stlxr
cas_relaxed ldxr stxr
cas_acquire ldaxr stxr
cas_acq_rel ldaxr stlxr"
atomic="$plain
add_release ldaddl
or_relaxed ldset
and_relaxed ldclr
asymmetric_release ldclrl
cas_relaxed cas
cas_acquire casa
cas_acq_rel casal"
called="$plain
add_release __aarch64_ldadd4_rel
or_relaxed __aarch64_ldset4_relax
and_relaxed __aarch64_ldclr4_relax
asymmetric_release __aarch64_ldclr4_rel
cas_relaxed __aarch64_cas4_relax
cas_acquire __aarch64_cas4_acq
cas_acq_rel __aarch64_cas4_acq_rel"

must_be 'gcc, ARMv8.0' "$exclusive" $cross-gcc -march=armv8-a -mno-outline-atomics
must_be 'gcc, ARMv8.1' "$atomic" $cross-gcc -march=armv8.1-a
must_be 'gcc, either' "$called" $cross-gcc -moutline-atomics
if command -v clang >/dev/null; then
	must_be 'clang, ARMv8.0' "$exclusive" clang --target=$cross -march=armv8-a -mno-outline-atomics
	must_be 'clang, ARMv8.1' "$atomic" clang --target=$cross -march=armv8.1-a
fi
exit $failed
