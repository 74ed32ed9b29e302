# SPDX-License-Identifier: MIT
# What the scripts that make tables ask of a record of `flexguard bench`: jq -L scripts, include "ratios".

def median: sort | if length % 2 == 1 then .[length / 2 | floor] else (.[length / 2 - 1] + .[length / 2]) / 2 end;

# Of a record: what a lock did at this point, by round.
def rounds($point; $lock; $measure):
	[.results[] | select(.point == $point and .subject == $lock and (.again | not))
		| .rounds[] | {key: (.round | tostring), value: .values[$measure]}] | from_entries;

# The ratios to glibc in the same rounds.
def ratios($point; $lock; $measure):
	rounds($point; "posix"; $measure) as $base
	| [rounds($point; $lock; $measure) | to_entries[] | select(($base[.key] // 0) > 0 and .value != null)
		| .value / $base[.key]];
