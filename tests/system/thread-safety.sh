#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# clang -Wthread-safety knows what the calls of the public headers do: it takes right programs, in C and in C++, with
# calls inlined or not, and refuses wrong ones.
#
#   thread-safety.sh INCLUDE     the folder of the headers
set -euo pipefail
include=$1
for compiler in clang clang++; do
	command -v "$compiler" >/dev/null || { echo "$compiler is not installed: scripts/bootstrap build installs it" >&2; exit 77; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cat >"$scratch/c" <<'END'
#include <flexguard/flexguard.h>
static struct fg_mutex m = FG_MUTEX_INIT;
static struct fg_rwlock l = FG_RWLOCK_INIT;
static struct fg_cond changed = FG_COND_INIT;
static const struct timespec end = {1, 0};
static int n __attribute__((guarded_by(m))), table __attribute__((guarded_by(l)));
END
cat >"$scratch/c++" <<'END'
#include <flexguard/flexguard.hpp>
static flexguard::mutex m;
static flexguard::shared_mutex l;
static flexguard::condition_variable changed;
static const auto end = std::chrono::seconds(1);
static int n __attribute__((guarded_by(m))), table __attribute__((guarded_by(l)));
END

count=0
compile() # language, body of a function, options...
{
	local compiler=clang standard=c11
	[ "$1" = c ] || { compiler=clang++ standard=c++17; }
	{ cat "$scratch/$1" && printf 'void f(void);\nvoid f(void)\n{\n\t%s\n}\n' "$2"; } >"$scratch/program"
	count=$((count + 1))
	"$compiler" -x "$1" -std=$standard -D_POSIX_C_SOURCE=200809L -I"$include" "${@:3}" -Wthread-safety \
		-Werror -fsyntax-only "$scratch/program" >"$scratch/said" 2>&1
}
fail()
{
	echo "thread-safety: $1: $2" >&2
	cat "$scratch/said" >&2
	exit 1
}
right() # language, body
{
	compile "$@" || fail 'a right program is refused' "$2"
	compile "$@" -include flexguard/inline.h || fail 'a right program with calls inlined is refused' "$2"
}
wrong() # language, body, what clang says
{
	local options
	for options in -DNOT_INLINED '-include flexguard/inline.h'; do
		# shellcheck disable=SC2086 # two words
		! compile "$1" "$2" $options || fail 'a wrong program is taken' "$2"
		grep -q "$3" "$scratch/said" || fail "not refused for '$3'" "$2"
	done
}

right c 'fg_mutex_lock(&m); n++; fg_mutex_unlock(&m);'
right c 'if (fg_mutex_trylock(&m) == 0) { n++; fg_mutex_unlock(&m); }'
right c 'if (!fg_mutex_timedlock(&m, CLOCK_REALTIME, &end)) { n++; fg_mutex_unlock(&m); }'
right c 'fg_mutex_lock(&m); while (!n) fg_cond_wait(&changed, &m); n = 0; fg_mutex_unlock(&m);'
right c 'fg_mutex_lock(&m); if (fg_cond_timedwait(&changed, &m, CLOCK_REALTIME, &end)) n++; fg_mutex_unlock(&m);'
right c 'fg_rwlock_wrlock(&l); table++; fg_rwlock_unlock(&l); fg_rwlock_rdlock(&l); (void)table; fg_rwlock_unlock(&l);'
right c 'if (fg_rwlock_trywrlock(&l) == 0) { table++; fg_rwlock_unlock(&l); }'
right c 'if (fg_rwlock_tryrdlock(&l) == 0) { (void)table; fg_rwlock_unlock(&l); }'
right c 'if (fg_rwlock_timedwrlock(&l, CLOCK_REALTIME, &end) == 0) { table++; fg_rwlock_unlock(&l); }'
right c 'if (fg_rwlock_timedrdlock(&l, CLOCK_REALTIME, &end) == 0) { (void)table; fg_rwlock_unlock(&l); }'
wrong c 'n++;' "requires holding mutex 'm'"
wrong c 'fg_mutex_lock(&m); n++;' "mutex 'm' is still held at the end of function"
wrong c 'fg_mutex_unlock(&m);' "releasing mutex 'm' that was not held"
wrong c 'fg_mutex_lock(&m); fg_mutex_lock(&m); fg_mutex_unlock(&m);' "acquiring mutex 'm' that is already held"
wrong c 'if (fg_mutex_trylock(&m)) { n++; fg_mutex_unlock(&m); }' "requires holding mutex 'm'"
wrong c 'if (fg_mutex_timedlock(&m, CLOCK_REALTIME, &end)) fg_mutex_unlock(&m);' "releasing mutex 'm' that was not held"
wrong c 'fg_cond_wait(&changed, &m);' "requires holding mutex 'm'"
wrong c '(void)fg_cond_timedwait(&changed, &m, CLOCK_REALTIME, &end);' "requires holding mutex 'm'"
wrong c 'fg_rwlock_rdlock(&l); table++; fg_rwlock_unlock(&l);' "requires holding read-write lock 'l' exclusively"
wrong c 'if (fg_rwlock_tryrdlock(&l) == 0) { table++; fg_rwlock_unlock(&l); }' "'l' exclusively"
wrong c 'if (fg_rwlock_timedrdlock(&l, CLOCK_REALTIME, &end) == 0) { table++; fg_rwlock_unlock(&l); }' "'l' exclusively"
wrong c 'if (fg_rwlock_trywrlock(&l)) table++; else fg_rwlock_unlock(&l);' "requires holding read-write lock 'l'"
wrong c 'if (fg_rwlock_timedwrlock(&l, CLOCK_REALTIME, &end)) table++; else fg_rwlock_unlock(&l);' "requires holding"
wrong c 'fg_rwlock_unlock(&l);' "'l' that was not held"

right c++ 'm.lock(); n++; m.unlock(); if (m.try_lock()) { n++; m.unlock(); } if (m.try_lock_for(end)) { n++; m.unlock(); }'
right c++ 'l.lock(); table++; l.unlock(); if (l.try_lock_for(end)) { table++; l.unlock(); }'
right c++ 'l.lock_shared(); (void)table; l.unlock_shared(); if (l.try_lock_shared()) { (void)table; l.unlock_shared(); }'
right c++ 'std::unique_lock lock(m); changed.wait(lock); changed.wait_for(lock, end); changed.notify_one();'
wrong c++ 'n++;' "requires holding mutex 'm'"
wrong c++ 'm.lock(); n++;' "mutex 'm' is still held at the end of function"
wrong c++ 'if (!m.try_lock_for(end)) { n++; } else m.unlock();' "requires holding mutex 'm'"
wrong c++ 'l.lock_shared(); table++; l.unlock_shared();' "requires holding shared_mutex 'l' exclusively"
wrong c++ 'l.lock_shared(); l.lock(); l.unlock();' "'l' that is already held"
echo "$count programs"
