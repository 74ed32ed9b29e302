# SPDX-License-Identifier: MIT
# What the scripts that make tables ask of a record of `flexguard bench`: jq -L scripts, include "ratios".

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;

# Of a record: what a lock did at this point, by round; of the first lock's second run in a round ("again") if wanted.
def rounds($point; $lock; $measure; $again):
	[.results[] | select(.point == $point and .subject == $lock and (.again // false) == $again)
		| .rounds[] | {key: (.round | tostring), value: .values[$measure]}] | from_entries;
def rounds($point; $lock; $measure): rounds($point; $lock; $measure; false);

# The ratios of these to what another lock did in the same rounds.
def ratios_to($base; $rounds):
	[$rounds | to_entries[] | select(($base[.key] // 0) > 0 and .value != null) | .value / $base[.key]];

# The ratios to glibc in the same rounds.
def ratios($point; $lock; $measure):
	ratios_to(rounds($point; "posix"; $measure); rounds($point; $lock; $measure));
