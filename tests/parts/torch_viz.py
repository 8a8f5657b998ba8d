#!/usr/bin/env python3
"""Holds oomdoctor's reading of memory snapshots against PyTorch's own, `torch/cuda/_memory_viz.py`. Not part of the suite.

    pip download --no-deps -d torch torch          any platform's wheel will do: the file is pure Python, no torch is imported
    unzip torch/*.whl torch/cuda/_memory_viz.py
    cargo build && tests/parts/torch_viz.py torch/cuda/_memory_viz.py target/debug/oomdoctor [FILE...]

Without files it reads those of tests/snapshots. Compared: the segments and their sum, allocated and free bytes, the largest free
block of a segment, and the peak of the trace, found by walking backwards from the segments at the end. Only files of one's own:
PyTorch's reader unpickles them for real.
"""
import importlib.util
import json
import pathlib
import pickle
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def viz_of(path):
    spec = importlib.util.spec_from_file_location("_memory_viz", path)
    viz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(viz)
    return viz


def loaded(file):
    read = json.load if file.suffix == ".json" else pickle.load
    with open(file, "rb") as source:
        whole = read(source)
    return whole if isinstance(whole, dict) else {"segments": whole, "device_traces": []}


def peak(viz, whole):
    """The most bytes that one device had requested at once, over the actions that its trace still has. PyTorch's actions have
    the size that was requested (`orig_size` in CUDACachingAllocator.cpp), so the walk begins with those of the blocks."""
    most = 0
    for device, trace in enumerate(whole["device_traces"] or [[]]):
        blocks = [b for s in whole["segments"] if s["device"] == device for b in s["blocks"]]
        live = sum(viz._block_extra(b)[1] for b in blocks if b["state"] != "inactive")
        most = max(most, live)
        for action in reversed(trace):
            live += {"alloc": -1, "free_completed": 1}.get(action["action"], 0) * action["size"]
            most = max(most, live)
    return most


def expected(viz, whole):
    """PyTorch's figures: those of `segsum` as it prints them, and its parts for the rest."""
    text = viz.segsum(whole)
    printed = dict(re.findall(r"^(\w+): ([\d.]+[KMG]?i?B)", text, re.M))
    blocks = [(b, viz._block_extra(b)[1]) for s in whole["segments"] for b in s["blocks"]]
    free = [b["size"] for b, _ in blocks if b["state"] == "inactive"]
    return {
        "segments": len(whole["segments"]),
        "reserved_bytes": sum(s["total_size"] for s in whole["segments"]),
        "allocated_bytes": sum(b["size"] for b, _ in blocks if b["state"] == "active_allocated"),
        "requested_bytes": sum(requested for b, requested in blocks if b["state"] != "inactive"),
        "free_bytes": sum(free),
        "largest_free_bytes": max(free, default=0),
        "peak_bytes": peak(viz, whole),
        "printed": printed,
    }


def ours(answer):
    """The same figures as oomdoctor's JSON has them, over all devices of the file."""
    devices = answer.get("allocations") or []
    totals = [device["totals"] for device in devices]
    names = {"segments": "segments", "reserved_bytes": "reserved_bytes", "allocated_bytes": "allocated_bytes",
             "requested_bytes": "requested_bytes", "free_bytes": "inactive_bytes"}
    figures = {name: sum(total.get(key) or 0 for total in totals) for name, key in names.items()}
    figures["largest_free_bytes"] = max((total["largest_inactive_bytes"] for total in totals), default=0)
    figures["peak_bytes"] = max((device["peak"]["bytes"] for device in devices if device.get("peak")), default=None)
    return figures


def main():
    viz, program = viz_of(sys.argv[1]), sys.argv[2]
    files = [pathlib.Path(name) for name in sys.argv[3:]]
    if not files:
        made = sorted((HERE.parent / "snapshots").iterdir())
        files = [file for file in made if file.suffix in (".pickle", ".json") and file.stem not in ("bait", "checkpoint")]
    wrong = 0
    for file in files:
        figures = expected(viz, loaded(file))
        printed = figures.pop("printed")
        ran = subprocess.run([program, "diagnose", "--no-live", "--json", file], capture_output=True, text=True)
        answer = json.loads(ran.stdout or "{}")
        read = ours(answer)
        for key, value in figures.items():
            # Without actions there is no peak to tell: what is allocated at the end is none.
            if read[key] != value and not (key == "peak_bytes" and read[key] is None):
                wrong += 1
                print(f"{file.name}: {key}: PyTorch {value}, oomdoctor {read[key]}")
        print(f"{file.name}: {figures} {printed}")
    print(f"{len(files)} passed" if not wrong else f"{wrong} figures differ")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
