# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# shellcheck source=tests/programs/common.sh
. ./common.sh
needs python3
under_lock python3 - <<'END'
import queue
import threading

THREADS, ITEMS = 16, 2000
lock, done, items = threading.Lock(), threading.Barrier(THREADS + 1), queue.Queue(32)
total = 0


def take():
    global total
    while (item := items.get()) is not None:
        with lock:
            total += item
    done.wait()


threads = [threading.Thread(target=take) for _ in range(THREADS)]
for thread in threads:
    thread.start()
for item in range(ITEMS):
    items.put(item)
for _ in threads:
    items.put(None)
done.wait()
for thread in threads:
    thread.join()
print("total", total)
END
says '^total 1999000$'
