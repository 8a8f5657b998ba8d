#!/usr/bin/env python3
"""Runs the terminal program for a while beside a busy machine and measures what it takes.

8 GPUs and 400 processes that come and go in the fake driver, a log pasted every minute. Prints a table of memory, open
descriptors, threads and children, a row every half minute. Not part of the suite.

    nice -n 19 tests/stress/soak.py [MINUTES]          (PROGRAM=target/release/oomdoctor for another build, PASTE_EVERY=10 seconds for more logs)
"""
import fcntl
import os
import pty
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MINUTES = float(sys.argv[1]) if len(sys.argv) > 1 else 5
GPUS, PROCESSES, CHANGES = 8, 400, 12
PASTE_EVERY = int(os.environ.get("PASTE_EVERY", "60"))
MIB = 1 << 20


def start_sleeper():
    return subprocess.Popen(["sleep", "100000"], stdin=subprocess.DEVNULL)


class Machine:
    def __init__(self, folder):
        self.folder = folder
        self.chance = random.Random(1)
        self.living = [(start_sleeper(), self.chance.randrange(GPUS)) for _ in range(PROCESSES)]
        self.changes = 0

    def write(self):
        cards = ",".join(f'(name: "GPU {n}", total: {81920 * MIB}, base: {200 * MIB}, sm: 50)' for n in range(GPUS))
        rows = ",".join(f"(gpu: {gpu}, pid: {child.pid}, bytes: Some({(child.pid % 900 + 1) * MIB}), sm: {child.pid % 90})"
                        for child, gpu in self.living)
        new = self.folder / "scenario.new"
        new.write_text(f"(gpus: [{cards}], processes: [{rows}])")
        new.rename(self.folder / "scenario.ron")

    def change(self):
        for _ in range(CHANGES):
            child, _gpu = self.living.pop(self.chance.randrange(len(self.living)))
            child.kill()
            child.wait()
            self.living.append((start_sleeper(), self.chance.randrange(GPUS)))
        self.changes += CHANGES
        self.write()

    def end(self):
        for child, _ in self.living:
            child.kill()
            child.wait()


def figures(pid):
    proc = Path(f"/proc/{pid}")
    rollup = (proc / "smaps_rollup").read_text()
    of = lambda name: int(re.search(rf"^{name}:\s+(\d+)", rollup, re.M)[1])
    threads = len(list((proc / "task").iterdir()))
    return of("Rss"), of("Pss"), len(list((proc / "fd").iterdir())), threads


def children(pid):
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            continue
        if int(fields[1]) == pid:
            found.append((int(stat.parent.name), fields[0]))
    return found


def paste(pid):
    return ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 80.00 GiB "
            f"of which 6.10 GiB is free. Process {pid} has 11.23 GiB memory in use. Of the allocated memory 200.00 MiB is "
            "allocated by PyTorch, and 20.00 MiB is reserved by PyTorch but unallocated.\n")


def main():
    subprocess.run(["cargo", "build", "--quiet", "--bin", "oomdoctor", "--example", "fake_nvml"], cwd=ROOT, check=True)
    program = ROOT / os.environ.get("PROGRAM", "target/debug/oomdoctor")
    folder = Path(tempfile.mkdtemp())
    library = folder / "libnvidia-ml.so.1"
    library.write_bytes((ROOT / "target/debug/examples/libfake_nvml.so").read_bytes())
    machine = Machine(folder)
    machine.write()
    environment = dict(os.environ, TERM="xterm-256color", LANG="C.UTF-8", XDG_STATE_HOME=str(folder / "state"),
                       XDG_CONFIG_HOME=str(folder / "config"))
    pid, terminal = pty.fork()
    if pid == 0:
        # Before the program looks: on a terminal without a size nothing is shown and no question answered.
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        os.execve(program, ["oomdoctor", "--interval", "1", "--nvml-library", str(library)], environment)
    drawn = [0]

    def drain():
        try:
            while block := os.read(terminal, 65536):
                drawn[0] += len(block)
                # Where is the cursor? Every terminal answers that.
                if b"\x1b[6n" in block:
                    os.write(terminal, b"\x1b[1;1R")
        except OSError:
            pass

    threading.Thread(target=drain, daemon=True).start()
    print("| minute | RSS MiB | PSS MiB | fds | threads | children | zombies | sampler RSS MiB | its fds | changes | pastes |")
    print("|---|---|---|---|---|---|---|---|---|---|---|", flush=True)
    began, row, pastes, seconds = time.monotonic(), [], 0, 0
    try:
        while (passed := time.monotonic() - began) < MINUTES * 60 + 1:
            machine.change()
            if seconds % PASTE_EVERY == 5:
                # A log of its own each time, replacing the one before.
                text = paste(machine.living[0][0].pid).replace("\n", "\r") * (1 + 2000 * (pastes % 2))
                os.write(terminal, b"\x1b[200~")
                for at in range(0, len(text), 4096):
                    os.write(terminal, text[at:at + 4096].encode())
                os.write(terminal, b"\x1b[201~")
                time.sleep(1)
                # The first replaces nothing: there the key would ask what was run, and take the next paste for that.
                if pastes:
                    os.write(terminal, b"r")
                pastes += 1
            if seconds % 30 == 20:
                kin = children(pid)
                rss, pss, fds, threads = figures(pid)
                living = [child for child, state in kin if state != "Z"]
                sampler = figures(living[0]) if living else (0, 0, 0, 0)
                row.append((rss, fds, len(living), sampler[0], sampler[2]))
                print(f"| {passed / 60:.1f} | {rss / 1024:.1f} | {pss / 1024:.1f} | {fds} | {threads} | {len(living)} | "
                      f"{len(kin) - len(living)} | {sampler[0] / 1024:.1f} | {sampler[2]} | {machine.changes} | {pastes} |",
                      flush=True)
            seconds += 1
            time.sleep(max(0, began + seconds - time.monotonic()))
        assert drawn[0] > 0, "nothing was drawn"
        print(f"drawn: {drawn[0] / 1024:.0f} KiB; fds {sorted({figure[1] for figure in row})}, "
              f"children {sorted({figure[2] for figure in row})}")
    finally:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        machine.end()


if __name__ == "__main__":
    main()
