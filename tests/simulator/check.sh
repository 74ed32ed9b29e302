#!/bin/sh
# SPDX-License-Identifier: MIT
# The checker's command line, and that a schedule is the same whenever it runs: check.sh CHECKER
set -eu
checker=$1
fails() # part of the message, arguments...
{
	part=$1
	shift
	code=0
	message=$("$checker" "$@" 2>&1 >/dev/null) || code=$?
	[ "$code" = 2 ] || { echo "status $code, not 2: $*: $message" && exit 1; }
	case $message in
	*"$part"*) ;;
	*) echo "no '$part' in: $message" && exit 1 ;;
	esac
}
fails 'no driver is called so' dance
fails 'no such option' --speed 3
fails 'no such value' --seed x
fails 'no such value' --threads 9
fails 'it needs a value' --seed
[ "$("$checker" --list | tr '\n' ' ')" = 'cond cond-moved rwlock barrier parked semaphore ' ]
"$checker" rwlock --seed 7
