#!/usr/bin/env python3
"""What the screen costs: bytes written for each key, CPU time of keys and of watching, beside another build of oomdoctor.

    cargo build --release && cargo build --release --example fake_nvml
    tests/speed/screen.py --binary target/release/oomdoctor [--before OTHER] [--driver LIBRARY] [--log LOG]

Both programs run in turn in a pty on the same fake driver, with 2 GPUs, 16 processes and the same log, at 80x24, 120x40 and
200x60. For each size: the most bytes that one key wrote and the seconds that these take at 2 kB/s (a bad ssh line), the bytes
of all keys, the bytes of one idle second, and the CPU time of keys and of idle seconds. With --before also as ratios. Nothing
here fails on speed.
"""
import argparse
import fcntl
import os
import pathlib
import select
import struct
import termios
import time

from peers import Terminal, driver_of, machine

SIZES = [(80, 24), (120, 40), (200, 60)]
# Keys that earlier builds do not know: they count for the most of a key, not for the sum.
NEW_KEYS = {b"v", b"L"}
KEYS = [b"\t", b"\x1b[B", b"\x1b[B", b"\x1b[A", b"\t", b"\x1b[B", b"v", b"\x1b", b"L", b"L", b"z", b"z", b"?", b"\x1b", b":", b"\x1b"]
ROUNDS = 6
IDLE_SECONDS = 8
# A key's frame is complete after so long without a byte.
QUIET = 0.12
SLOW_LINE = 2000
LOG = """Traceback (most recent call last):
  File "train.py", line 88, in <module>
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 23.99 GiB of which 6.10 GiB is free. Including non-PyTorch memory, this process has 8.60 GiB memory in use. Of the allocated memory 8.10 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.
"""


def drained(terminal, quiet=QUIET):
    """The bytes that come until nothing has come for a while."""
    count = 0
    while select.select([terminal.fd], [], [], quiet)[0]:
        count += len(os.read(terminal.fd, 1 << 16))
    return count


def cpu_seconds(pid):
    """CPU time of a process and its living children."""
    def own(one):
        fields = pathlib.Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return own(pid) + sum(own(child) for child in children)


def measured(binary, size, environment, log):
    columns, rows = size
    terminal = Terminal([binary, "--interval", "1", str(log)], environment)
    # The child gives itself a size first.
    time.sleep(0.5)
    fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    time.sleep(2.5)
    drained(terminal)
    by_key, began = {}, cpu_seconds(terminal.pid)
    for _ in range(ROUNDS):
        for at, key in enumerate(KEYS):
            os.write(terminal.fd, key)
            # A lone Esc is one only after a pause.
            by_key.setdefault((at, key), []).append(drained(terminal, 0.35 if key == b"\x1b" else QUIET))
    keys_cpu = cpu_seconds(terminal.pid) - began
    idle_bytes, began, due = 0, cpu_seconds(terminal.pid), time.monotonic() + IDLE_SECONDS
    while (left := due - time.monotonic()) > 0:
        if select.select([terminal.fd], [], [], left)[0]:
            idle_bytes += len(os.read(terminal.fd, 1 << 16))
    idle_cpu = cpu_seconds(terminal.pid) - began
    terminal.end()
    most = max(by_key, key=lambda key: sorted(by_key[key])[ROUNDS // 2])
    medians = [sorted(counts)[ROUNDS // 2] for counts in by_key.values()]
    if os.environ.get("EACH_KEY"):
        print({key.decode(): sorted(counts)[ROUNDS // 2] for (_, key), counts in by_key.items()})
    known = [sorted(counts)[ROUNDS // 2] for (_, key), counts in by_key.items() if key not in NEW_KEYS]
    return {
        "most of a key": max(medians), "by": most[1].decode().replace("\x1b", "Esc").replace("\t", "Tab"), "keys": sum(known),
        "idle B/s": idle_bytes / IDLE_SECONDS, "keys CPU ms": 1e3 * keys_cpu / ROUNDS / len(KEYS), "idle CPU ms/s": 1e3 * idle_cpu / IDLE_SECONDS,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--before")
    parser.add_argument("--driver", help="the fake driver [default: examples/libfake_nvml.so beside the program]")
    parser.add_argument("--log", type=pathlib.Path)
    args = parser.parse_args()
    with machine(driver_of(args), 2, 16) as (folder, _, environment):
        log = args.log or folder / "crash.log"
        if not args.log:
            log.write_text(LOG)
        for size in SIZES:
            found = {name: measured(binary, size, environment, log) for name, binary in [("now", args.binary), ("before", args.before)] if binary}
            for name, figures in found.items():
                by = figures.pop("by")
                said = ", ".join(f"{what} {figure:.1f}" for what, figure in figures.items())
                print(f"{size[0]}x{size[1]} {name:6}: {said}; most by {by}, {figures['most of a key'] / SLOW_LINE:.1f} s at 2 kB/s")
            if args.before:
                ratios = ", ".join(f"{what} {found['now'][what] / max(found['before'][what], 0.01):.2f}" for what in found["now"])
                print(f"{size[0]}x{size[1]} ratio : {ratios}")


if __name__ == "__main__":
    main()
