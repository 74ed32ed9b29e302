#!/bin/sh
# SPDX-License-Identifier: MIT
# The same seed gives the same bytes, whatever the environment; another seed gives others: same.sh SIMULATOR LOCK
set -eu
simulate() # seed
{
	"$simulator" server --lock "$lock" --threads 24 --section-us 1 --think-us 20 --warmup 0.001 --seconds 0.004 \
		--hogs 2 --machine cloud-8 --seed "$1"
}
simulator=$1
lock=$2
first=$(simulate 1)
second=$(FILL=$(head -c 5000 /dev/zero | tr '\0' x) simulate 1)
other=$(simulate 2)
case $first in
*'"simulated":{"machine":"cloud-8","seed":1,'*'"checksum_ok":true}') ;;
*) echo "not what the worker prints: $first" && exit 1 ;;
esac
[ "$first" = "$second" ] || { printf 'two runs differ:\n%s\n%s\n' "$first" "$second" && exit 1; }
[ "$first" != "$other" ] || { echo "another seed makes no difference" && exit 1; }
