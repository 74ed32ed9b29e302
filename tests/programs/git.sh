# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs git
export HOME=$scratch GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a \
	GIT_COMMITTER_EMAIL=a@b
git init -q "$scratch/repository" 2>>"$scratch/err"
cd "$scratch/repository"
# 150 commits, each with 60 files that all change: 9,000 blobs.
seq 150 | awk '{
	printf "commit refs/heads/main\ncommitter a <a@b> %d +0000\ndata 1\nc\n", 1700000000 + $1
	for (file = 1; file <= 60; file++) {
		text = ""
		for (line = $1; line <= $1 + 2 * file; line++)
			text = text line * file "\n"
		printf "M 644 inline directory%d/file%d\ndata %d\n%s\n", file % 7, file, length(text), text
	}
}' | git -c fastimport.unpackLimit=100000 fast-import --quiet
git checkout -q main
git log -p >"$scratch/before"
under_lock git -c pack.threads=8 -c gc.auto=0 gc -q --aggressive --prune=now
under_lock git fsck --full --strict
under_lock git -c grep.threads=8 grep -c '^1'
under_lock git log -p
is_same "$scratch/before" "$scratch/out"
[ "$(git count-objects)" = '0 objects, 0 kilobytes' ] || wrong 'loose objects are left'
