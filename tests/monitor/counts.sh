#!/bin/sh
# SPDX-License-Identifier: MIT
# What the monitor counts under each lock, against the kernel's count (counts.c). All locks share a monitor, which no
# other program uses.
#
#   counts.sh PREFIX PROGRAM:WAITER...
set -u

# shellcheck disable=SC2034 # for start_monitor
prefix=$1
shift
scratch=$(mktemp -d)
monitor=
trap '[ -z "$monitor" ] || kill "$monitor"; rm -rf "$scratch"' EXIT
FLEXGUARD_SOCKET=@flexguard-test-counts.$$
FLEXGUARD_REQUIRE=1 # or a program would not wait for the monitor for long on a busy machine
export FLEXGUARD_SOCKET FLEXGUARD_REQUIRE
. "$(dirname "$0")/../system/start-monitor.sh"

start_monitor
status=0
for pair; do
	"${pair%:*}" "${pair##*:}" || { echo "$(basename "${pair%:*}"): failed ($?)"; status=1; }
done
exit $status
