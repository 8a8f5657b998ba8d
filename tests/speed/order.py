#!/usr/bin/env python3
"""Writes src/build/often.ld: the functions that run at the start and each second, which the linker places side by side.

    cargo rustc --release --bin oomdoctor --target-dir target/symbols -- -C strip=none
    cargo build --release --example fake_nvml
    tests/speed/order.py --binary target/symbols/release/oomdoctor --driver target/release/examples/libfake_nvml.so

The kernel maps 64 KiB of a program around each place that is touched, so functions that are strewn over a large file cost
memory and page faults. Needs `perf` (Debian: linux-perf) and root, or kernel.perf_event_paranoid <= 1. The program is
sampled while it reads two machines 20 times a second and while it starts 60 times; then each function is noted at whose
first use a page was missing, which finds what runs too seldom for samples. A page has one such function, so build with the
new list and run it again with --add, which puts what is found before what is listed. Run it when peers.py shows more memory
than before: a function that the list names wrongly is placed like any other, so an old list only helps less.
The names are those of the mangling that .cargo/config.toml asks for, without the crates' hashes, which differ from build
to build. Where RUSTFLAGS or an installation from elsewhere leaves that file out, no name is found and nothing is ordered.
"""
import argparse
import bisect
import collections
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

import peers

SCRIPT = pathlib.Path(__file__).parents[2] / "src/build/often.ld"
# A name without hashes may stand for more functions than those that ran. Where these take more bytes than the first figure,
# they are placed behind all others; beyond the second one, like any code.
FEW_BYTES_BESIDE, MOST_BYTES_BESIDE = 2 << 10, 24 << 10


def symbols(binary):
    """Of each function its offset in the file's code, its size and its name, by offset."""
    headers = subprocess.run(["readelf", "-lW", binary], capture_output=True, text=True, check=True).stdout
    code = next(line.split() for line in headers.splitlines() if " R E " in line)
    shift = int(code[2], 16) - int(code[1], 16)
    listed = subprocess.run(["nm", "-S", "--defined-only", binary], capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in listed.splitlines()]
    return sorted((int(line[0], 16) - shift, int(line[1], 16), line[3]) for line in lines if len(line) == 4 and line[2] in "tTwW")


def samples(recorded, binary):
    """How often each place of the program's file was run, for each process."""
    command = ["perf", "script", "-i", recorded, "-F", "comm,pid,ip,dso,sym", "--show-mmap-events"]
    text = subprocess.run(command, capture_output=True, text=True, errors="replace", check=True).stdout
    name = re.escape(pathlib.Path(binary).name)
    mapped = re.compile(rf"MMAP2? (\d+)/\d+: \[0x([0-9a-f]+)\(0x([0-9a-f]+)\) @ (?:0x)?([0-9a-f]+) .*r-xp .*/{name}$")
    sampled = re.compile(rf"\s*\S+\s+(\d+)\s+([0-9a-f]+) .*\(.*/{name}\)$")
    maps, places = {}, collections.defaultdict(collections.Counter)
    for line in text.splitlines():
        if found := mapped.search(line):
            maps[found[1]] = tuple(int(found[at], 16) for at in (2, 3, 4))
        elif found := sampled.match(line):
            # A child that is a copy of the program has its maps, too.
            for start, length, offset in [maps[found[1]]] if found[1] in maps else list(maps.values()):
                place = int(found[2], 16) - start
                if 0 <= place < length:
                    places[int(found[1])][place + offset] += 1
                    break
    return places


def functions(places, known):
    """How often each function was run at these places."""
    offsets = [offset for offset, _, _ in known]
    counted = collections.Counter()
    for place, count in places.items():
        at = bisect.bisect_right(offsets, place) - 1
        if at >= 0 and place < offsets[at] + known[at][1]:
            counted[known[at][2]] += count
    return counted


def record(command, into):
    return subprocess.Popen(["perf", "record", "-q", "-F", "25000", "-e", "cpu-clock:u", "-o", into, *command], stderr=subprocess.DEVNULL)


def each_second(args, cards, count, into):
    """Records both processes; the PID of the one with the screen."""
    with peers.machine(args.driver, cards, count) as (_, _, environment):
        terminal = peers.Terminal([args.binary, "--interval", "0.05"], environment)
        terminal.read_until(time.monotonic() + 3)
        recorder = record(["-p", ",".join(map(str, terminal.family())), "--", "sleep", str(args.seconds)], into)
        while recorder.poll() is None:
            terminal.read_until(time.monotonic() + 0.2)
        terminal.end()
        return terminal.pid


