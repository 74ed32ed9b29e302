#!/bin/bash
# SPDX-License-Identifier: MIT
# A report of a real benchmark in headless Chromium, without a network: light, dark, narrow and on paper. audit.js and
# figures.js look at the page from inside.
#
#   browser.sh PREFIX [DIR]
#
# With DIR the screenshots and the PDF stay there. Ends 77 if there is no Chromium.
# shellcheck disable=SC2154 # chromium.sh sets variables
set -eu
. "$(dirname "$(readlink -f "$0")")/chromium.sh"

"$prefix/bin/flexguard" bench shm --monitor off --locks posix,futex,flexguard --threads 1,2,8 --rounds 6 --noise \
	--seconds 0.005 --warmup 0 --trace-us 500 --html "$scratch/report.html" >"$scratch/table"

with_audit "$scratch/report.html" figures.js
audit 'light wide' $light --window-size=1100,1600
audit 'dark wide' $dark --window-size=1100,1600
audit 'light narrow' $light --window-size=500,1200
look $light --window-size=1100,2800 --screenshot="$out/light.png" "file://$scratch/report.html" >"$scratch/null"
look $dark --window-size=1100,2800 --screenshot="$out/dark.png" "file://$scratch/report.html" >"$scratch/null"
look --no-pdf-header-footer --print-to-pdf="$out/paper.pdf" "file://$scratch/report.html" >"$scratch/null"
cmp -s "$out/light.png" "$out/dark.png" && { echo "dark mode looks like light mode"; failed=1; }
[ "$(head -c 5 "$out/paper.pdf")" = %PDF- ] || { echo "it cannot be printed"; failed=1; }
exit $failed
