# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Worker threads, and libuv's pool of threads (the hashes).
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs node
cat >"$scratch/workers.js" <<'END'
const { Worker, isMainThread, workerData } = require('worker_threads');
const { pbkdf2 } = require('crypto');
if (isMainThread) {
	const shared = new Int32Array(new SharedArrayBuffer(8));
	let running = 8;
	for (let i = 0; i < 8; i++)
		new Worker(__filename, { workerData: shared }).on('error', (error) => {
			throw error;
		}).on('exit', () => {
			if (--running === 0)
				console.log('counted', shared[0], 'hashed', shared[1]);
		});
} else {
	for (let i = 0; i < 20000; i++)
		Atomics.add(workerData, 0, 1);
	for (let i = 0; i < 20; i++)
		pbkdf2('password', 'salt', 1000, 32, 'sha256', (error, key) => {
			if (!error && key.toString('hex').startsWith('632c2812e46d4604'))
				Atomics.add(workerData, 1, 1);
		});
}
END
under_lock node "$scratch/workers.js"
says '^counted 160000 hashed 160$'
