# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# pgbench has threads, the server has processes. PostgreSQL refuses to run as root.
# shellcheck source=tests/programs/common.sh
. ./common.sh
PATH=$PATH:$(printf '%s:' /usr/lib/postgresql/*/bin)
needs initdb postgres pgbench psql
as=()
if [ "$(id -u)" = 0 ]; then
	as=(setpriv --reuid nobody --regid nogroup --clear-groups)
	chown nobody "$scratch"
fi
export PGHOST=$scratch PGUSER=tester PGDATABASE=postgres
client "${as[@]}" initdb -D "$scratch/data" -U tester --auth trust --no-sync
serve "${as[@]}" postgres -D "$scratch/data" -k "$scratch" -c listen_addresses=
await psql -c 'select 1'
client pgbench -i -q -s 2
under_lock pgbench -n -c 8 -j 8 -t 200
says '^number of transactions actually processed: 1600/1600$'
client psql -Atc 'select count(*), sum(delta) = (select sum(abalance) from pgbench_accounts),
	sum(delta) = (select sum(bbalance) from pgbench_branches) from pgbench_history'
says '^1600[|]t[|]t$'
end_server INT 0
