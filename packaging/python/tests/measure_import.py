"""Prints what `import oomdoctor.hook` costs in fresh interpreters, beside `import json`. A measurement, not a test.

python3 packaging/python/tests/measure_import.py
"""

import os
import statistics
import subprocess
import sys

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TIMED_IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
RUNS = 30


def import_seconds(module):
    """Return the import times of `module` in fresh interpreters. The first one, which may compile, is left out."""
    environment = dict(os.environ, PYTHONPATH=PACKAGE)
    times = []
    for _ in range(RUNS + 1):
        command = [sys.executable, "-c", TIMED_IMPORT.format(module)]
        times.append(float(subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True).stdout))
    return times[1:]


def main():
    for module in ("oomdoctor.hook", "json"):
        times = import_seconds(module)
        print("{:<15} median {:.2f} ms, least {:.2f} ms".format(module, statistics.median(times) * 1e3, min(times) * 1e3))


if __name__ == "__main__":
    main()
