# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# To be sourced, with the test's arguments, PREFIX [DIR]: headless Chromium, without a network. Files go to $scratch,
# those that a person may look at to $out: DIR, or they go at the end. Ends 77 if there is no Chromium.
# shellcheck disable=SC2034 # variables of the test

browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome) ||
	{ echo "no Chromium: apt install chromium" >&2; exit 77; }
here=$(dirname "$(readlink -f "$0")")
prefix=$1
[ -x "$prefix/bin/flexguard" ] || { echo "$prefix/bin/flexguard is missing: run make first" >&2; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
out=${2:-$scratch}
mkdir -p "$out"

look() # arguments of chromium...
{
	timeout 120 "$browser" --headless=new --no-sandbox --disable-gpu --hide-scrollbars --disable-dev-shm-usage \
		--user-data-dir="$scratch/profile" --host-resolver-rules='MAP * ~NOTFOUND' "$@" 2>"$scratch/log" ||
		{ echo "chromium failed:" >&2; tail -n 20 "$scratch/log" >&2; exit 1; }
}

# Makes $scratch/audited.html of a page, with the audit inside; the page itself has no such script.
with_audit() # page, script of its own
{
	{ cat "$1"; echo '<script>'; cat "$here/audit.js" "$here/$2"; echo '</script>'; } >"$scratch/audited.html"
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
