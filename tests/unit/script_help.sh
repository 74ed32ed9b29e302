#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Each script of ours says with --help what it is, on stdout, and does nothing else: its head comment's first line is
# there, nothing is written, and it takes no time.
set -euo pipefail
cd "$(dirname "$0")/../.."
export PYTHONDONTWRITEBYTECODE=1
before=$(git status --short 2>/dev/null || true)
status=0
for script in scripts/* lab/guest/build lab/integrations/*/{build,measure} lab/simulator/*; do
	head=$(head -c 2 "$script" 2>/dev/null | tr -d '\0') || continue # a folder
	[ "$head" = '#!' ] || continue
	first=$(sed -n '3s/^# //p; 3s/^"""//p' "$script" | cut -c1-40)
	said=$(timeout 10 "$script" --help </dev/null 2>/dev/null) || { echo "$script --help fails" >&2 && status=1; }
	case $said in
	*"$first"*) ;;
	*) echo "$script --help does not say: $first" >&2 && status=1 ;;
	esac
done
[ "$before" = "$(git status --short 2>/dev/null || true)" ] || { echo "something was written" >&2 && exit 1; }
exit "$status"
