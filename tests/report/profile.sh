#!/bin/bash
# SPDX-License-Identifier: MIT
# The page of `flexguard profile -o` in headless Chromium, without a network, 1280 and 800 pixels wide: of a saved profile
# with long C++ names, long paths, many locks and large numbers. audit.js and profile.js look at the page from inside.
#
#   profile.sh PREFIX [DIR]
#
# With DIR the screenshots stay there. Ends 77 if there is no Chromium.
# shellcheck disable=SC2154 # chromium.sh sets variables
set -eu
. "$(dirname "$(readlink -f "$0")")/chromium.sh"

python3 "$here/long_profile.py" >"$scratch/profile.json"
"$prefix/bin/flexguard" profile --open "$scratch/profile.json" -o "$scratch/saved" >"$scratch/table"
page=$scratch/saved/index.html
with_audit "$page" profile.js

for width in 1280 800; do
	audit "light $width" "$light" --window-size=$width,1000
	look "$light" --window-size=$width,2400 --screenshot="$out/profile-$width.png" "file://$page" >"$scratch/null"
done
audit 'dark 800' "$dark" --window-size=800,1000
exit "$failed"
