#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A process may register FG_MAX_WINDOWS windows, all its images together; an image beyond that would go unregistered.
# A program linked with libflexguard that runs under any interposer must fit.
#
#   windows.sh LIMIT LIBFLEXGUARD INTERPOSER...
set -euo pipefail
limit=$1
windows() # image: the number of entries, of 20 bytes each, in its table
{
	local hex
	hex=$(objdump -h "$1" | awk '$2 == "fg_windows" { print $3 }')
	echo $((16#${hex:-0} / 20))
}
library=$(windows "$2") any=0
shift 2
for interposer in "$@"; do
	own=$(windows "$interposer")
	any=$((any + own)) total=$((library + own))
	[ $total -le "$limit" ] || { echo "$interposer and libflexguard have $total windows, over $limit"; exit 1; }
done
[ $any -gt 0 ] || { echo "no interposer has windows: this test does not see them"; exit 1; }
