#!/bin/sh
# SPDX-License-Identifier: MIT
# Clients in namespaces of their own, as containers have them, and in a chroot: each registers through a bind mount of
# the socket's directory, with FLEXGUARD_SOCKET unset, and its preempted critical sections are counted.
#
#   namespaces.sh PREFIX
# shellcheck disable=SC2154 # contained.sh sets variables
set -eu
. "$(dirname "$0")/contained.sh"

# As in a container: the socket at its usual place, on a mount of its own. And the same files again, for chroot.
mount -t tmpfs -o mode=755 run /run
mkdir -m 755 /run/flexguard
mount --bind "$scratch/socket" /run/flexguard
mount -o remount,bind,ro /run/flexguard
mount --rbind / "$scratch/root"

worker="env -u FLEXGUARD_SOCKET $prefix/libexec/flexguard/fg-bench shm --lock flexguard-sosp25 --threads 8
	--seconds 100 --warmup 0"
pid='unshare --pid --fork --kill-child'
# shellcheck disable=SC2086 # commands and their arguments
{
	watched 'chroot, user nobody' $pid chroot "$scratch/root" $nobody $worker
	watched 'all namespaces but that of users' $pid --mount --net --ipc --uts --cgroup \
		chroot "$scratch/root" $nobody $worker
	watched 'time namespace, ahead' $pid --time --monotonic 1000000 --boottime 1000000 \
		chroot "$scratch/root" $nobody $worker
	watched 'time namespace, behind' $pid --time --monotonic -100 chroot "$scratch/root" $nobody $worker
	# In a chroot the kernel makes no namespace of users.
	watched 'user namespace, its root' $nobody $pid --user --map-root-user $worker
	watched 'user and all other namespaces, its root' $nobody \
		$pid --user --map-root-user --mount --net --ipc --uts --cgroup --time $worker
}
