#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The runtime, the C API and the default lock for arm64: cross-compiled without a warning, and, emulated, put through
# the stress test of exclusion. The emulator orders memory as its host does, so this says nothing about fences.
#
#   arm64.sh SOURCE LOCK_FILE
set -euo pipefail
source=$1 lock=$2
cc=aarch64-linux-gnu-gcc
for tool in $cc qemu-aarch64; do
	command -v $tool >/dev/null || { echo "no $tool here: skipped"; exit 77; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$source"

compile() # object, source, options...
{
	$cc -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -ftls-model=initial-exec -I. -Iinclude "-DFGI_LOCK_FILE=\"$lock\"" \
		"${@:3}" -c "$2" -o "$scratch/$1.o"
}

objects=()
for file in runtime/*.c locks/parts/*.c locks/default/tune.c; do
	name=$(basename "$file" .c)
	compile "$name" "$file" -O2
	objects+=("$scratch/$name.o")
done
for level in -O0 -O2 -O3; do
	compile api-mutex runtime/api/mutex.c $level
done
compile api-monitor runtime/api/monitor.c -O2
compile exclusion tests/stress/exclusion.c -O2
$cc -static -pthread "$scratch/exclusion.o" "${objects[@]}" -o "$scratch/exclusion"
for tune in regime=any regime=leased; do
	FLEXGUARD_SOCKET='' FLEXGUARD_TUNE=$tune timeout 100 qemu-aarch64 "$scratch/exclusion" 1000000 1 2 3 8
done
