#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The monitor's judgement after every instruction of an arm64 program (steps.c), which an emulator runs step by step.

  steps.py [DEFECT] QEMU... PROGRAM

With a defect the verdict must be wrong somewhere. --blind: windows are not looked at; --unconditional: their conditions
are not.

An exclusive store fails where the thread was interrupted since the load, and each step is an interruption. So a loop is
stepped through once, its store failing, and the next time runs from its load to the instruction after its store."""
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

GRANTED = 2
OWNER_MASK = 0x1fffffff
REGISTERS = 7  # that a window may ask for: x9 to x15


class Debugger:
    """The side of the debugger in gdb's protocol."""

    def __init__(self, path, process):
        self.socket = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self.socket.connect(path)
                break
            except OSError:
                if process.poll() is not None:
                    sys.exit('steps.py: the emulator has ended')
                time.sleep(0.01)
        self.input = self.socket.makefile('rb')

    def ask(self, request):
        body = request.encode()
        self.socket.sendall(b'$%s#%02x' % (body, sum(body) % 256))
        while self.input.read(1) != b'$':
            pass
        answer = b''
        while (byte := self.input.read(1)) != b'#':
            if not byte:
                sys.exit('steps.py: the emulator has gone')
            answer += byte
        self.input.read(2)
        self.socket.sendall(b'+')
        return answer.decode()

    def read(self, address, size):
        answer = self.ask(f'm{address:x},{size:x}')
        if answer.startswith('E'):
            return None
        return bytes.fromhex(answer)

    def word(self, address, form='Q'):
        return struct.unpack('<' + form, self.read(address, struct.calcsize(form)))[0]

    def registers(self):
        return struct.unpack('<33Q', bytes.fromhex(self.ask('g')[:33 * 16]))

    def await_one_thread(self):
        """The emulator's threads stop independently, and write their answers into one buffer. So no thread may run
        beside the one that is stepped through. One that has been joined may still be about to go."""
        if not self.has_one_thread():
            print('steps.py waits until the program has one thread', flush=True)
            while not self.has_one_thread():
                time.sleep(0.01)

    def has_one_thread(self):
        self.ask('qfThreadInfo')  # each answer names one
        return self.ask('qsThreadInfo') == 'l'

    def run_to(self, places):
        """Returns whether the program has stopped at one of them, and not ended."""
        for place in places:
            self.ask(f'Z0,{place:x},4')
        stopped = self.ask('vCont;c').startswith('T')
        for place in places if stopped else ():
            self.ask(f'z0,{place:x},4')
        return stopped


def symbols(program):
    lines = subprocess.run(['aarch64-linux-gnu-nm', program], check=True, capture_output=True, text=True).stdout
    return {name: int(address, 16) for address, _, name in (line.split() for line in lines.splitlines()
                                                            if len(line.split()) == 3)}


class Judge:
    def __init__(self, debugger, address, defect):
        self.debugger = debugger
        self.at = address
        block, begin, end, _ = struct.unpack('<4Q', debugger.read(address, 32))
        self.block = block
        self.windows = []
        for entry in range(begin, end, 20) if defect != '--blind' else ():
            low, high, reg, mask, value = struct.unpack('<iiIII', debugger.read(entry, 20))
            reg = reg if defect != '--unconditional' else 0
            self.windows.append((entry + low, entry + 4 + high, reg, mask, value))

    def truth(self):
        count = self.debugger.word(self.at + 24)
        for i in range(count):
            word, mask, value, but, but_value = struct.unpack('<5Q', self.debugger.read(self.at + 32 + 40 * i, 40))
            if self.debugger.word(word) & mask == value and not (but and self.debugger.word(but) == but_value):
                return True
        return False

    def block_says(self):
        held, self_, node, pending = struct.unpack('<iIQQ', self.debugger.read(self.block, 24))
        if held > 0:
            return True
        if pending:
            word = self.debugger.read(pending, 4)
            if word and self_ and struct.unpack('<I', word)[0] & OWNER_MASK == self_:
                return True
        return bool(node) and self.debugger.word(node + 8, 'I') == GRANTED

    def window_says(self, registers):
        pc = registers[32]
        return any(begin < pc <= end and (registers[8 + reg] & mask == value if reg else True)
                   for begin, end, reg, mask, value in self.windows)


