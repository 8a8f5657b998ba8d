#!/usr/bin/env python3
"""What `oomdoctor run` costs beside the command alone, on the fake driver of the tests.

    cargo build --release && cargo build --release --example fake_nvml
    tests/speed/run.py --binary target/release/oomdoctor [--driver LIBRARY] [--seconds 20] [--gigabytes 1] [--only NAME]

Prints three tables:
  cost      a command that prints 50 lines a second, on 1 and on 8 GPUs with 16 processes: CPU time of the relay, the recorder
            and the sampler in percent of one core, their memory (PSS), and the command's own CPU time beside alone
  relaying  the time in which a large file goes into a pipe and into a terminal: alone, through `cat`, and recorded, in turn
  slow      the same command while each call of the driver takes 20 ms: calls a second
Aims: 1 % of a core, 20 MiB, 1.2 times of `cat`. Nothing here fails on speed.
"""
import argparse
import os
import pathlib
import pty
import re
import select
import signal
import statistics
import subprocess
import sys
import time
import tty

from peers import children, cpu_seconds, driver_of, family, machine

TALKATIVE = "import sys, time\nfor step in range({}):\n    print(f'step {{step}} loss {{1 / (step + 1):.4f}}', flush=True)\n    time.sleep(0.02)\n"


def pss_kib(pid):
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+)", rollup, re.M)[1])


def name_of(pid):
    arguments = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    return next((name for name in ("record", "sample", "run") if name in arguments), arguments[0])


def split(relay):
    """The processes of the program, and those of the command."""
    command = [pid for pid in children(relay) if os.readlink(f"/proc/{pid}/exe") != os.readlink(f"/proc/{relay}/exe")]
    commands = [one for pid in command for one in family(pid)]
    return [pid for pid in family(relay) if pid not in commands], commands


def end(relay):
    """Ends the command, and waits until nobody writes its record any more."""
    ours, theirs = split(relay.pid)
    for pid in theirs:
        os.kill(pid, signal.SIGKILL)
    relay.wait()
    due = time.monotonic() + 10
    while time.monotonic() < due and any(os.path.exists(f"/proc/{pid}") for pid in ours):
        time.sleep(0.05)


def recorded(args):
    return [args.binary, "run", "--"]


def cost(args):
    print(f"{'':8} {'CPU %':>6} {'MiB':>6}   of which{'':30} the command: alone, recorded")
    steps = int((args.seconds + 5) * 50)
    command = [sys.executable, "-c", TALKATIVE.format(steps)]
    for gpus in (1, 8):
        with machine(driver_of(args), gpus, 16) as (folder, _, environment):
            own = {}
            for how in ("alone", "recorded"):
                child = subprocess.Popen((recorded(args) if how == "recorded" else []) + command, env=environment, stdout=subprocess.DEVNULL)
                time.sleep(2)
                ours, theirs = split(child.pid) if how == "recorded" else ([], [child.pid])
                before, theirs_before, began = {pid: cpu_seconds([pid]) for pid in ours}, cpu_seconds(theirs), time.monotonic()
                time.sleep(args.seconds)
                took = time.monotonic() - began
                own[how] = 100 * (cpu_seconds(theirs) - theirs_before) / took
                shares = {pid: (100 * (cpu_seconds([pid]) - before[pid]) / took, pss_kib(pid) / 1024) for pid in ours}
                names = {pid: name_of(pid) for pid in ours}
                if how == "recorded":
                    end(child)
                else:
                    child.kill()
                    child.wait()
            parts = ", ".join(f"{names[pid]} {cpu:.2f} % {pss:.1f}" for pid, (cpu, pss) in shares.items())
            cpu, pss = (sum(figures) for figures in zip(*shares.values()))
            print(f"{gpus} GPUs   {cpu:6.2f} {pss:6.1f}   {parts:38} {own['alone']:.2f} %, {own['recorded']:.2f} %", flush=True)


def into_a_pipe(command, environment):
    began = time.monotonic()
    child = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    size = 0
    while block := os.read(child.stdout.fileno(), 1 << 20):
        size += len(block)
    child.wait()
    return time.monotonic() - began, size


def into_a_terminal(command, environment):
    began = time.monotonic()
    pid, fd = pty.fork()
    if pid == 0:
        tty.setraw(1)
        os.execvpe(command[0], command, environment)
    size = 0
    while True:
        select.select([fd], [], [])
        try:
            block = os.read(fd, 1 << 20)
        except OSError:
            break
        size += len(block)
    os.waitpid(pid, 0)
    os.close(fd)
    return time.monotonic() - began, size


def relaying(args):
    with machine(driver_of(args), 1, 1) as (folder, _, environment):
        text = folder / "text"
        line = "step 412 loss 0.1234 lr 3e-4 a line as a training prints them\n"
        with open(text, "w") as file:
            for _ in range(int(args.gigabytes * 1024)):
                file.write(line * ((1 << 20) // len(line)))
        for name, way in (("pipe", into_a_pipe), ("terminal", into_a_terminal)):
            command = ["cat", str(text)]
            ways = {"alone": command, "through cat": ["sh", "-c", f"cat {text} | cat"], "recorded": recorded(args) + command}
            times = {how: [] for how in ways}
            for _ in range(args.runs):
                for how, command in ways.items():
                    took, size = way(command, environment)
                    assert size == text.stat().st_size, f"{size} bytes of {text.stat().st_size}"
                    times[how].append(took)
            medians = {how: statistics.median(took) for how, took in times.items()}
            said = ", ".join(f"{how} {took:.2f} s" for how, took in medians.items())
            ratio = medians["recorded"] / medians["through cat"]
            print(f"{name:9} {said}: {ratio:.2f} times of cat", flush=True)


def slow(args):
    with machine(driver_of(args), 8, 16) as (folder, _, environment):
        calls = folder / "calls.txt"
        for hang in (0, 20):
            scenario = (folder / "scenario.ron").read_text().rstrip(")")
            faults = f', faults: [(call: "*", hang_ms: {hang})])' if hang else ")"
            (folder / "scenario.new").write_text(scenario + faults)
            (folder / "scenario.new").rename(folder / "scenario.ron")
            child = subprocess.Popen(recorded(args) + ["sleep", "1000"], env=environment | {"FAKE_NVML_CALLS": str(calls)})
            time.sleep(5)
            before = len(calls.read_text().splitlines())
            time.sleep(10)
            made = len(calls.read_text().splitlines()) - before
            end(child)
            calls.unlink()
            print(f"{f'{hang} ms a call':14} {made / 10:7.1f} calls a second, {made * hang / 100:5.1f} % of the time in the driver", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--driver", help="the fake driver [default: examples/libfake_nvml.so beside the program]")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--gigabytes", type=float, default=1)
    parser.add_argument("--runs", type=int, default=3)
    tables = {"cost": cost, "relaying": relaying, "slow": slow}
    parser.add_argument("--only", choices=tables)
    args = parser.parse_args()
    args.binary = os.path.abspath(args.binary)
    for name, table in tables.items():
        if args.only in (None, name):
            table(args)


if __name__ == "__main__":
    main()
