#!/usr/bin/env python3
"""How long a key takes to its frame on a busy machine with a large log, and how long a huge paste holds up the input.

    cargo build --release && cargo build --release --example fake_nvml
    tests/speed/keys.py --binary target/release/oomdoctor [--cards 8] [--processes 400] [--megabytes 100] [--paste 50]

A terminal of 200x60, a fake driver, sleepers as processes, a log of 100 MB read in. Then an arrow key every 50 to 150 ms: from
the byte to the first of the frame that moves the pointer. Then a paste of 50 MB: the longest time in which nothing of it
was taken, and keys from its last byte on, while it is read. Nothing here fails on speed.
"""
import argparse
import os
import random
import select
import time

from first_pass import training_log
from peers import ESCAPES, Terminal, driver_of, machine

DOWN, UP = b"\x1b[B", b"\x1b[A"
POINTER = "▸".encode()


def take(terminal, seconds):
    """What comes within so long."""
    if not select.select([terminal.fd], [], [], max(seconds, 0))[0]:
        return b""
    return os.read(terminal.fd, 1 << 16)


def wait_for(terminal, text, patience):
    due, seen = time.monotonic() + patience, b""
    # Blanks that were there before are not written again.
    wanted = text.replace(b" ", b"")
    while time.monotonic() < due:
        seen = (seen + take(terminal, due - time.monotonic()))[-1 << 20 :]
        if wanted in ESCAPES.sub(b"", seen).replace(b" ", b""):
            return
    raise SystemExit(f"never seen: {text.decode()}")


def press(terminal, key, mark):
    """Seconds until the frame that has this mark; None where none comes."""
    while take(terminal, 0):
        pass
    began, seen = time.monotonic(), b""
    os.write(terminal.fd, key)
    while not seen or mark not in seen:
        left = began + 2 - time.monotonic()
        if left <= 0:
            return None
        seen += take(terminal, left)
    return time.monotonic() - began


def said(name, times):
    # The last step or process is the last: one key at most goes nowhere as the verdict takes the focus.
    if times.count(None) > 1:
        raise SystemExit(f"{name}: {times.count(None)} keys were not answered")
    times = sorted(time for time in times if time is not None)
    at = lambda share: times[min(int(len(times) * share), len(times) - 1)] * 1e3
    print(f"{name}: {len(times)} keys, median {at(0.5):.1f} ms, 99th percentile {at(0.99):.1f} ms, longest {times[-1] * 1e3:.1f} ms")


def moved(terminal, count, far=10, pause=0.1, mark=POINTER):
    times = []
    for at in range(count):
        time.sleep(random.uniform(pause / 2, pause * 3 / 2))
        # Not so far that the list scrolls: the pointer would stay in its place and not be drawn.
        times.append(press(terminal, DOWN if at % (2 * far) < far else UP, mark))
    return times


def paste(terminal, megabytes):
    line = b"epoch 3 step 7 loss 0.4711 gpu memory 17.03 GiB cached\n"
    end = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 23.99 GiB of which 6.10 GiB is free.\n"
    block = line * (1 + megabytes * 1_000_000 // len(line))
    left = memoryview(b"\x1b[200~" + block + end + b"\x1b[201~")
    os.set_blocking(terminal.fd, False)
    began = last = time.monotonic()
    stall = silence = 0.0
    drawn = began
    while left:
        ready, room, _ = select.select([terminal.fd], [terminal.fd], [], 10)
        now = time.monotonic()
        if room:
            stall, last = max(stall, now - last), now
            left = left[os.write(terminal.fd, left[:4096]) :]
        if ready:
            take(terminal, 0)
            silence, drawn = max(silence, now - drawn), now
    os.set_blocking(terminal.fd, True)
    took = time.monotonic() - began
    print(f"paste of {megabytes} MB: taken in {took:.1f} s, longest stall {stall * 1e3:.0f} ms, longest time without a frame {silence * 1e3:.0f} ms")
    return took


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--driver", help="the fake driver [default: examples/libfake_nvml.so beside the program]")
    parser.add_argument("--cards", type=int, default=8)
    parser.add_argument("--processes", type=int, default=400)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--paste", type=int, default=50)
    parser.add_argument("--keys", type=int, default=400)
    args = parser.parse_args()
    random.seed(1)
    with machine(driver_of(args), args.cards, args.processes) as (folder, _, environment):
        log = folder / "large.log"
        training_log(log, args.megabytes * 1_000_000)
        terminal = Terminal([args.binary, "--interval", "1", str(log)], environment)
        wait_for(terminal, b"FREES", 60)
        # From the steps to the processes.
        os.write(terminal.fd, b"\t")
        time.sleep(1)
        said(f"{args.cards} cards, {args.processes} processes, a log of {args.megabytes} MB", moved(terminal, args.keys))
        terminal.end()
        terminal = Terminal([args.binary, "--interval", "1"], environment)
        wait_for(terminal, b"Paste the error", 10)
        paste(terminal, args.paste)
        # The pointer of the steps, which come meanwhile, may stay in its place: any frame counts.
        said("keys from its last byte on", moved(terminal, 40, far=1, pause=0.02, mark=b""))
        terminal.end()


if __name__ == "__main__":
    main()
