#!/bin/bash
# SPDX-License-Identifier: MIT
# fg-calls names each pair of calls once, each with a time, and says no to arguments.
calls=$1 failed=0
lines=$("$calls") || { echo 'fg-calls failed'; failed=1; }
awk -F, 'NR == 1 { if ($0 != "calls,ns") exit 1; next } NF != 2 || !($2 > 0) || seen[$1]++ { exit 1 }
	END { if (NR < 15) exit 1 }' <<<"$lines" || { echo "not a time for each pair: $lines"; failed=1; }
message=$("$calls" --help 2>&1)
[ $? = 2 ] && [[ $message == *'no argument'* ]] || { echo "an argument: $message"; failed=1; }
exit $failed
