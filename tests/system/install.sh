#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs a finished CMake build into a scratch place, as a packager would, and uses what is there.
#
#   install.sh BUILD LOCK...     the locks whose interposers it has
set -euo pipefail
build=$1
here=$(dirname "$(realpath "$0")")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "install: $*" >&2; exit 1; }

DESTDIR=$scratch/stage cmake --install "$build" --prefix /opt/fg >/dev/null
prefix=$scratch/moved
mv "$scratch/stage/opt/fg" "$prefix" # wherever it ends up
for file in lib/libflexguard.so lib/libflexguard.a lib/pkgconfig/flexguard.pc lib/cmake/flexguard/flexguard-config.cmake libexec/flexguard/fg-bench share/flexguard/LOCKS; do
	[ -s "$prefix/$file" ] || fail "no $file"
done
for name in "${@:2}"; do
	[ -s "$prefix/lib/flexguard/$name.so" ] || fail "no interposer for $name"
done
while IFS=$'\t' read -r name _; do
	[ ! -x "$build/lab/fg-bench-$name" ] || "$prefix/libexec/flexguard/fg-bench" --list | grep -qx -- "$name"$'\t'own || fail "fg-bench lacks $name"
done <"$prefix/share/flexguard/LOCKS"

# Nothing but the public names leaves the library, each with its version; a name that goes breaks programs. The names
# of inlined calls exist on x86-64 only.
exported=$(nm -D --defined-only "$prefix/lib/libflexguard.so" | awk '$2 != "A" { print $3 }' | LC_ALL=C sort)
public=$(if [ "$(uname -m)" = x86_64 ]; then cat "$here/symbols"; else grep -v '_[0-9]*@' "$here/symbols"; fi)
[ "$exported" = "$public" ] || fail "libflexguard.so exports other names than tests/system/symbols:
$(diff <(echo "$public") <(echo "$exported"))"

