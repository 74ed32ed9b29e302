# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs db_bench
bench_database db_bench verifychecksum
