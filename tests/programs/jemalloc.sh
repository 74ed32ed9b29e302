# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Threads that share one of jemalloc's arenas: each block is whole when another thread frees it.
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs cc
headers uv.h jemalloc/jemalloc.h
../../lab/integrations/programs/build "$scratch"
under_lock "$scratch/arenas" 16 1 32 0.5
says '^[1-9][0-9]* allocations a second$'
