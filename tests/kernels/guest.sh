# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by the scripts here and by lab/guest/build: kernels of other versions, in a virtual machine under plain emulation.

. scripts/unpack.sh

scratch=${FLEXGUARD_KERNELS:-/tmp/flexguard-kernels}
mkdir -p "$scratch"
[ -O "$scratch" ] || die "$scratch belongs to somebody else, and what is there is run: set FLEXGUARD_KERNELS to another folder"

# ---- the virtual machine ---------------------------------------------------------------------------------------------

# QEMU 7 of Debian 12 crashes kernels since 7.0: unless the machine has QEMU 10, the backport is unpacked with
# whatever it needs that is not installed.
qemu_start() # [what it emulates, its package]
{
	local version program=qemu-system-${1:-x86_64} root=$scratch/qemu
	version=$($program --version 2>/dev/null | sed -n 's/^QEMU emulator version \([0-9]*\).*/\1/p') || true
	if [ "${version:-0}" -ge 10 ]; then
		qemu=("$program")
		return
	fi
	if [ ! -e "$root/.unpacked" ]; then
		APT_CONFIG=$scratch/apt/apt.conf apt-get install -qq --download-only -y -t bookworm-backports \
			"${2:-qemu-system-x86}" >/dev/null || die "cannot download QEMU"
		mkdir -p "$root"
		find "$scratch/apt/cache/archives" -name '*.deb' -exec dpkg-deb -x {} "$root" \; -delete || die "cannot unpack QEMU"
		: >"$root/.unpacked"
	fi
	qemu=(env "LD_LIBRARY_PATH=$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu"
		"QEMU_MODULE_DIR=$root/usr/lib/x86_64-linux-gnu/qemu"
		"$root/usr/bin/$program" -L "$root/usr/share/seabios" -L "$root/usr/share/qemu")
}

# Downloads and unpacks it. Since 6.19 the kernel proper is in linux-binary-*.
find_kernel() # series, flavour, where to, [architecture]: sets package and kernel
{
	local name="${1//./\\.}[.-][0-9a-z.+-]*-$2\$" version
	package=$(newest "^linux-binary-$name" | grep . || newest "^linux-image-$name") || true
	[ -n "$package" ] || die "the mirror has no kernel $1 of $2"
	unpack "$3" "$package${4:+:$4}"
	version=${package#linux-*-}
	kernel=$(find "$3" -type f \( -name "vmlinuz-$version" -o -path "*/$version/vmlinuz" \) | sed -n 1p)
	[ -n "$kernel" ] || die "$package holds no kernel"
}

add() # root of the guest, file, its name there: the program and the libraries it is linked with
{
	local library
	install -D -m 755 "$2" "$1/$3"
	{ ldd "$2" 2>/dev/null || true; } | sed -nE 's|.*[[:blank:]](/[^ ]+\.so[^ ]*).*|\1|p' | while read -r library; do
		[ -e "$1$library" ] || install -D -m 755 "$(readlink -f "$library")" "$1$library"
	done
}

slice_locks() # sets slice_locks: those that ask for longer time slices
{
	mapfile -t slice_locks < <(sed -n 's/\t.*\tneeds=slice$//p' build/share/flexguard/LOCKS)
}

add_prefix() # root of the guest: what `make` built, as if installed in /
{
	local file
	slice_locks
	for file in bin/flexguard lib/flexguard libexec/flexguard/fg-{probe,bench{,-posix}} "${slice_locks[@]/#/libexec/flexguard/fg-bench-}"; do
		find "build/$file" -type f | while read -r file; do
			add "$1" "$file" "${file#build/}"
		done
	done
	cp -a build/lib/flexguard/for "$1/lib/flexguard/" # by which a program finds the interposer of its own kind
	install -D -m 644 build/share/flexguard/LOCKS "$1/share/flexguard/LOCKS"
}

guest_start() # root of the guest; standard input: the script that it runs, whose exit status is the guest's
{
	rm -rf "$1"
	mkdir -p "$1"/{bin,dev,proc,sys,tmp,run,root}
	add "$1" "$(command -v busybox)" bin/busybox
	add "$1" "$(command -v cat)" bin/cat # busybox gives a setuid bit up, and a test needs one
	ln -s busybox "$1/bin/sh"
	cat >"$1/script"
	cat >"$1/init" <<-'END'
		#!/bin/sh
		/bin/busybox --install -s /bin
		export PATH=/bin HOME=/root RUST_BACKTRACE=1 FLEXGUARD_REQUIRE_BPF=1
		mount -t proc proc /proc
		mount -t sysfs sys /sys
		mount -t cgroup2 group /sys/fs/cgroup
		mount -t devtmpfs dev /dev 2>/dev/null
		mount -t tmpfs tmp /tmp
		mount -t debugfs debug /sys/kernel/debug
		mount -t bpf bpf /sys/fs/bpf 2>/dev/null
		chmod 1777 /tmp
		ip link set lo up
		ln -sf /proc/self/fd /dev/fd
		echo "guest: Linux $(uname -r), $(nproc) CPUs"
		/bin/sh /script
		echo "guest: status $?"
		poweroff -f
	END
	chmod 755 "$1/init"
}

pack() # root of the guest, [the busybox that packs it]
{
	[ $# -gt 1 ] || set -- "$1" busybox
	(cd "$1" && find . | "${@:2}" cpio -o -H newc 2>/dev/null | gzip -1 >"$1.cpio.gz") || die "cannot pack $1"
}

# Runs it; its output goes to standard output and the log; returns its status. The machine ends when this script does,
# however it ends. A timeout that is killed as it starts its program leaves it.
machine=(-cpu max -m 3072) console=ttyS0
start() # image, log, kernel, CPUs, seconds, [the kernel's command line]
{
	setpriv --pdeathsig TERM timeout --foreground --kill-after=10 "$5" setpriv --pdeathsig KILL "${qemu[@]}" \
		-accel tcg,thread=multi -smp "$4" "${machine[@]}" -display none -serial stdio -no-reboot -net none \
		-kernel "$3" -initrd "$1" -append "console=$console quiet panic=-1 no_timer_check rdinit=/init ${6:-}" </dev/null 2>&1 |
		sed -u 's/\r//g' | tee "$2"
	grep -q '^guest: status ' "$2" || echo "guest: did not finish within $5 s" >&2
	return "$(sed -n 's/^guest: status \([0-9]*\)$/\1/p' "$2" | grep . || echo 1)"
}

boot() # root of the guest, kernel, CPUs, seconds, [the kernel's command line]
{
	pack "$1"
	start "$1.cpio.gz" "$1.log" "${@:2}"
}
