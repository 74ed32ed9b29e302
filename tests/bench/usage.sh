#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What fg-bench refuses: exit status 2, nothing on standard output, and a message that names the culprit.
set -u
bench=$1
failed=0

refuses() # expected in the message, arguments...
{
	local expected=$1 message status
	shift
	message=$(timeout 20 "$bench" "$@" 2>&1 >/dev/null)
	status=$?
	if [ $status != 2 ] || [[ $message != *"$expected"* ]] || [ -n "$(timeout 20 "$bench" "$@" 2>/dev/null)" ]; then
		echo "fg-bench $*: status $status, message: $message"
		failed=1
	fi
}

shm=(shm --lock posix --threads 2 --seconds 0.1)
refuses 'which benchmark'
refuses "'dance'" dance
refuses "unknown lock 'nosuch'" shm --lock nosuch --threads 2 --seconds 0.1
refuses 'needs --lock' shm --threads 2 --seconds 0.1
refuses 'needs --lock' shm --lock posix --seconds 0.1
refuses 'needs --lock' shm --lock posix --threads 2
refuses '--threads' "${shm[@]}" --threads 0
refuses '--threads' "${shm[@]}" --threads -1
refuses '--threads' "${shm[@]}" --threads 99999999999999999999
refuses '--threads' "${shm[@]}" --threads 2x
refuses '--threads needs a value' "${shm[@]}" --threads
refuses '--seconds' "${shm[@]}" --seconds 0
refuses '--seconds' "${shm[@]}" --seconds nan
refuses '--seconds' "${shm[@]}" --seconds 1e9
refuses '--warmup' "${shm[@]}" --warmup -1
refuses '--lines' "${shm[@]}" --lines=0
refuses '--sample' "${shm[@]}" --sample ''
refuses '--nice' "${shm[@]}" --nice 1,
refuses '--nice' "${shm[@]}" --nice 20
refuses '--nice' "${shm[@]}" --nice 0,x
refuses '--nice' "${shm[@]}" --nice "$(seq -s, 1 200)"
refuses '--hogs' "${shm[@]}" --hogs 99999
refuses '--lock-count' "${shm[@]}" --lock-count 0
refuses '--hold-sleep-us' "${shm[@]}" --hold-sleep-us 2000000
refuses '--hold-sleep-every' "${shm[@]}" --hold-sleep-every 0
refuses '--slice-us' "${shm[@]}" --slice-us 200000
refuses '--trace-us' "${shm[@]}" --trace-us 1
refuses "'--buckets'" "${shm[@]}" --buckets 7
table=(hashtable --lock posix --threads 2 --seconds 0.1)
refuses 'needs --lock' hashtable --threads 2 --seconds 0.1
refuses '--buckets' "${table[@]}" --buckets 0
refuses '--keys' "${table[@]}" --keys 0
refuses '--theta' "${table[@]}" --theta -1
refuses '--theta' "${table[@]}" --theta nan
refuses '--update-ratio' "${table[@]}" --update-ratio 1.1
refuses "'--lines'" "${table[@]}" --lines 3
refuses "'--nonsense'" "${shm[@]}" --nonsense
refuses '--single-threaded takes no value' uncontended --lock posix --single-threaded=yes
refuses 'needs --lock' uncontended
refuses '--batches' uncontended --lock posix --batches 0
refuses '--section-us' server --lock posix --threads 2 --seconds 0.1 --section-us -1
refuses '--cycles-between' phases --lock posix --threads 2 --seconds 0.1 --cycles-between 100
refuses '--hold-sleep-us' turns --lock posix --threads 2 --seconds 0.1 --hold-sleep-us 100
refuses 'LD_PRELOAD' turns --lock flexguard --threads 2 --seconds 0.1
refuses '--ring' turns --lock posix --threads 3 --seconds 0.1
refuses '--places' tokens --lock posix --threads 3 --seconds 0.1
refuses '--stages' pipeline --lock posix --threads 3 --seconds 0.1 --stages 4
refuses '--producers' pool --lock posix --threads 3 --seconds 0.1 --producers 3
refuses 'at least 2' broadcast --lock posix --threads 1 --seconds 0.1

# Output that nobody can take is an error of its own, not a success.
timeout 20 "$bench" "${shm[@]}" >/dev/full 2>/dev/null
[ $? = 1 ] || { echo 'a full disk went unnoticed'; failed=1; }
# More memory than there is: refused before it is touched.
message=$(timeout 20 "$bench" "${shm[@]}" --lock-count 10000000 --lines 65536 2>&1 >/dev/null)
[ $? = 1 ] && [[ $message == *'not enough memory'* ]] || { echo "too much memory: $message"; failed=1; }
[ "$("$bench" --list | head -n 1)" = $'posix\tlibc' ] || { echo '--list does not begin with posix'; failed=1; }
"$bench" --list | grep -vqE $'^[a-z0-9_-]+\t(libc|own|peer|variant|constant)$' && { echo '--list: a line of another form'; failed=1; }
"$bench" --help | grep -q 'hashtable.*yielding' || { echo '--help'; failed=1; }
"$bench" shm --help | grep -q -- '--cycles-between' || { echo 'shm --help'; failed=1; }
exit $failed
