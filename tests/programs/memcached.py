# SPDX-License-Identifier: MIT
"""Clients of memcached at a Unix socket: each counts up ten shared numbers, and stores and reads values of its own."""
import socket
import sys
import threading

CLIENTS, NUMBERS, TIMES = 8, 10, 200
failures = []


class Client:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.answers = self.socket.makefile("rb")

    def ask(self, command):
        self.socket.sendall(command + b"\r\n")
        return self.answers.readline().rstrip()

    def get(self, key):
        first = self.ask(b"get " + key)
        if first == b"END":
            return None
        value = self.answers.read(int(first.split()[3]) + 2)[:-2]
        self.answers.readline()
        return value


def expect(what, got, wanted):
    if got != wanted:
        failures.append(f"{what}: {got!r}, not {wanted!r}")


def work(path, me):
    try:
        client = Client(path)
        for i in range(TIMES):
            for number in range(NUMBERS):
                client.ask(b"incr number%d 1" % number)
            key, value = b"own%d-%d" % (me, i), b"%d" % (me * i) * 50
            expect("set", client.ask(b"set %s 0 0 %d\r\n%s" % (key, len(value), value)), b"STORED")
            expect("get", client.get(key), value)
    except (OSError, ValueError, IndexError) as error:
        failures.append(f"client {me}: {error!r}")


first = Client(sys.argv[1])
for number in range(NUMBERS):
    expect("set", first.ask(b"set number%d 0 0 1\r\n0" % number), b"STORED")
threads = [threading.Thread(target=work, args=(sys.argv[1], me)) for me in range(CLIENTS)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for number in range(NUMBERS):
    expect("number", first.get(b"number%d" % number), b"%d" % (CLIENTS * TIMES))
print("\n".join(failures[:10]) or "right")
