#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A lock that cannot run on this machine: exit status 77, the reason on stderr, no result.
set -u
for arguments in 'shm --threads 1 --seconds 0.1' 'uncontended'; do
	# shellcheck disable=SC2086 # words
	message=$(timeout 20 "$1" $arguments --lock refusing 2>&1 >/dev/null)
	status=$?
	echo "$message"
	[ $status = 77 ] && [[ $message == *'its hardware has not been built'* ]] || exit 1
	# shellcheck disable=SC2086
	[ -z "$(timeout 20 "$1" $arguments --lock refusing 2>/dev/null)" ] || exit 1
done
FLEXGUARD_FORCE=1 timeout 20 "$1" shm --threads 1 --seconds 0.1 --lock refusing 2>/dev/null
[ $? -ge 128 ] || { echo 'it was not forced'; exit 1; } # the lock traps
