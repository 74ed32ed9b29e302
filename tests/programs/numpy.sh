# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Debian's Python with numpy, whose OpenBLAS has eight threads, for four threads that multiply matrices at a time.
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs /usr/bin/python3
/usr/bin/python3 -c 'import numpy' 2>"$scratch/err" ||
	{ echo 'numpy is not installed: scripts/bootstrap check-programs installs it' >&2; exit 77; }
/usr/bin/python3 -c 'import numpy; assert "openblas" in open("/proc/self/maps").read()' 2>"$scratch/err" ||
	{ echo 'numpy does not compute with OpenBLAS: scripts/bootstrap check-programs installs it' >&2; exit 77; }
OPENBLAS_NUM_THREADS=8 under_lock /usr/bin/python3 - <<'END'
import threading

import numpy

SIZE = 384
one = numpy.arange(SIZE * SIZE, dtype=float).reshape(SIZE, SIZE) % 17
other = one.T.copy()
right = one.astype(int) @ other.astype(int)
wrong = []


def multiply():
    for _ in range(20):
        if not (one @ other == right).all():
            wrong.append(threading.current_thread().name)


threads = [threading.Thread(target=multiply) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("right" if not wrong else f"wrong: {wrong}", int(right.sum()))
END
says '^right [0-9]+$'
