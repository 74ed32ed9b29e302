# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by a script at its begin: --help prints the comment at the script's head, and nothing else happens.
case ${1-} in
-h | --help)
	awk 'NR > 2 && !/^#/ { exit } NR > 2 && !/^# shellcheck/ { sub(/^# ?/, ""); print }' "$0"
	exit 0
	;;
esac
