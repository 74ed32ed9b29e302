#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Detection on arm64, instruction by instruction (steps.py): each operation with windows, and each lock whose intent is
# published, of gcc and clang at every level, with exclusive loads and stores (ARMv8.0), with atomic instructions (8.1),
# and as gcc does it by default: functions that choose, on a CPU of each kind.
#
#   steps.sh SOURCE windows
#   steps.sh SOURCE LOCK_FILE [levels]     without `levels`: gcc -O2 alone
set -euo pipefail
source=$1 lock=$2 levels=${3:-}
cross=aarch64-linux-gnu
for tool in $cross-gcc $cross-nm qemu-aarch64 python3; do
	command -v $tool >/dev/null || { echo "no $tool here: skipped"; exit 77; }
done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$source"

flags=(@cmake/c-flags -Werror -I. -Ilib -Ilab -Iinclude)
gcc=("$cross-gcc" "${flags[@]}")
clang=()
if command -v clang >/dev/null; then
	clang=(clang "--target=$cross" "-I/usr/$cross/include" "${flags[@]}")
fi

step() # CPU, program, option...
{
	timeout 300 tests/arm64/steps.py "${@:3}" qemu-aarch64 -cpu "$1" "$2"
}

windows() # name, compiler and options...
{
	echo "windows, $1:"
	"${@:2}" -c tests/arm64/steps.c -o "$dir/steps.o"
	$cross-gcc -static -pthread "$dir/steps.o" -o "$dir/steps"
	step max "$dir/steps"
}

if [ "$lock" = windows ]; then
	for level in -O0 -O1 -O2 -O3; do
		for march in armv8-a armv8.1-a; do
			windows "gcc $level $march" "${gcc[@]}" -march=$march $level
			[ ${#clang[@]} = 0 ] || windows "clang $level $march" "${clang[@]}" -march=$march $level
		done
	done
	windows 'gcc -mbranch-protection=standard' "${gcc[@]}" -O2 -mbranch-protection=standard
	for defect in --blind --unconditional; do
		echo "the last again, judged $defect, must be wrong:"
		step max "$dir/steps" $defect
	done
	exit
fi

objects=()
for file in lib/runtime/*.c lib/lock/*.c lab/locks/parts/*.c; do
	[ -f "$file" ] || continue
	[[ $file != */load_sampler.c ]] || continue # steps.c has its own
	objects+=("$dir/$(basename "$file" .c).o")
	"${gcc[@]}" @cmake/c-flags-runtime -O2 -c "$file" -o "${objects[-1]}"
done

intent() # name, CPU, compiler and options...
{
	echo "intent, $1:"
	"${@:3}" -DFGI_LOCK_FILE="\"$lock\"" -c tests/arm64/steps.c -o "$dir/steps.o"
	$cross-gcc -static -pthread "$dir/steps.o" "${objects[@]}" -o "$dir/steps"
	FLEXGUARD_SOCKET='' step "$2" "$dir/steps"
}

exclusive=(-march=armv8-a -mno-outline-atomics)
for level in ${levels:+-O0 -O1 -O2 -O3}; do
	intent "gcc $level armv8-a" max "${gcc[@]}" "${exclusive[@]}" "$level"
	intent "gcc $level armv8.1-a" max "${gcc[@]}" -march=armv8.1-a "$level"
	if [ ${#clang[@]} -gt 0 ]; then
		intent "clang $level armv8-a" max "${clang[@]}" "${exclusive[@]}" "$level"
		intent "clang $level armv8.1-a" max "${clang[@]}" -march=armv8.1-a "$level"
	fi
done
for cpu in cortex-a53 max; do
	intent "gcc -O2 -moutline-atomics on $cpu" $cpu "${gcc[@]}" -O2 -moutline-atomics
done
