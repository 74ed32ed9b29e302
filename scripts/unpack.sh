# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# To be sourced. Debian packages, of other suites and another architecture than this machine's, unpacked under $scratch.
# They come from the machine's own Debian mirror, by an apt with sources, lists and cache of its own. Nothing is installed.
# shellcheck disable=SC2154 # scratch is the script's

die()
{
	echo "${0##*/}: $*" >&2
	exit 1
}

skip()
{
	echo "${0##*/}: skipped: $*" >&2
	exit 77
}

apt_start() # suites...: makes apt-get and apt-cache below see these suites
{
	local mirror suite
	[ "$(dpkg --print-architecture 2>/dev/null)" = amd64 ] || skip "this is no amd64 Debian"
	mirror=$(grep -rhvs '^#' /etc/apt/sources.list /etc/apt/sources.list.d |
		sed -nE 's|.*\b([a-z+]+://[^] ]+/debian)/?( .*)?$|\1|p' | sed -n 1p) || true
	[ -n "$mirror" ] || skip "no Debian mirror among the machine's package sources"
	mkdir -p "$scratch"/apt/{lists,cache}/partial "$scratch/apt/cache/archives/partial"
	for suite in "$@"; do
		echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
	done >"$scratch/apt/sources.list"
	cat >"$scratch/apt/apt.conf" <<-END
		Dir::Etc::sourcelist "$scratch/apt/sources.list";
		Dir::Etc::sourceparts "/dev/null";
		Dir::State::lists "$scratch/apt/lists";
		Dir::Cache "$scratch/apt/cache";
		APT::Architectures { "amd64"; "${foreign:-amd64}"; };
		APT::Install-Recommends "false";
		APT::Sandbox::User "root";
		Debug::NoLocking "true";
	END
	APT_CONFIG=$scratch/apt/apt.conf apt-get update -qq || skip "the package mirror cannot be reached"
}

newest() # regular expression: the newest package whose name it matches
{
	APT_CONFIG=$scratch/apt/apt.conf apt-cache search --names-only "$1" | cut -d' ' -f1 | sort -V | tail -n 1
}

unpack() # directory, package: downloads and unpacks it, once
{
	[ ! -e "$1/.unpacked-$2" ] || return 0
	mkdir -p "$1" "$scratch/debs"
	(cd "$scratch/debs" && rm -f "${2%:*}"_*.deb && APT_CONFIG=$scratch/apt/apt.conf apt-get download -qq "$2") ||
		die "cannot download $2"
	dpkg-deb -x "$scratch/debs/${2%:*}"_*.deb "$1" || die "cannot unpack $2"
	rm -f "$scratch/debs/${2%:*}"_*.deb
	: >"$1/.unpacked-$2"
}