# Every public header stands alone, in C and in C++, under strict warnings, with the names of POSIX and without.
for header in "$prefix"/include/flexguard/*.h; do
	for standard in '-std=c99' '-std=c11' '-std=c11 -D_POSIX_C_SOURCE=200809L'; do
		# shellcheck disable=SC2086 # lists of flags
		echo 'extern int what_includes_it;' | "$CC" $CFLAGS $standard -Wall -Wextra -Wpedantic -Werror \
			-fsyntax-only -I"$prefix/include" -include "$header" -x c -
	done
	! command -v c++ >/dev/null ||
		c++ -x c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I"$prefix/include" "$header"
done

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig

# The example at the top of the C++ header, as it stands: in a function of its own, with the names that it leaves out.
if command -v c++ >/dev/null; then
	{
		echo '#include <flexguard/flexguard.hpp>'
		echo 'static flexguard::mutex mutex; static bool ready = true; int main() {'
		sed -n 's|^//   \(.*\)|\1|p' "$prefix/include/flexguard/flexguard.hpp" | sed 's/\.\.\. //'
		echo '}'
	} >"$scratch/example.cc"
	# shellcheck disable=SC2046,SC2086 # lists of flags
	c++ $CFLAGS -std=c++17 -Wall -Wextra -Werror -o "$scratch/example" "$scratch/example.cc" $(pkg-config --cflags --libs flexguard) ||
		fail "the example of flexguard.hpp does not compile"
	LD_LIBRARY_PATH=$prefix/lib FLEXGUARD_SOCKET='' "$scratch/example" || fail "the example of flexguard.hpp: $?"
fi

# What fg_monitor_error says has words.
cat >"$scratch/words.c" <<'END'
#include <errno.h>
#include <flexguard/monitor.h>
#include <string.h>
int main(void)
{
	const char *unknown = fg_strerror(-1);
	static const int told[] = {ENOENT, ECONNREFUSED, EACCES, ECANCELED, ENAMETOOLONG, EKEYREJECTED, EPROTO, ETIMEDOUT,
		ECONNRESET, EPROTONOSUPPORT, EAGAIN, EBUSY, EDQUOT, EPERM, E2BIG, ENOSPC, EINPROGRESS, 0};
	for (unsigned i = 0; i < sizeof(told) / sizeof(told[0]); i++)
		if (!strcmp(fg_strerror(told[i]), unknown))
			return 1 + (int)i;
	return 0;
}
END
# shellcheck disable=SC2046,SC2086 # lists of flags
"$CC" $CFLAGS -o "$scratch/words" "$scratch/words.c" $(pkg-config --cflags --libs flexguard)
LD_LIBRARY_PATH=$prefix/lib FLEXGUARD_SOCKET='' "$scratch/words" || fail "fg_strerror has no words for number $? of the list"
# shellcheck disable=SC2046,SC2086 # lists of flags
"$CC" $CFLAGS -o "$scratch/shared" "$here/client.c" $(pkg-config --cflags --libs flexguard)
LD_LIBRARY_PATH=$prefix/lib FLEXGUARD_SOCKET='' "$scratch/shared" || fail "shared client: $?"
ldd "$prefix/lib/libflexguard.so" | grep -q bpf && fail "libflexguard.so needs libbpf"
# shellcheck disable=SC2046,SC2086
"$CC" $CFLAGS -o "$scratch/static" "$here/client.c" $(pkg-config --cflags flexguard) "$prefix/lib/libflexguard.a" -pthread
FLEXGUARD_SOCKET='' "$scratch/static" || fail "static client: $?"

# The examples, with CMake's package as with pkg-config.
if command -v c++ >/dev/null; then
	CXXFLAGS=$CFLAGS cmake -S "$here/../../examples" -B "$scratch/examples" -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/said" &&
		cmake --build "$scratch/examples" >>"$scratch/said" 2>&1 || { cat "$scratch/said"; fail "examples: not built"; }
	grep -q 'warning:' "$scratch/said" && { cat "$scratch/said"; fail "examples: warnings"; }
	for example in queue queue_static phases wait_loop own_lock own_barrier table; do
		FLEXGUARD_SOCKET='' "$scratch/examples/$example" >"$scratch/said" || fail "example $example: $?, $(cat "$scratch/said")"
		[ -s "$scratch/said" ] || fail "example $example says nothing"
	done
	ldd "$scratch/examples/queue_static" | grep -q flexguard && fail "queue_static needs the shared library"
	ldd "$scratch/examples/own_barrier" | grep -q flexguard && fail "own_barrier links the library"
	ldconfig -p | grep -q libflexguard || FLEXGUARD_SOCKET='' "$scratch/examples/own_barrier" | grep -q 'not installed' ||
		fail "own_barrier finds a library"
	LD_LIBRARY_PATH=$prefix/lib FLEXGUARD_SOCKET='' "$scratch/examples/own_barrier" | grep -q 'with FlexGuard' ||
		fail "own_barrier does not find the library"
	for example in "$here"/../../examples/*.c; do
		# shellcheck disable=SC2046,SC2086
		"$CC" $CFLAGS -std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Werror -o "$scratch/example" "$example" \
			$(pkg-config --cflags --libs flexguard) -pthread
		LD_LIBRARY_PATH=$prefix/lib FLEXGUARD_SOCKET='' "$scratch/example" >/dev/null || fail "$example: $?"
	done
fi

# The same with calls inlined, in C and in C++; and a header whose layouts are not the library's, which must not link.
inlined() # compiler, output, options...
{
	# shellcheck disable=SC2046,SC2086
	"$1" $CFLAGS -O2 "${@:3}" -include flexguard/inline.h -o "$2" "$here/client.c" $(pkg-config --cflags --libs flexguard)
}
inlined "$CC" "$scratch/inlined"
LD_LIBRARY_PATH=$prefix/lib FLEXGUARD_SOCKET='' "$scratch/inlined" || fail "client with inlined calls: $?"
if command -v c++ >/dev/null && [ -z "$CFLAGS" ]; then
	inlined c++ "$scratch/inlined" -x c++
	LD_LIBRARY_PATH=$prefix/lib FLEXGUARD_SOCKET='' "$scratch/inlined" || fail "C++ client with inlined calls: $?"
fi
version=$(sed -n 's/^#define FG_INLINE_VERSION //p' "$prefix/include/flexguard/inline.h")
if nm "$scratch/inlined" | grep -q "fg_mutex_slow_lock_$version"; then
	mkdir -p "$scratch/other/flexguard"
	sed "s/_$version\$/_$((version + 1))/" "$prefix/include/flexguard/inline.h" >"$scratch/other/flexguard/inline.h"
	! said=$(inlined "$CC" "$scratch/other/program" -I"$scratch/other" 2>&1) || fail "a program of another version was linked"
	[[ $said == *"fg_mutex_slow_lock_$((version + 1))"* ]] || fail "no program of another version: $said"
else
	[ "$(uname -m)" != x86_64 ] || fail "nothing was inlined"
fi
