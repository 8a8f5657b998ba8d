#!/usr/bin/env python3
"""What reading many machines costs this one: CPU and memory of oomdoctor alone, without its `ssh` children.

    tests/speed/hosts.py --binary target/release/oomdoctor [--machines 64] [--hanging 0]

A stand-in for `ssh` prints two readings of a machine with 8 GPUs and 64 processes.
"""
import argparse, json, os, pathlib, subprocess, tempfile, time

options = argparse.ArgumentParser()
options.add_argument("--binary", required=True)
options.add_argument("--machines", type=int, default=64)
options.add_argument("--hanging", type=int, default=0, help="how many of them never answer")
options = options.parse_args()

def process(pid):
    return {"pid": pid, "kind": "compute", "proved": True, "start_ticks": pid, "used_bytes": 1 << 30,
            "uid": 1000, "user": "ada", "command": "python train.py --config configs/pretrain.yaml", "cpu_ticks": 1, "state": "S"}

def device(index):
    return {"index": index, "error": None, "uuid": f"GPU-{index}", "name": "NVIDIA A100-SXM4-80GB", "nature": None,
            "memory": {"total_bytes": 80 << 30, "used_bytes": 8 << 30, "free_bytes": 72 << 30},
            "unaccounted_bytes": 0, "unaccounted_includes_unknown_rows": False, "utilization_percent": 97,
            "processes": [process(index * 100 + row + 1) for row in range(8)]}

reading = {"taken_at": "2026-11-23T12:00:00Z", "host": {"name": "gpu"}, "driver": {"version": "570.1", "cuda_version": "12.8"},
           "devices": [device(index) for index in range(8)]}
with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    (folder / "reading").write_text(json.dumps(reading) + "\n")
    (folder / "ssh").write_text(f"""#!/bin/sh
case ${{10}} in hang*) exec sleep 1000;; esac
echo '{{"schema":1,"program":"x","boot_id":"'$$'"}}'
exec cat {folder}/reading {folder}/reading
""")
    (folder / "ssh").chmod(0o755)
    names = [f"hang{at}" for at in range(options.hanging)] + [f"gpu{at}" for at in range(options.machines - options.hanging)]
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder)}
    start = time.monotonic()
    child = subprocess.Popen([options.binary, "ps", "--json", "--host", ",".join(names)], stdout=subprocess.PIPE, env=environment)
    hosts = json.loads(child.stdout.read())["hosts"]
    wall = time.monotonic() - start
    # It has ended and was not waited for, so its figures are still there.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    fields = pathlib.Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()
    user, system = (int(fields[at]) / os.sysconf("SC_CLK_TCK") for at in (11, 12))
    _, _, usage = os.wait4(child.pid, 0)
    read = sum(host["snapshot"] is not None for host in hosts)
    print(f"{read} of {len(hosts)} machines in {wall:.2f} s; CPU {user:.2f} s user, {system:.2f} s system; peak {usage.ru_maxrss / 1024:.1f} MiB")
