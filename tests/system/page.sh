# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# To be sourced by a script that takes code from a page of the documentation.

# The page's first block of code of that language behind the line that begins so.
block() { # page, begin, language
	sed -n "/^$2/,/^\`\`\`\$/p" "$1" | sed "1,/^\`\`\`$3\$/d; /^\`\`\`\$/d"
}
