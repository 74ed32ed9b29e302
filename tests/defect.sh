#!/bin/sh
# SPDX-License-Identifier: MIT
# A seeded defect: a program that is broken on purpose, which its own checks must find.
#
#   defect.sh fails PROGRAM ARGUMENTS...   passes if the program ends 1, as a failed check does
#   defect.sh stale FILE TEXT              fails: the text to replace is not in the file
set -u

case $1 in
stale)
	echo "$2 does not contain the text that this defect replaces: adapt the defect, or delete it: $3"
	exit 1
	;;
fails)
	shift
	"$@"
	status=$?
	[ $status = 1 ] && exit 0
	echo "the defect was not found: the test ended with $status, not 1"
	exit 1
	;;
esac
