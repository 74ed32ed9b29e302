#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The units of an assembled prefix, judged by systemd's own tools: they are valid, and the service is confined.
#
#   units.sh PREFIX
set -euo pipefail
units=$1/lib/systemd/system
command -v systemd-analyze >/dev/null || exit 77
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

systemd-analyze verify --man=no "$units"/flexguard{.socket,.service,-retry.timer,-metrics.service} 2>"$scratch/said" || { cat "$scratch/said"; exit 1; }
! grep flexguard "$scratch/said" || { echo "the units have warnings"; exit 1; }
# 0 is confined from everything, 10 from nothing; root's default service has 9.6.
for unit in flexguard flexguard-metrics; do
	systemd-analyze security --offline=true --threshold=20 "$units/$unit.service" >"$scratch/exposure" ||
		{ cat "$scratch/exposure"; exit 1; }
done
# As many as systemd lets root's services have: 1024 unread answers for each of 512 users (monitor/src/unread.rs).
grep -qx LimitNOFILE=524288 "$units/flexguard.service" || { echo "the service has too few open files"; exit 1; }
# The pod of packaging/kubernetes has the capabilities of the unit, and its client none.
manifests=$(dirname "$(realpath "$0")")/../../packaging/kubernetes
has=$(sed -n 's/^CapabilityBoundingSet=//p' "$units/flexguard.service" | sed 's/CAP_//g; s/ /, /g')
[ "$(sed -n 's/^ *add: //p' "$manifests"/*.yaml)" = "[$has]" ] ||
	{ echo "the DaemonSet's capabilities are not [$has]"; exit 1; }
for pod in monitor client; do
	[ "$(grep -c 'drop: *\[ALL\]' "$manifests/$pod.yaml")" = "$(grep -c ' image: ' "$manifests/$pod.yaml")" ] ||
		{ echo "a container of $pod.yaml does not drop all capabilities"; exit 1; }
done
systemd-sysusers --dry-run "$1/lib/sysusers.d/flexguard.conf" >/dev/null 2>"$scratch/said" || { cat "$scratch/said"; exit 1; }
systemd-tmpfiles --create --root="$scratch" "$1/lib/tmpfiles.d/flexguard.conf"
[ "$(stat -c %a "$scratch/run/flexguard")" = 755 ]
