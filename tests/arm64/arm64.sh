#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Locks for arm64: the runtime and each lock are cross-compiled without a warning, and each lock is put through the stress
# test of exclusion under emulation. The emulator orders memory as its host does, so this says nothing about fences.
#
#   arm64.sh SOURCE OPERATIONS THREADS LOCK_FILE...     THREADS: "1 2 3"
set -euo pipefail
source=$1 operations=$2 read_threads=$3
locks=("${@:4}")
read -ra threads <<<"$read_threads"
cc=aarch64-linux-gnu-gcc
for tool in $cc qemu-aarch64; do
	command -v $tool >/dev/null || { echo "no $tool here: skipped"; exit 77; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$source"

compile() # object, source, options...
{
	$cc @cmake/c-flags @cmake/c-flags-runtime -Werror -I. -Ilib -Ilab -Iinclude "${@:3}" -c "$2" -o "$scratch/$1.o"
}

objects=()
for file in lib/runtime/*.c lib/lock/*.c lab/locks/parts/*.c; do
	[ -f "$file" ] || continue
	name=$(basename "$file" .c)
	compile "$name" "$file" -O2
	objects+=("$scratch/$name.o")
done
for lock in "${locks[@]}"; do
	file="-DFGI_LOCK_FILE=\"$lock\""
	if [[ $lock == lock/default/flexguard.inc.h ]]; then # it is the C API's, too
		for level in -O0 -O2 -O3; do
			compile api-mutex lib/api/mutex.c "$file" $level
		done
		compile api-monitor lib/api/monitor.c -O2
	fi
	compile exclusion tests/stress/exclusion.c "$file" -O2
	$cc -static -pthread "$scratch/exclusion.o" "${objects[@]}" -o "$scratch/exclusion"
	echo "$lock"
	FLEXGUARD_SOCKET='' timeout 100 qemu-aarch64 "$scratch/exclusion" "$operations" "${threads[@]}"
done
