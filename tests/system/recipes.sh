#!/bin/sh
# SPDX-License-Identifier: MIT
# What docs/guide/running-programs.md tells users of systemd and of containers to write, as it stands there: the fragment
# of a unit is valid, by systemd itself where it is installed, and a program that starts in the environment and with the
# mounts of either recipe, as an ordinary user with neither privilege nor /run of the host, is watched.
#
#   recipes.sh PREFIX
# shellcheck disable=SC2154 # contained.sh sets variables
set -eu
. "$(dirname "$0")/contained.sh"
. "$(dirname "$0")/page.sh"
page=$(dirname "$(realpath "$0")")/../../docs/guide/running-programs.md

block "$page" '\*\*A systemd unit\*\*' ini > "$scratch/fragment"
block "$page" '\*\*A container\*\*' sh > "$scratch/container"
grep -q '^\[Service\]$' "$scratch/fragment" || fail 'the page has no fragment of a unit'
grep -q '^podman run ' "$scratch/container" || fail 'the page has no command for a container'

units=$scratch/units
mkdir -p "$units/program.service.d"
cp "$prefix"/lib/systemd/system/flexguard.s* "$units"
printf '[Service]\nExecStart=/bin/true\n' > "$units/program.service"
cp "$scratch/fragment" "$units/program.service.d/override.conf"
if command -v systemd-analyze > "$scratch/ignored"; then
	verify() {
		SYSTEMD_UNIT_PATH=$units: systemd-analyze verify --man=no "$units/program.service" > "$scratch/said" 2>&1 &&
			! grep -q program.service "$scratch/said"
	}
	verify || { cat "$scratch/said"; fail 'systemd refuses the fragment'; }
	echo 'Enviroment=A=b' >> "$units/program.service.d/override.conf"
	! verify || fail 'systemd has not read the fragment'
else
	! grep -Evq '^(#.*|\[(Unit|Service)\]|(Wants|After|Environment|BindReadOnlyPaths)=[^ ]+|)$' "$scratch/fragment" ||
		fail 'the fragment has a line that is none'
fi

# A list of NAME=VALUE, and one of FROM:TO, each word without a space.
of_unit() { sed -n "s/^$1=//p" "$scratch/fragment"; }
of_container() { tr -s ' \\' '\n\n' < "$scratch/container" | sed -n "/^-$1\$/{n;s/:ro\$//;p}"; }
# The packages install to /usr; what is tested is in the prefix.
installed() { sed "s|/usr/lib/flexguard|$prefix/lib/flexguard|g"; }
[ "$(of_unit Environment | grep -c ^LD_PRELOAD=)$(of_container e | grep -c ^LD_PRELOAD=)" = 11 ] ||
	fail 'a recipe preloads nothing'

# On one CPU holders are preempted, however many the machine has.
cpu=$(sed -n 's/^Cpus_allowed_list:[^0-9]*\([0-9]*\).*/\1/p' /proc/self/status)
# The host's /run. The root of each program has another, with what its recipe says.
mount -t tmpfs -o mode=755 run /run
mkdir -m 755 /run/flexguard
mount --bind "$scratch/socket" /run/flexguard
mount --rbind / "$scratch/root"
mount --make-rprivate "$scratch/root"

in_root() { # name, mounts, environment
	mount -t tmpfs -o mode=755 run "$scratch/root/run"
	for pair in $2; do
		from=${pair%%:*} to=$scratch/root${pair#*:}
		mkdir -p "$to"
		mount --bind "$from" "$to"
		mount -o remount,bind,ro "$to"
	done
	# shellcheck disable=SC2086 # a command and its arguments, assignments
	watched "$1" setpriv --pdeathsig KILL taskset -c "$cpu" \
		unshare --pid --fork --kill-child --mount --net --ipc --uts --cgroup chroot "$scratch/root" $nobody \
		env -i PATH=/usr/bin:/bin $3 "$prefix/libexec/flexguard/fg-bench" shm --lock posix --threads 8 \
		--seconds 100 --warmup 0
	for pair in $2; do
		umount "$scratch/root${pair#*:}"
	done
	umount "$scratch/root/run"
}

in_root 'a unit' "$(of_unit BindReadOnlyPaths | sed 's/.*/&:&/')" "$(of_unit Environment | installed)"
in_root 'a container' "$(of_container v | installed)" "$(of_container e | installed)"
