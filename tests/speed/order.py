#!/usr/bin/env python3
"""Writes src/build/often.ld: the functions that run at the start and each second, which the linker places side by side.

    cargo rustc --release --bin oomdoctor --target-dir target/symbols -- -C strip=none
    cargo build --release --example fake_nvml
    tests/speed/order.py --binary target/symbols/release/oomdoctor --driver target/release/examples/libfake_nvml.so

The kernel maps 64 KiB of a program around each place that is touched, so functions that are strewn over a large file cost
memory and page faults. The program is run as by a debugger, with a breakpoint at each function, which is removed once it is
hit: so hardly any function is missed, however seldom it runs. They are set at the start, and once more after the readings in which
what the start took is returned. Two machines are read, each so for a minute. Linux on x86-64 only. Run it when peers.py shows
more memory than before: a function that the list names wrongly is placed like any other, so an old list only helps less.
The names are those of the mangling that .cargo/config.toml asks for, without the crates' hashes, which differ from build
to build. Where RUSTFLAGS or an installation from elsewhere leaves that file out, no name is found and nothing is ordered.
"""
import argparse
import bisect
import collections
import ctypes
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import threading
import time

import peers

SCRIPT = pathlib.Path(__file__).parents[2] / "src/build/often.ld"
# A name without hashes may stand for more functions than those that ran. Where these take more bytes than the first figure,
# they are placed behind all others; beyond the second one, like any code.
FEW_BYTES_BESIDE, MOST_BYTES_BESIDE = 2 << 10, 24 << 10
# After so many seconds, of a reading each, the program has returned what the start took.
START = 16

BREAKPOINT = b"\xcc"
# ptrace(2): requests, options, and where the instruction pointer is in what PTRACE_PEEKUSER reads (sys/reg.h: RIP is 16).
TRACE_ME, PEEK_USER, POKE_USER, CONTINUE, SET_OPTIONS = 0, 3, 6, 7, 0x4200
FOLLOW_ALL = 1 << 1 | 1 << 2 | 1 << 3 | 1 << 20
INSTRUCTION_POINTER = 16 * 8
# So much of each thread's stack is looked at.
STACK = 32 << 10
# waitpid's __WALL.
WAIT_FOR_THREADS = 0x40000000
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def symbols(binary):
    """Of each function its address in the file, its size and its name, by address."""
    listed = subprocess.run(["nm", "-S", "--defined-only", binary], capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in listed.splitlines()]
    return sorted((int(line[0], 16), int(line[1], 16), line[3]) for line in lines if len(line) == 4 and line[2] in "tTwW")