def missing(args, cards, count, into, known):
    """The functions at whose first use a page was missing, once what the start took was returned: of the process with the
    screen, and of the other one."""
    with peers.machine(args.driver, cards, count) as (_, _, environment):
        terminal = peers.Terminal([args.binary, "--interval", "1"], environment)
        terminal.read_until(time.monotonic() + 2)
        own, *others = terminal.family()
        command = ["perf", "record", "-q", "-e", "page-faults", "-c", "1", "-d", "-o", into, "-p", ",".join(map(str, [own, *others]))]
        recorder = subprocess.Popen([*command, "--", "sleep", str(args.seconds + 10)], stderr=subprocess.DEVNULL)
        while recorder.poll() is None:
            terminal.read_until(time.monotonic() + 0.2)
        maps = {pid: pathlib.Path(f"/proc/{pid}/maps").read_text() for pid in [own, *others]}
        terminal.end()
    name = re.escape(pathlib.Path(args.binary).name)
    code = {pid: re.search(rf"^([0-9a-f]+)-([0-9a-f]+) r-xp ([0-9a-f]+) .*/{name}$", text, re.M) for pid, text in maps.items()}
    listed = subprocess.run(["perf", "script", "-i", into, "-F", "pid,addr"], capture_output=True, text=True, check=True).stdout
    places = collections.defaultdict(collections.Counter)
    for line in listed.splitlines():
        pid, address = int(line.split()[0]), int(line.split()[1], 16)
        start, end, offset = (int(code[pid][at], 16) for at in (1, 2, 3))
        if start <= address < end:
            places[pid == own][address - start + offset] += 1
    return [functions(places[is_own], known) for is_own in (True, False)]


def at_the_start(args, into):
    with peers.machine(args.driver, 2, 16) as (_, pids, environment):
        recorder = record(["-a"], into)
        time.sleep(1)
        for _ in range(args.starts):
            terminal = peers.Terminal([args.binary, "--interval", "1"], environment)
            terminal.read_until(terminal.began + 20, str(pids[9]).encode())
            terminal.end()
        recorder.send_signal(signal.SIGINT)
        recorder.wait()


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
    parser.add_argument("--starts", type=int, default=60)
    parser.add_argument("--add", action="store_true", help="keep what the list has, behind what is new")
    args = parser.parse_args()
    args.binary = os.path.abspath(args.binary)
    known = symbols(args.binary)
    screen, sampler, start = collections.Counter(), collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        recorded = f"{folder}/recorded"
        for cards, count in ((2, 16), (8, 64)):
            own = each_second(args, cards, count, recorded)
            for pid, places in samples(recorded, args.binary).items():
                (screen if pid == own else sampler).update(functions(places, known))
            for counted, found in zip((screen, sampler), missing(args, cards, count, recorded, known)):
                print(f"{cards}x{count}: {len(found.keys() - counted.keys())} found by missing pages alone", file=sys.stderr)
                counted.update(found)
        at_the_start(args, recorded)
        for places in samples(recorded, args.binary).values():
            start.update(functions(places, known))
    # What one process alone runs is no neighbor of what the other one alone runs.
    alone = [name for name, _ in sampler.most_common() if name not in screen]
    both = [name for name, _ in (screen + sampler).most_common() if name in screen and name in sampler]
    rest = [name for name, _ in screen.most_common() if name not in sampler]
    once = [name for name, _ in start.most_common() if name not in screen and name not in sampler]
    bytes_beside = beside(known, {*alone, *both, *rest, *once})
    clear, mixed = [], []
    for each in (alone + both + rest, once):
        named = [without_hash(name) for name in each]
        clear.append([name for name in named if bytes_beside[name] <= FEW_BYTES_BESIDE])
        mixed.append([name for name in named if FEW_BYTES_BESIDE < bytes_beside[name] <= MOST_BYTES_BESIDE])
    listed = list(dict.fromkeys(clear[0] + mixed[0] + clear[1] + mixed[1]))
    if args.add:
        before = re.findall(r"\*\(\.text\*\.(.*)\)", SCRIPT.read_text())
        listed = [name for name in listed if name not in set(before)] + before
    lines = "".join(f"    *(.text*.{pattern})\n" for pattern in listed)
    comment = "/* What runs each second in either process, then what runs at the start. Made by tests/speed/order.py. */\n"
    SCRIPT.write_text(f"{comment}SECTIONS\n{{\n  .text.often :\n  {{\n{lines}  }}\n}}\nINSERT BEFORE .text;\n")
    print(f"{len(listed)} functions", file=sys.stderr)


if __name__ == "__main__":
    main()
