#!/usr/bin/env python3
"""Time and memory of reading PyTorch memory snapshots, against CPython's `pickle.load` of the same file in the same run.

    cargo build --release && tests/speed/snapshots.py --binary target/release/oomdoctor [--runs 5] [--huge]

The files are made by tests/snapshots/make.py: 300,000 entries of 40 frames (protocol 4) and of 80 frames (protocol 2). Runs
take turns; the ratios are of the medians. `--huge` adds a file of 2 GB, which only oomdoctor opens: its peak RSS has to stay
below 1 GiB. That file is too large for CPython here. Nothing here fails on speed.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

MAKE = pathlib.Path(__file__).parents[1] / "snapshots" / "make.py"
LOAD = "import pickle, sys; pickle.load(open(sys.argv[1], 'rb'))"


def run(command):
    """Seconds and peak RSS in MiB."""
    started = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(child.pid, 0)
    return time.perf_counter() - started, usage.ru_maxrss / 1024


options = argparse.ArgumentParser()
options.add_argument("--binary", required=True)
options.add_argument("--runs", type=int, default=5)
options.add_argument("--huge", action="store_true")
options = options.parse_args()
with tempfile.TemporaryDirectory() as folder:
    file = f"{folder}/snapshot.pickle"
    ours, theirs = [options.binary, "diagnose", "--no-live", file], [sys.executable, "-c", LOAD, file]
    for entries, depth, protocol in ((300_000, 40, 4), (300_000, 80, 2)):
        subprocess.run([sys.executable, MAKE, "big", str(entries), str(depth), str(protocol), file], check=True)
        pairs = [(run(ours), run(theirs)) for _ in range(options.runs)]
        (time_ours, rss_ours), (time_theirs, rss_theirs) = ([statistics.median(column) for column in zip(*runs)] for runs in zip(*pairs))
        print(f"{entries} x {depth}, protocol {protocol}, {os.path.getsize(file) >> 20} MiB: {time_ours:.2f} s / {time_theirs:.2f} s = {time_ours / time_theirs:.2f}, "
              f"RSS {rss_ours:.0f} / {rss_theirs:.0f} MiB = {rss_ours / rss_theirs:.2f}")
    if options.huge:
        subprocess.run([sys.executable, MAKE, "huge", "330", "40", file], check=True)
        seconds, rss = run(ours)
        print(f"{os.path.getsize(file) / (1 << 30):.1f} GiB: {seconds:.1f} s, RSS {rss:.0f} MiB")
