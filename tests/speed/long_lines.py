#!/usr/bin/env python3
"""Checks that very long lines are read in linear time.

    long_lines.py --binary target/release/oomdoctor [--limit 1.0] [--only NAME]

Writes each log at 1, 2 and 4 MB (of many lines: 1 and 2) and prints the processor time of `oomdoctor diagnose --no-live`
for each, the best of three, and the ratio of the largest to the smallest beside the ratio of their sizes. Fails where 1 MB
takes longer than the limit. A terminal's pane reads its logs the same way.
"""
import argparse
import pathlib
import resource
import subprocess
import sys
import tempfile

TORCH = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 23.99 GiB of which 6.10 GiB is free. Process 4242 has 11.23 GiB memory in use."
OLDER = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 8.00 GiB total capacity; 5.12 GiB already allocated; 1.03 GiB free; 5.30 GiB reserved in total by PyTorch)"
KERNEL = "Memory cgroup out of memory: Killed process 4301 (python3) total-vm:3613376kB, anon-rss:204000kB, file-rss:800kB, shmem-rss:0kB"

# Logs of one line: the text that is repeated.
LINES = {
    "quoted RuntimeError": "'RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB' ",
    "double-quoted RuntimeError": '"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", ',
    "PostgreSQL": "ERROR:  out of memory ",
    "PostgreSQL's detail": "DETAIL:  Failed on request of size 33554432. ",
    "torch": TORCH + " ",
    "torch without blanks": TORCH.replace(" ", ""),
    "torch 1": OLDER + " ",
    "torch behind printed line ends": TORCH + "\\n",
    "raised in source": 'raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB") ',
    "open backticks": "`RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB ",
    "closed backticks": "we see `CUDA out of memory. Tried to allocate 2.00 GiB` when it fails, ",
    "open brackets": "[({ CUDA out of memory. Tried to allocate ",
    "open quotes": "' \" CUDA out of memory. Tried to allocate ",
    "a table's cells": "| CUDA out of memory. Tried to allocate 2.00 GiB | it is full ",
    "box borders": "│ CUDA out of memory. Tried to allocate 2.00 GiB │",
    "kernel": KERNEL + " ",
    "out of memory": "out of memory ",
    "out of memory without blanks": "outofmemory",
    "near misses of an allocation": "failed to allocate memory, allocation failed, cannot allocate ",
    "MemoryError": "MemoryError ",
    "Killed": "Killed ",
    "exit codes": "exit code 137, signal 9, OOMKilled ",
    "JSON events": '{"type":"Warning","reason":"OOMKilling","message":"' + KERNEL + '"},',
    "JVM": "java.lang.OutOfMemoryError: Java heap space ",
    "steps": "step 1 ",
    "epochs": "epoch 1/10 ",
    "progress bars": " 37%|███▋      | 1204/3250 [41:07<1:09:55,  2.05s/it]",
    "half progress bars": "step 37%|##",
    "dtypes": "dtype=torch.",
    "models": "--model a ",
    "commands": "$ python a.py --x ",
    "buffers": "CUDA0 buffer size = 1.00 MiB ",
    "cards": "Device 0: NVIDIA, ",
    "paths": "C:\\a\\b ",
    "settings": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True ",
    "tracebacks": 'Traceback (most recent call last):   File "a.py", line 3, in <module> ',
    "stamps": "2026-11-20 10:00:00,123 ERROR ",
    "digits": "1234567890",
    "bars": "|",
    "backslashes": "\\n",
    "escapes": "\x1b[31m",
    "unended escapes": "\x1b]0;",
    "blanks": " ",
    "no-break spaces": "\u00a0",
    "hex": "5f0c8e9a7b6d4c3e2f1a0b9c8d7e6f504132a3b4 ",
}

# Of these the run facts are read, which needs a failure in the log.
FACTS = ["steps", "epochs", "progress bars", "half progress bars", "dtypes", "models", "commands", "buffers", "cards", "paths", "settings", "tracebacks", "stamps", "digits", "bars"]

# Logs of many lines.
MANY = {
    "the same message": TORCH + "\n",
    "out of memory": "out of memory\n",
    "Killed": "Killed\n",
    "quoted": "'RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB'\n",
    "alternating": "step 1: ok\nCUDA error: out of memory\nretrying\n\n" + KERNEL + "\nMemoryError\n| a | b |\n",
    "source": "    raise RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB')\n    return x;\n",
    "lines of 8 kB": "x " * 2000 + "'RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB' " * 64 + "\n",
    "lines of 40 kB": "ERROR:  out of memory 'CUDA out of memory. Tried to allocate 2.00 GiB' " * 560 + "\n",
    "line ends": "\n",
}


def logs():
    for name, unit in LINES.items():
        yield name, "", unit, (1, 2, 4)
    for name in FACTS:
        yield name + ", then a failure", "\n" + OLDER + "\n", LINES[name], (1, 2, 4)
        yield name + " and a failure in one line", OLDER + " ", LINES[name], (1, 2, 4)
    for name, unit in MANY.items():
        yield "many lines: " + name, "", unit, (1, 2)


def spent():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def best(command, runs, patience):
    times = []
    for _ in range(runs):
        before = spent()
        try:
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=patience)
        except subprocess.TimeoutExpired:
            return patience
        times.append(spent() - before)
        if times[-1] > 3:
            break
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--limit", type=float, default=1.0, help="seconds for 1 MB")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds until a run is given up")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", help="names that contain this")
    args = parser.parse_args()
    slow = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "line.log"
        for name, end, unit, sizes in logs():
            if args.only and args.only not in name:
                continue
            times = []
            for size in sizes:
                path.write_text(unit * (size * 1_000_000 // len(unit.encode())) + end, encoding="utf-8", newline="")
                times.append(best([args.binary, "diagnose", "--no-live", str(path)], args.runs, args.patience))
                if times[-1] >= args.patience:
                    break
            ratio = times[-1] / times[0]
            shown = "  ".join(f"{size} MB {seconds:6.3f} s" for size, seconds in zip(sizes, times))
            late = times[0] > args.limit
            print(f"{'SLOW' if late else '    '} {name:52} {shown}  x{ratio:.1f} for x{sizes[len(times) - 1]}", flush=True)
            if late:
                slow.append(name)
    if slow:
        sys.exit(f"longer than {args.limit} s for 1 MB: {', '.join(slow)}")


if __name__ == "__main__":
    main()
