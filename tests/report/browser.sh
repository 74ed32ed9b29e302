#!/bin/bash
# SPDX-License-Identifier: MIT
# A report of a real benchmark in headless Chromium, without a network: light, dark, narrow and on paper. audit.js looks
# at the page from inside.
#
#   browser.sh PREFIX [DIR]
#
# With DIR the screenshots and the PDF stay there. Ends 77 if there is no Chromium.
set -eu
prefix=$1
here=$(dirname "$(readlink -f "$0")")
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
	{ echo "no Chromium: apt install chromium" >&2; exit 77; }
[ -x "$prefix/bin/flexguard" ] || { echo "$prefix/bin/flexguard is missing: run make first" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
out=${2:-$scratch}
mkdir -p "$out"

"$prefix/bin/flexguard" bench shm --monitor off --locks posix,futex,flexguard --threads 1,2,8 --rounds 6 --noise \
	--seconds 0.005 --warmup 0 --trace-us 500 --html "$scratch/report.html" >"$scratch/table"

# The same page with the audit inside; the report itself has no script.
{ cat "$scratch/report.html"; echo '<script>'; cat "$here/audit.js"; echo '</script>'; } >"$scratch/audited.html"

look() # arguments of chromium...
{
	timeout 120 "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --disable-dev-shm-usage \
		--user-data-dir="$scratch/profile" --host-resolver-rules='MAP * ~NOTFOUND' "$@" 2>"$scratch/log" ||
		{ echo "chromium failed:" >&2; tail -n 20 "$scratch/log" >&2; exit 1; }
}

failed=0
audit() # name, arguments of chromium...
{
	local name=$1
	shift
	look "$@" --dump-dom "file://$scratch/audited.html" >"$scratch/dom"
	sed -n '/<pre id="audit">/,/<\/pre>/p' "$scratch/dom" | sed 's/<[^>]*>//g' >"$scratch/audit"
	if ! grep -qx "scheme: ${name%% *}" "$scratch/audit" || ! grep -qx 'findings: 0' "$scratch/audit"; then
		echo "$name:"
		cat "$scratch/audit"
		failed=1
	fi
}

light=--blink-settings=preferredColorScheme=1
dark=--blink-settings=preferredColorScheme=0
audit 'light wide' $light --window-size=1100,1600
audit 'dark wide' $dark --window-size=1100,1600
audit 'light narrow' $light --window-size=500,1200
look $light --window-size=1100,2800 --screenshot="$out/light.png" "file://$scratch/report.html" >"$scratch/null"
look $dark --window-size=1100,2800 --screenshot="$out/dark.png" "file://$scratch/report.html" >"$scratch/null"
look --no-pdf-header-footer --print-to-pdf="$out/paper.pdf" "file://$scratch/report.html" >"$scratch/null"
cmp -s "$out/light.png" "$out/dark.png" && { echo "dark mode looks like light mode"; failed=1; }
[ "$(head -c 5 "$out/paper.pdf")" = %PDF- ] || { echo "it cannot be printed"; failed=1; }
exit $failed
