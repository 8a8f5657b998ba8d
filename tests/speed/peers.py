#!/usr/bin/env python3
"""How light oomdoctor is beside other GPU monitors: each in turn on the same fake driver and the same processes.

    cargo build --release && cargo build --release --example fake_nvml
    tests/speed/peers.py --binary target/release/oomdoctor [--seconds 60] [--runs 7] [--also NAME=COMMAND]...

Every program gets a terminal of 200x60, refreshes each second and sees two machines: 2 cards with 16 processes and
8 cards with 64. The processes are real sleepers; the driver is tests/fake_nvml. Peers that are not installed are left
out. Prints a table: time to the first process row (median), CPU seconds a minute, memory (PSS, all of its processes),
calls of the driver for each card a second. Nothing here fails on speed.
"""
import argparse
import collections
import contextlib
import fcntl
import os
import pathlib
import pty
import re
import select
import shlex
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time

SIZE = struct.pack("HHHH", 60, 200, 0, 0)
ESCAPES = re.compile(rb"\x1b(?:\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78])")


def children(pid):
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except OSError:
            pass
    return found


def family(pid):
    """This process and all below it."""
    found = [pid]
    for one in found:
        found += children(one)
    return found


def cpu_seconds(pids):
    total = 0
    for pid in pids:
        for schedstat in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total += int(schedstat.read_text().split()[0])
            except OSError:
                pass
    return total / 1e9


class Terminal:
    """A program in a pty. What it draws is read as it comes."""

    def __init__(self, command, environment, before_exec=lambda: None):
        self.began = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, SIZE)
            before_exec()
            os.execvpe(command[0], command, environment)
        self.text = b""

    def read_until(self, due, wanted=None):
        """Reads on; the moment at which `wanted` was on the screen, or None when the time was over."""
        while (left := due - time.monotonic()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                return None
            try:
                block = os.read(self.fd, 1 << 16)
            except OSError:
                return None
            if wanted:
                self.text += block
                if wanted in ESCAPES.sub(b"", self.text):
                    return time.monotonic()
        return None

    def family(self):
        return family(self.pid)

    def cpu_seconds(self):
        return cpu_seconds(self.family())

    def pss_kib(self):
        total = 0
        for pid in self.family():
            rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += int(re.search(r"^Pss:\s+(\d+)", rollup, re.M)[1])
        return total

    def end(self):
        family = self.family()
        os.kill(self.pid, signal.SIGTERM)
        self.read_until(time.monotonic() + 1)
        for pid in family:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def scenario(cards, pids):
    gpus = ", ".join(f'(name: "NVIDIA RTX FAKE {n}", reserved: 398458880, base: 209715200, sm: 97)' for n in range(cards))
    rows = ", ".join(
        f"(gpu: {at % cards}, pid: {pid}, bytes: Some({(500 + 300 * (at % 10)) << 20}), lists: [{'Graphics' if at % 8 == 7 else 'Compute'}], sm: {at % 40}, ghost: true)"
        for at, pid in enumerate(pids)
    )
    return f"(gpus: [{gpus}], processes: [{rows}])"


@contextlib.contextmanager
def machine(driver, cards, processes):
    """A fake machine with real sleepers as its processes: its folder, their PIDs, and the environment that shows it."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        sleepers = [subprocess.Popen(["sleep", "100000"]) for _ in range(processes)]
        try:
            shutil.copy(driver, folder / "libnvidia-ml.so.1")
            pids = [sleeper.pid for sleeper in sleepers]
            (folder / "scenario.ron").write_text(scenario(cards, pids))
            environment = dict(os.environ, TERM="xterm-256color", LANG="C.UTF-8", LC_ALL="C.UTF-8", LD_LIBRARY_PATH=str(folder))
            environment |= {"FAKE_NVML_SCENARIO": str(folder / "scenario.ron"), "XDG_STATE_HOME": str(folder / "state"), "XDG_CONFIG_HOME": str(folder / "config")}
            yield folder, pids, environment
        finally:
            for sleeper in sleepers:
                sleeper.kill()
                sleeper.wait()


def driver_of(args):
    """The fake driver that was given, else the one built beside the program."""
    return pathlib.Path(args.driver or pathlib.Path(args.binary).parent / "examples/libfake_nvml.so")


def measure(command, folder, pids, environment, cards, args):
    largest = str(pids[9]).encode()
    starts = []
    for _ in range(args.runs):
        terminal = Terminal(command, environment)
        seen = terminal.read_until(terminal.began + 20, largest)
        starts.append(seen and seen - terminal.began)
        terminal.end()
    if None in starts:
        return None
    calls = folder / "calls.txt"
    terminal = Terminal(command, environment | {"FAKE_NVML_CALLS": str(calls)})
    terminal.read_until(terminal.began + 5)
    before = len(calls.read_text().splitlines())
    terminal.read_until(time.monotonic() + 10)
    made = calls.read_text().splitlines()[before:]
    terminal.end()
    calls.unlink()
    if args.calls:
        print(collections.Counter(made).most_common(), file=sys.stderr)
    terminal = Terminal(command, environment)
    terminal.read_until(terminal.began + 3)
    cpu, began = terminal.cpu_seconds(), time.monotonic()
    terminal.read_until(began + args.seconds)
    cpu, took = terminal.cpu_seconds() - cpu, time.monotonic() - began
    pss = terminal.pss_kib()
    terminal.end()
    return statistics.median(starts) * 1e3, cpu * 60 / took, pss / 1024, len(made) / 10 / cards


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--driver", help="the fake driver [default: examples/libfake_nvml.so beside the program]")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--also", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--only", help="machines to play, as 2x16 [default: both]")
    parser.add_argument("--calls", action="store_true", help="list the driver's calls by name")
    args = parser.parse_args()
    programs = {"oomdoctor": f"{args.binary} --interval 1", "nvtop": "nvtop -d 10", "nvitop": "nvitop -m full --interval 1", "gpustat": "gpustat -i 1 -cp"}
    programs |= dict(also.split("=", 1) for also in args.also)
    print(f"{'':10} {'cards':>7}  {'first row':>10}  {'CPU a minute':>13}  {'memory':>9}  {'calls a card a s':>16}")
    for cards, count in ((2, 16), (8, 64)):
        if args.only and args.only != f"{cards}x{count}":
            continue
        with machine(driver_of(args), cards, count) as (folder, pids, environment):
            for name, command in programs.items():
                command = shlex.split(command)
                if not shutil.which(command[0]):
                    print(f"{name:10} {cards}x{count:<5}  not installed")
                    continue
                measured = measure(command, folder, pids, environment, cards, args)
                if measured is None:
                    print(f"{name:10} {cards}x{count:<5}  showed no process")
                    continue
                first, cpu, pss, calls = measured
                print(f"{name:10} {f'{cards}x{count}':>7}  {first:7.0f} ms  {cpu:11.2f} s  {pss:5.1f} MiB  {calls:16.1f}", flush=True)


if __name__ == "__main__":
    main()
