#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# killed.sh SOURCE-TREE: a lab/guest/build that is killed leaves no half of a kernel that anybody takes for whole:
# neither where the kernels are, nor the next build where make works. Its make, cp and sha256sum are programs of this
# test. shellcheck disable=SC2016
# (the programs expand them)
set -uo pipefail
cd "$1" || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
guests=$scratch/guests
source=$guests/linux-source-7.3
failed=0
wrong() { echo "killed: $*" && failed=1; }

# A source whose files have the sums that lab/guest/touches wants: each begins with its own.
while read -r what file sum _; do
	case $what in edit | replace) ;; *) continue ;; esac
	mkdir -p "$source/$(dirname "$file")"
	printf '%s\n%s\n' "$sum" 'obj-$(CONFIG_SMP) += smp.o' >"$source/$file"
done <lab/guest/touches
: >"$source/.complete"

mkdir "$scratch/bin"
program() { { echo '#!/bin/bash' && cat; } >"$scratch/bin/$1" && chmod +x "$scratch/bin/$1"; }
program sha256sum <<'END'
read -r sum
echo "$sum  -"
END
# WHEN=make, WHEN=cp: writes half of the kernel, and kills the build that called it.
program make <<'END'
for argument; do
	case $argument in
	O=*) objects=${argument#O=} ;;
	allnoconfig) sed -n '/=y$/p' "$objects/wanted.now" >"$objects/.config" ;;
	linux)
		[ ! -e "$objects/linux" ] || exit 0 # as make: it is newer than what it is made of
		seq 1000 >"$objects/linux"
		[ "$WHEN" = make ] || exit 0
		seq 500 >"$objects/linux"
		kill -KILL $PPID
		;;
	esac
done
END
program cp <<'END'
[ "$WHEN" != cp ] || [[ $2 != */*linux-ticket* ]] || { head -n 500 "$1" >"$2" && kill -KILL $PPID && exit; }
exec /bin/cp "$@"
END

build() # make, cp or never: status of the build
{
	WHEN=$1 PATH=$scratch/bin:$PATH FLEXGUARD_KERNELS=$scratch lab/guest/build ticket >"$scratch/log" 2>&1
}
kernels() { (cd "$guests" && for file in linux-*; do [ ! -f "$file" ] || echo "$file of $(wc -l <"$file") lines"; done); }

for when in make cp; do
	rm -rf "$guests"/{own,linux-ticket}
	build $when
	[ $? = 137 ] || wrong "by $when: it was not killed: $(cat "$scratch/log")"
	[ -z "$(kernels)" ] || wrong "by $when: there is $(kernels)"
	build never || wrong "after $when: $(cat "$scratch/log")"
	[ "$(kernels)" = 'linux-ticket of 1000 lines' ] || wrong "after $when: there is '$(kernels)'"
done

# A kernel that was there stays until the next one is whole.
seq 700 >"$guests/linux-ticket"
build cp
[ "$(kernels)" = 'linux-ticket of 700 lines' ] || wrong "the kernel of before: there is '$(kernels)'"
exit $failed
