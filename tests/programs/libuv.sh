# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Short tasks in libuv's thread pool: each runs as often as it is done.
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs cc
headers uv.h jemalloc/jemalloc.h
../../lab/integrations/programs/build "$scratch"
under_lock "$scratch/uv_tasks" 16 64 200 0.5
says '^[1-9][0-9]* tasks a second$'
