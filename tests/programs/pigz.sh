# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs pigz
make_data "$scratch/data"
under_lock pigz -p 16 -b 32 -k "$scratch/data"
gzip -t "$scratch/data.gz" || wrong 'gzip finds the file damaged'
under_lock pigz -p 16 -d -k -c "$scratch/data.gz"
is_same "$scratch/data" "$scratch/out"