class Traced(peers.Terminal):
    """The program in a pty, with a breakpoint at each function. What it draws is read by a thread, while this one waits for
    breakpoints: only the thread that started it may."""

    def __init__(self, binary, environment, known):
        self.binary = os.path.abspath(binary)
        self.known = known
        super().__init__([self.binary, "--interval", "1"], environment, lambda: libc.ptrace(TRACE_ME, 0, None, None))
        threading.Thread(target=self.read_until, args=(time.monotonic() + 3600,), daemon=True).start()
        os.waitpid(self.pid, 0)
        libc.ptrace(SET_OPTIONS, self.pid, None, FOLLOW_ALL)
        first = next(line for line in pathlib.Path(f"/proc/{self.pid}/maps").read_text().splitlines() if line.endswith(self.binary))
        self.base = int(first.split("-")[0], 16)
        # The functions that ran of each process, in the order in which they ran first.
        self.ran = {self.pid: []}
        self.process_of = {self.pid: self.pid}
        self.set_breakpoints(self.pid)
        libc.ptrace(CONTINUE, self.pid, None, None)

    def set_breakpoints(self, pid):
        """At each function of this process."""
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            start, end = self.known[0][0], self.known[-1][0] + 1
            memory.seek(self.base + start)
            code = bytearray(memory.read(end - start))
            if not hasattr(self, "code"):
                self.code = bytes(code)
            for address, _, _ in self.known:
                code[address - start] = BREAKPOINT[0]
            memory.seek(self.base + start)
            memory.write(code)

    def run_for(self, seconds):
        """Lets it run. Returns the functions that ran of each process since they were asked for last."""
        names = {address: name for address, _, name in self.known}
        start = self.known[0][0]
        due = time.monotonic() + seconds
        while time.monotonic() < due:
            thread, status = os.waitpid(-1, os.WNOHANG | WAIT_FOR_THREADS)
            if thread == 0:
                time.sleep(0.0005)
                continue
            if not os.WIFSTOPPED(status):
                continue
            sent = os.WSTOPSIG(status)
            if thread not in self.process_of:
                text = pathlib.Path(f"/proc/{thread}/status").read_text()
                self.process_of[thread] = int(re.search(r"^Tgid:\s*(\d+)", text, re.M)[1])
                self.ran.setdefault(self.process_of[thread], [])
            if sent == signal.SIGTRAP and status >> 16 == 0:
                process = self.process_of[thread]
                at = libc.ptrace(PEEK_USER, thread, INSTRUCTION_POINTER, None) - 1
                name = names.get(at - self.base)
                if name is not None:
                    self.ran[process].append(name)
                    with open(f"/proc/{thread}/mem", "r+b", buffering=0) as memory:
                        memory.seek(at)
                        memory.write(self.code[at - self.base - start :][:1])
                    libc.ptrace(POKE_USER, thread, INSTRUCTION_POINTER, at)
            # Traps are breakpoints or new threads, and a new thread stops once.
            passed = 0 if sent in (signal.SIGTRAP, signal.SIGSTOP) else sent
            libc.ptrace(CONTINUE, thread, None, passed)
        ran, self.ran = self.ran, {pid: [] for pid in self.ran}
        return {pid: list(dict.fromkeys(found)) for pid, found in ran.items()}

    def running(self, pid):
        """The functions that each thread of a process is in now, by the words on its stack that point into one: what never
        returns runs on without being entered again."""
        addresses = [address for address, _, _ in self.known]
        found = []
        for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
            asked = (task / "syscall").read_text().split()
            if len(asked) < 3:
                continue
            with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
                memory.seek(int(asked[-2], 16))
                stack = memory.read(STACK)
            for word in struct.unpack(f"{len(stack) // 8}Q", stack[: len(stack) // 8 * 8]):
                at = bisect.bisect_right(addresses, word - self.base) - 1
                if at >= 0 and word - self.base < addresses[at] + self.known[at][1]:
                    found.append(self.known[at][2])
        return dict.fromkeys(found)

    def kill(self):
        """Ends all of its processes."""
        for pid in self.family():
            os.kill(pid, signal.SIGKILL)
        while os.path.exists(f"/proc/{self.pid}"):
            os.waitpid(-1, os.WNOHANG | WAIT_FOR_THREADS)


def without_hash(name):
    return re.sub(r"\.llvm\.\d+$", ".llvm.*", re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", name))


def beside(known, ran):
    """Of each name without its hash, how many bytes of functions it stands for that did not run."""
    bytes_beside = collections.Counter()
    for _, size, name in known:
        bytes_beside[without_hash(name)] += 0 if name in ran else size
    return bytes_beside


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, help="a release build with its symbols")
    parser.add_argument("--driver", required=True, help="the fake driver")
    parser.add_argument("--seconds", type=int, default=60)
    args = parser.parse_args()
    known = symbols(args.binary)
    # In the order in which they ran first: at the start, and after it in the process with the screen and in the other one.
    start, screen, sampler = {}, {}, {}
    for cards, count in ((2, 16), (8, 64)):
        with peers.machine(args.driver, cards, count) as (_, _, environment):
            traced = Traced(args.binary, environment, known)
            for ran in traced.run_for(START).values():
                start.update(dict.fromkeys(ran))
            processes = [pid for pid in traced.family() if os.readlink(f"/proc/{pid}/exe") == traced.binary]
            for pid in processes:
                traced.set_breakpoints(pid)
            for pid, ran in traced.run_for(args.seconds).items():
                if pid in processes:
                    (screen if pid == traced.pid else sampler).update(traced.running(pid) | dict.fromkeys(ran))
            traced.kill()
            print(f"{cards}x{count}: {len(start)} at the start, {len(screen)} and {len(sampler)} later", file=sys.stderr)
    # What one process alone runs is no neighbor of what the other one alone runs.
    alone = [name for name in sampler if name not in screen]
    both = [name for name in sampler if name in screen]
    rest = [name for name in screen if name not in sampler]
    once = [name for name in start if name not in screen and name not in sampler]
    sizes = {name: size for _, size, name in known}
    for said, names in (("sampler", alone), ("both", both), ("screen", rest), ("start", once)):
        print(f"{said}: {len(names)} functions, {sum(sizes[name] for name in names) >> 10} KiB", file=sys.stderr)
    bytes_beside = beside(known, {*alone, *both, *rest, *once})
    clear, mixed = [], []
    for each in (alone + both + rest, once):
        named = [without_hash(name) for name in each]
        clear.append([name for name in named if bytes_beside[name] <= FEW_BYTES_BESIDE])
        mixed.append([name for name in named if FEW_BYTES_BESIDE < bytes_beside[name] <= MOST_BYTES_BESIDE])
    listed = list(dict.fromkeys(clear[0] + mixed[0] + clear[1] + mixed[1]))
    lines = "".join(f"    *(.text*.{pattern})\n" for pattern in listed)
    comment = "/* What runs each second in either process, then what runs at the start. Made by tests/speed/order.py. */\n"
    SCRIPT.write_text(f"{comment}SECTIONS\n{{\n  .text.often :\n  {{\n{lines}  }}\n}}\nINSERT BEFORE .text;\n")
    print(f"{len(listed)} functions", file=sys.stderr)


if __name__ == "__main__":
    main()
