# SPDX-License-Identifier: MIT
"""The command `flexguard-mutex` of gdb: which thread holds a pthread mutex of a program under FlexGuard, and which wait.

    (gdb) source PREFIX/share/flexguard/flexguard-gdb.py
    (gdb) flexguard-mutex &m

Normal mutexes name no owner where glibc's do, since that would cost a tenth of the uncontended path. The lock knows it:
most name the owner in their word, those with a queue in the holder's node. The debug information of the interposer says
where; without it the word of the default lock is read. Threads that wait are found by their stacks.
"""

import gdb

KINDS = {0: "normal", 1: "recursive", 2: "errorcheck", 3: "adaptive"}
OWNER_MASK = 0x1FFFFFFF
KIND_AT, LOCK_AT = 16, 24
# A call that waits, and the parameter that is the mutex, or the lock inside it.
WAITS = {
    "pthread_mutex_lock": "mutex",
    "pthread_mutex_timedlock": "mutex",
    "pthread_mutex_clocklock": "mutex",
    "lock_slow": "mutex",
    "fgi_lock": "l",
    "fgi_timedlock": "l",
}


def u32(address):
    memory = gdb.selected_inferior().read_memory(address, 4)
    return int.from_bytes(memory.tobytes(), "little")


def lock_of(address):
    """The interposer's struct fg_lock, or None without debug information."""
    try:
        kind = gdb.lookup_type("struct fgi_mutex").pointer()
        return gdb.Value(address).cast(kind).dereference()["lock"]
    except gdb.error:
        return None


def field(value, name):
    return value[name] if value is not None and any(f.name == name for f in value.type.fields()) else None


def holder_by_node(lock):
    """The thread block of the thread whose node holds a queue lock."""
    holder = field(lock, "holder")
    if holder is None or not int(holder) or not int(field(lock, "tail") or 0):
        return None
    node = gdb.lookup_type("struct fg_queue_node").pointer()
    node = gdb.Value(int(holder) & (1 << 48) - 1).cast(node)
    return int(node["owner"])


def block_of(thread):
    thread.switch()
    try:
        return int(gdb.parse_and_eval("(long)&fg_thread"))
    except gdb.error:
        return None


def waits_for(thread, address):
    """Returns how the thread waits for the mutex, or None."""
    thread.switch()
    frame = gdb.newest_frame()
    asleep = False
    for _ in range(32):
        if frame is None or not frame.is_valid():
            return None
        name = frame.name() or ""
        asleep |= "futex" in name or name == "syscall"
        parameter = WAITS.get(name)
        if parameter:
            try:
                found = int(frame.read_var(parameter))
            except (ValueError, gdb.error):
                found = None
            if found in (address, address + LOCK_AT):
                return "asleep" if asleep else "awake"
        frame = frame.older()
    return None


class Mutex(gdb.Command):
    """flexguard-mutex ADDRESS: which thread holds a mutex under FlexGuard, and which wait for it."""

    def __init__(self):
        super().__init__("flexguard-mutex", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        address = int(gdb.parse_and_eval("(long)(%s)" % argument))
        kind = u32(address + KIND_AT) & 3
        lock = lock_of(address)
        word = field(lock, "word") if lock is not None else None
        if word is None:
            word = field(lock, "val")
        word = int(word) if word is not None else u32(address + LOCK_AT)
        queue = field(lock, "tail")
        held = int(queue) != 0 if queue is not None else word & OWNER_MASK != 0
        before, frame = gdb.selected_thread(), gdb.selected_frame()
        node = holder_by_node(lock) if lock is not None else None
        owner, waiting = None, []
        for thread in sorted(gdb.selected_inferior().threads(), key=lambda t: t.num):
            tid = thread.ptid[1]
            if held and (tid == word & OWNER_MASK or (node and block_of(thread) == node)):
                owner = thread
            how = waits_for(thread, address)
            if how:
                waiting.append((thread, how))
        before.switch()
        frame.select()
        print("mutex %#x (%s): %s" % (address, KINDS[kind], self.state(held, owner)))
        for thread, how in waiting:
            print("  thread %d (LWP %d) waits, %s" % (thread.num, thread.ptid[1], how))

    @staticmethod
    def state(held, owner):
        if not held:
            return "free"
        if owner is None:
            return "held; the lock does not say by which of these threads"
        return "held by thread %d (LWP %d)" % (owner.num, owner.ptid[1])


Mutex()
