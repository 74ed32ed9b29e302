#!/bin/sh
# SPDX-License-Identifier: MIT
# A seeded defect: a program that is broken on purpose, which its own checks must find.
#
#   defect.sh fails PROGRAM ARGUMENTS...   passes if the program ends as one whose check failed (1), whose watchdog
#                                          ended it (2), that crashed, or that a sandbox killed. On one CPU threads never
#                                          run at the same time, so that some defects do not show: one that is not found
#                                          is skipped there
#   defect.sh until PROGRAM ARGUMENTS...   the same; the program begins anew until it has failed, for LOOKED_FOR seconds
#   defect.sh stale FILE TEXT              fails: the text to replace is not in the file
set -u
LOOKED_FOR=500

case $1 in
stale)
	echo "$2 does not contain the text that this defect replaces: adapt the defect, or delete it: $3"
	exit 1
	;;
fails | until)
	mode=$1
	shift
	began=$(date +%s)
	while
		"$@"
		status=$?
		[ $mode = until ] && [ $status = 0 ] && [ $(($(date +%s) - began)) -lt $LOOKED_FOR ] && [ "$(nproc)" -gt 1 ]
	do :; done
	case $status in
	1 | 2 | 136 | 139 | 159) exit 0 ;;
	77) exit 77 ;;
	esac
	[ "$(nproc)" -gt 1 ] || [ $status != 0 ] || { echo 'the defect did not show on one CPU' && exit 77; }
	echo "the defect was not found: the test ended with $status, as one that found nothing does"
	exit 1
	;;
esac
