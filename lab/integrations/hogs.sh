# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by the scripts beside it: processes that do nothing but use CPU time. They end with the script that began them.
hogs=()

begin_hogs() # how many
{
	local i
	for ((i = 0; i < $1; i++)); do
		setpriv --pdeathsig KILL sh -c 'while :; do :; done' &
		hogs+=($!)
	done
}

end_hogs()
{
	[ ${#hogs[@]} = 0 ] || kill "${hogs[@]}" || true
	hogs=()
}
