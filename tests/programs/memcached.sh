# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Eight threads serve eight clients, which count up shared numbers; no increment may be lost.
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs memcached python3
serve memcached -u "$(id -un)" -s "$scratch/socket" -t 8 -m 64
await test -S "$scratch/socket"
client python3 memcached.py "$scratch/socket"
says '^right$'
end_server TERM 0