def is_exclusive(instruction, load):
    """ldxr and its like, or stxr and its like."""
    return instruction & 0x3fe00000 == (0x08400000 if load else 0x08000000)


def targets(instruction, pc):
    """Where a conditional branch goes."""
    if instruction & 0x7e000000 == 0x34000000 or instruction & 0xff000010 == 0x54000000:  # cbz, cbnz, b.cond
        offset = instruction >> 5 & 0x7ffff
        return [pc + 4 * (offset - (0x80000 if offset & 0x40000 else 0))]
    return []


def through_loop(debugger, pc):
    """Runs from an exclusive load until after the store, or until the loop is left by a branch."""
    leave = []
    for place in range(pc + 4, pc + 40, 4):
        instruction = debugger.word(place, 'I')
        leave += targets(instruction, place)
        if is_exclusive(instruction, load=False):
            leave.append(place + 4)
            for behind in leave[:-1]:  # the other store of a loop that has two
                other = debugger.word(behind, 'I')
                if is_exclusive(other, load=False):
                    leave.remove(behind)
                    leave.append(behind + 4)
            return debugger.run_to(leave)
    raise SystemExit(f'steps.py: no exclusive store behind {pc:#x}')


class Scene:
    def __init__(self, name):
        self.name = name
        self.steps = self.critical = self.hidden = self.overlooked = self.imagined = 0
        self.passed = set()  # loops whose store has failed once

    def judge(self, judge, registers):
        truth, block = judge.truth(), judge.block_says()
        told = block or judge.window_says(registers)
        self.steps += 1
        self.critical += truth
        self.hidden += truth and not block
        self.overlooked += truth and not told
        self.imagined += told and not truth
        if truth != told and os.environ.get('FG_STEPS'):
            print(f'{self.name}: {registers[32]:#x}: {"overlooked" if truth else "imagined"}')

    def step(self, debugger, pc):
        if is_exclusive(debugger.word(pc, 'I'), load=True):
            if pc in self.passed:
                through_loop(debugger, pc)
                return
            self.passed.add(pc)
        debugger.ask('vCont;s')


def run(debugger, program, defect):
    at = symbols(program)
    scenes = []
    judge = None
    while debugger.run_to([at['step_from_here']]):
        debugger.await_one_thread()
        registers = debugger.registers()
        judge = judge or Judge(debugger, at['judged'], defect)
        text = debugger.read(registers[0], 64)
        scene = Scene(text[:text.index(0)].decode())
        scenes.append(scene)
        while registers[32] != at['step_to_here']:
            scene.step(debugger, registers[32])
            registers = debugger.registers()
            scene.judge(judge, registers)
    return scenes


def main():
    arguments = sys.argv[1:]
    defect = arguments.pop(0) if arguments[0].startswith('--') else None
    command = arguments
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'debugger')
        process = subprocess.Popen([*command[:-1], '-g', path, command[-1]])
        scenes = run(Debugger(path, process), command[-1], defect)
        status = process.wait()
    wrong = [s for s in scenes if s.overlooked or s.imagined]
    for s in scenes if os.environ.get('FG_STEPS') else () if defect else wrong:
        print(f'{s.name}: {s.steps} steps, critical in {s.critical}, {s.hidden} of them by its block unseen; '
              f'{s.overlooked} overlooked, {s.imagined} imagined')
    print(f'{len(scenes)} scenes, {sum(s.steps for s in scenes)} instructions, {sum(s.critical for s in scenes)} '
          f'critical, {sum(s.hidden for s in scenes)} hidden, {len(wrong)} scenes wrong')
    if status or not scenes or bool(wrong) != bool(defect):
        sys.exit(1)


main()
