#!/bin/sh
# SPDX-License-Identifier: MIT
# debugged.sh SCRIPT PROGRAM INTERPOSER: gdb with the script of ours tells who holds a mutex and who waits for it.
set -eu
command -v gdb >/dev/null || { echo 'no gdb here'; exit 77; }
script=$1 program=$2 interposer=$3
said=$(gdb -nx -batch -iex 'set auto-load no' -ex 'set breakpoint pending on' -ex "set environment LD_PRELOAD=$interposer" \
	-ex 'break all_wait' -ex run -ex "source $script" -ex 'flexguard-mutex &m' -ex 'flexguard-mutex &other' \
	-ex 'thread' -ex kill "$program" 2>&1) || { echo "$said"; exit 1; }

says()
{
	printf '%s\n' "$said" | grep -Eq "$1" || { printf '%s\nnothing there matches %s\n' "$said" "$1"; exit 1; }
}

says '^mutex 0x[0-9a-f]+ \(normal\): held by thread 1 \(LWP [0-9]+\)$'
says '^  thread 2 \(LWP [0-9]+\) waits, (asleep|awake)$'
says '^  thread 3 \(LWP [0-9]+\) waits, (asleep|awake)$'
says '^mutex 0x[0-9a-f]+ \(normal\): free$'
says '^\[Current thread is 1 '
