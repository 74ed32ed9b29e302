# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs pbzip2
make_data "$scratch/data"
under_lock pbzip2 -p8 -1 -b1 -k "$scratch/data"
under_lock pbzip2 -p8 -d -k -c "$scratch/data.bz2"
is_same "$scratch/data" "$scratch/out"
