# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs plzip
make_data "$scratch/data"
under_lock plzip -0 -n 16 -B 64KiB -k "$scratch/data"
plzip -n 1 -t "$scratch/data.lz" || wrong 'plzip finds the file damaged'
under_lock plzip -n 16 -d -k -c "$scratch/data.lz"
is_same "$scratch/data" "$scratch/out"
