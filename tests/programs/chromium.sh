# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Headless Chromium draws a page whose script works with two workers: its document and its picture. All of its processes
# run under the lock.
# shellcheck source=tests/programs/common.sh
. ./common.sh
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
	{ echo 'chromium is not installed: scripts/bootstrap check installs it' >&2; exit 77; }
cat >"$scratch/page.html" <<'END'
<!doctype html>
<style>body { margin: 0; background: rgb(0, 128, 0) }</style>
<p id="result">waiting</p>
<script>
	const source = new Blob(['let sum = 0; for (let i = 1; i <= 100000; i++) sum += i; postMessage(sum);']);
	let left = 2, sum = 0;
	for (let i = left; i > 0; i--)
		new Worker(URL.createObjectURL(source)).onmessage = (message) => {
			sum += message.data;
			if (--left === 0)
				document.getElementById('result').textContent = `the sum is ${sum}`;
		};
</script>
END
chrome() # arguments...
{
	under_lock "$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage \
		--user-data-dir="$scratch/profile" --host-resolver-rules='MAP * ~NOTFOUND' --virtual-time-budget=20000 \
		"$@" "file://$scratch/page.html"
}
chrome --dump-dom
says '<p id="result">the sum is 10000100000</p>'
chrome --window-size=200,200 --screenshot="$scratch/page.png"
[ "$(head -c 4 "$scratch/page.png" | tail -c 3)" = PNG ] || wrong 'no picture'
