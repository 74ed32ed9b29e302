#!/bin/sh
# SPDX-License-Identifier: MIT
# What docs/guide/c-api.md tells authors of programs to write, as it stands there, in a tree that is built: with the
# variables of the page, its command compiles its examples, and they run.
#
#   c-api.sh PREFIX
set -eu
here=$(dirname "$(realpath "$0")")
. "$here/page.sh"
page=$here/../../docs/guide/c-api.md
prefix=$(realpath "$1")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "c-api: $1"; exit 1; }

# The tree, as far as the page names it.
mkdir "$scratch/tree"
cd "$scratch/tree"
ln -s "$prefix" build
compile=$(sed -n 's/^`\(cc program\.c .*\)` compiles it\..*/\1/p' "$page")
[ "$compile" ] || fail 'the page has no command that compiles'
block "$page" 'In a tree that is built' sh > variables
grep -q '^export ' variables || fail 'the page has no variables for a tree that is built'
unset PKG_CONFIG_PATH LD_LIBRARY_PATH
. ./variables
export FLEXGUARD_SOCKET=

# A block in a function of its own, with the names that it leaves out: `...` is the program's work.
program() { # begin, what the block does, declarations
	block "$page" "$1" c > example
	grep -q "$2" example || fail "the page has no example of $2"
	{
		grep '^#include' example
		echo "$3 int main(void) {"
		grep -v '^#include' example | sed 's/^\.\.\.$/work = 1;/'
		echo 'return !work; }'
	} > program.c
	rm -f a.out
	eval "$compile" || { cat program.c; fail "the example of $2 does not compile"; }
	ldd ./a.out | grep -q "$scratch/tree/build/lib/libflexguard" || fail "the example of $2 has another library"
	./a.out || fail "the example of $2: $?"
}
program '# The C API' fg_mutex_lock 'static int work;'
program '\*\*Wait loops' fg_critical_section_preempted '
	static int looks, work;
	static int try_to_get_it(void) { work = looks++ == 3; return work; }
	static void block(void) {}
	static void pause(void) {}'
