# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs git
export HOME=$scratch GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a \
	GIT_COMMITTER_EMAIL=a@b
git init -q "$scratch/repository" 2>>"$scratch/err"
cd "$scratch/repository"
for commit in $(seq 20); do
	for file in $(seq 30); do
		seq "$commit" $((commit * 100 + file)) >"file$file"
	done
	git add .
	git commit -q -m "$commit"
done
git log -p >"$scratch/before"
under_lock git -c pack.threads=8 -c gc.auto=0 gc -q --aggressive --prune=now
under_lock git fsck --full --strict
under_lock git -c grep.threads=8 grep -c '^1'
under_lock git log -p
is_same "$scratch/before" "$scratch/out"
[ "$(git count-objects)" = '0 objects, 0 kilobytes' ] || wrong 'loose objects are left'
