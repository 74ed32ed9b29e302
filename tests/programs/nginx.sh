# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Four processes, each with eight threads that read the file in parts, for sixteen clients at a time.
# shellcheck source=tests/programs/common.sh
. ./common.sh
PATH=$PATH:/usr/sbin
needs nginx curl
make_data "$scratch/data"
cat >"$scratch/conf" <<END
daemon off;
user $(id -un) $(id -gn);
worker_processes 4;
pid $scratch/pid;
error_log $scratch/log;
thread_pool readers threads=8;
events { }
http {
	access_log off;
	client_body_temp_path $scratch/body;
	proxy_temp_path $scratch/proxy;
	fastcgi_temp_path $scratch/fastcgi;
	uwsgi_temp_path $scratch/uwsgi;
	scgi_temp_path $scratch/scgi;
	server {
		listen unix:$scratch/socket;
		root $scratch;
		aio threads=readers;
		sendfile off;
		output_buffers 2 64k;
	}
}
END
serve nginx -p "$scratch" -c "$scratch/conf"
await test -S "$scratch/socket"
for round in 1 2 3 4; do
	client curl -sS -f -Z --parallel-max 16 --unix-socket "$scratch/socket" -o "$scratch/got-#1" \
		"http://localhost/data?[1-16]"
	for file in "$scratch"/got-*; do
		is_same "$scratch/data" "$file"
	done
	[ "$(find "$scratch" -name 'got-*' | wc -l)" = 16 ] || wrong "round $round: not 16 answers"
	rm "$scratch"/got-*
done
end_server QUIT 0
