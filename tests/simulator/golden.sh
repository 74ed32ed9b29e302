#!/bin/sh
# SPDX-License-Identifier: MIT
# The bits that a seed gives are those that are written here: golden.sh PROGRAM. A change of the model changes them, and
# then all simulated results.
set -eu
found=$("$1" --machine cloud-8 --unmonitored --seed 7)
expected='560594776f715f6a after 3685696 cycles'
[ "$found" = "$expected" ] || { echo "$found, not $expected" && exit 1; }
