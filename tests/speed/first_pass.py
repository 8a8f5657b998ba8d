#!/usr/bin/env python3
"""How fast a large healthy log is read, as a ratio against a plain search for the same words in the same run.

    first_pass.py --binary target/release/oomdoctor [--megabytes 100] [--runs 5]

Writes a synthetic training log (progress bars included) with one failure at its end, and the words of the first pass.
Prints the median of `oomdoctor diagnose --no-live`, of `rg -c -F -f WORDS` (else `grep -cFf`), and their
ratio; then the medians for 1 MB and for one line, and what loading the knowledge costs. Nothing here fails on speed.
"""
import argparse
import pathlib
import random
import shutil
import statistics
import subprocess
import tempfile
import time


def training_log(path, size):
    random.seed(1)
    with path.open("w", encoding="utf-8") as out:
        written = step = 0
        while written < size:
            step += 1
            if step % 20 == 7:
                bar = "█" * (step // 20 % 10)
                line = f"{step % 100:3d}%|{bar:<10}| {step % 1000}/1000 [00:{step % 60:02d}<01:12, 7.{step % 10}it/s]\n"
            else:
                line = f"epoch {step // 2000} step {step} loss {random.random() * 3:.4f} gpu memory 17.{step % 100:02d} GiB cached\n"
            out.write(line)
            written += len(line.encode())
        out.write("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 9.00 GiB. GPU 0 has a total capacity of 23.99 GiB of which 6.10 GiB is free.\n")


def median(command, runs):
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        # Into a pipe: a search that writes to /dev/null stops at its first hit.
        subprocess.run(command, capture_output=True, check=False)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        large, small, one, words = (folder / name for name in ("large.log", "small.log", "one.log", "words"))
        training_log(large, args.megabytes * 1_000_000)
        training_log(small, 1_000_000)
        one.write_text("hello\n", encoding="utf-8")
        listed = subprocess.run([args.binary, "kb", "list", "--literals"], capture_output=True, text=True, check=True)
        words.write_text(listed.stdout, encoding="utf-8")
        if shutil.which("rg"):
            search = ["rg", "-c", "-F", "-f", str(words), str(large)]
        else:
            search = ["grep", "-cFf", str(words), str(large)]
        diagnose = [args.binary, "diagnose", "--no-live"]
        ours, theirs = median([*diagnose, str(large)], args.runs), median(search, args.runs)
        print(f"{args.megabytes} MB: diagnose {ours:.3f} s, {search[0]} {theirs:.3f} s, ratio {ours / theirs:.2f}")
        started = median([args.binary, "--version"], 4 * args.runs)
        for name, command in (("1 MB", [*diagnose, str(small)]), ("one line", [*diagnose, str(one)]), ("knowledge", [args.binary, "kb", "list"])):
            print(f"{name}: {(median(command, 4 * args.runs) - started) * 1e3:.1f} ms beyond starting the program")


if __name__ == "__main__":
    main()
