# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck source=tests/programs/common.sh
. ./common.sh
PATH=$PATH:/usr/sbin
needs mariadb-install-db mariadbd mariadb mariadb-check sysbench
server_options=(--no-defaults --datadir="$scratch/data" --user="$(id -un)")
client mariadb-install-db "${server_options[@]}" --auth-root-authentication-method=normal
start()
{
	serve mariadbd "${server_options[@]}" --socket="$scratch/socket" --skip-networking --pid-file="$scratch/pid"
	await mariadb --no-defaults -S "$scratch/socket" -u root -e 'select 1'
}
start
client mariadb --no-defaults -S "$scratch/socket" -u root -e 'create database sbtest'
load=(sysbench oltp_read_write --mysql-socket="$scratch/socket" --mysql-user=root --tables=4 --table-size=1000
	--threads=16 --events=1000 --time=0 --db-driver=mysql)
client "${load[@]}" prepare
client "${load[@]}" run
says 'transactions: +1000 '
end_server TERM 0
grep -q 'Shutdown complete' "$scratch/log" || wrong 'the shutdown was not clean'
# The tables are whole after the restart.
start
client mariadb-check --no-defaults -S "$scratch/socket" -u root --extended sbtest
[ "$(grep -c 'OK$' "$scratch/out")" = 4 ] || wrong 'a table is damaged'
end_server TERM 0
