# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Three threads read and write sockets; a snapshot is written meanwhile, and loaded again. The threads wait for each
# other by spinning, on any lock: with fewer CPUs each round takes a time slice, hence few rounds of many requests.
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs redis-server redis-cli redis-benchmark
start()
{
	serve redis-server --port 0 --unixsocket "$scratch/socket" --dir "$scratch" --io-threads 3 \
		--io-threads-do-reads yes --enable-debug-command local --save '' --appendonly no
	await redis-cli -s "$scratch/socket" -e ping
}
ask() { client redis-cli -s "$scratch/socket" -e "$@"; }

start
client redis-benchmark -s "$scratch/socket" -q -c 10 -P 50 -n 10000 -r 5000 -t set,incr,lpush
ask info memory
says '^mem_allocator:jemalloc'
ask bgsave
client redis-benchmark -s "$scratch/socket" -q -c 10 -P 50 -n 10000 incr number
await sh -c "redis-cli -s '$scratch/socket' info persistence | grep -q '^rdb_bgsave_in_progress:0'"
ask info persistence
says '^rdb_last_bgsave_status:ok'
ask get number
says '^10000$'
ask save
ask debug digest
cp "$scratch/out" "$scratch/before"
end_server TERM 0
start
ask debug digest
is_same "$scratch/before" "$scratch/out"
end_server TERM 0
