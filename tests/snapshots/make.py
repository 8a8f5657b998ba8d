#!/usr/bin/env python3
"""Makes memory snapshots in PyTorch's shapes, as documented: no GPU and no PyTorch is needed.

    tests/snapshots/make.py                              the small ones that `cargo test` reads, beside this file, and the demo's
    tests/snapshots/make.py big ENTRIES DEPTH PROTOCOL FILE   a large one: 300000 40 4 is 97 MB
    tests/snapshots/make.py huge COPIES DEPTH FILE       one that no Python could load here: 330 40 is 2 GB
"""
import json, pathlib, pickle, pickletools, random, sys

MIB, GIB = 1 << 20, 1 << 30
HERE = pathlib.Path(__file__).parent


def frame(file, line, name):
    return {"name": name, "filename": file, "line": line}


ATTENTION = [frame("/w/train.py", 88, "forward"), frame("/w/model.py", 41, "attention"), frame("/w/train.py", 12, "main")]
OPTIMIZER = [frame("/w/torch/optim/adamw.py", 300, "_init_group"), frame("/w/train.py", 60, "step"), frame("/w/train.py", 12, "main")]
WEIGHTS = [frame("/w/model.py", 10, "__init__"), frame("/w/train.py", 5, "main")]


class Maker:
    """One process. `version` is PyTorch's, as (major, minor)."""

    def __init__(self, version=(2, 9)):
        self.version, self.segments, self.traces = version, [], {0: []}
        self.base, self.now, self.pause = 0x7F3A00000000, 1795320000000000, 7

    def act(self, action, size, place, frames=(), stream=0, pool=(0, 0), device=0):
        entry = {"action": action, "device_free" if action == "oom" else "addr": place, "size": size, "stream": stream}
        self.now += self.pause
        if self.version >= (2, 4):
            entry["time_us"] = self.now
        if self.version >= (2, 9):
            entry |= {"compile_context": "N/A", "user_metadata": ""}
        if self.version >= (2, 11):
            entry["pool_id"] = pool
        entry["frames"] = list(frames)
        self.traces.setdefault(device, []).append(entry)

    def place(self, size, frames):
        """Allocates and tells size, frames and address."""
        size, place = int(size), self.base
        self.base += size + GIB
        self.act("alloc", size, place, frames)
        return size, frames, place

    def segment(self, blocks, pool=(0, 0), stream=0, expandable=False, device=0, kind="large", base=None, is_traced=True):
        """`blocks`: size, state and frames of each."""
        address = self.base if base is None else base
        total, offset, made = sum(size for size, _, _ in blocks), 0, []
        if is_traced:
            self.act("segment_map" if expandable else "segment_alloc", total, address, (), stream, pool, device)
        for size, state, frames in blocks:
            requested = 0 if state == "inactive" else size - 100 * is_traced
            if self.version >= (2, 1):
                made.append({"address": address + offset, "size": size, "requested_size": requested, "state": state, "frames": frames})
            else:
                old = {"size": size, "state": state}
                if state != "inactive":
                    old["history"] = [{"addr": address + offset, "real_size": requested, "frames": frames}, {"addr": address + offset, "real_size": 1}]
                made.append(old)
            if state != "inactive" and is_traced:
                self.act("alloc", size, address + offset, frames, stream, pool, device)
            offset += size
        segment = {"device": device, "address": address, "total_size": total, "stream": stream, "segment_type": kind,
                   "allocated_size": sum(s for s, state, _ in blocks if state == "active_allocated"),
                   "active_size": sum(s for s, state, _ in blocks if state != "inactive"), "blocks": made}
        if self.version >= (2, 1):
            segment |= {"requested_size": 0, "segment_pool_id": pool, "is_expandable": expandable, "frames": []}
        self.segments.append(segment)
        if base is None:
            self.base += total + GIB

    def whole(self):
        settings = {"PYTORCH_CUDA_ALLOC_CONF": "garbage_collection_threshold:0.8", "max_split_size": -1, "garbage_collection_threshold": 0.8,
                    "expandable_segments": False, "pinned_num_register_threads": 1, "roundup_power2_divisions": {"1": 0, "2": 0}}
        whole = {"segments": self.segments, "device_traces": [self.traces.get(d, []) for d in range(max(self.traces) + 1)]}
        if self.version >= (2, 4):
            whole["allocator_settings"] = settings
        if self.version >= (2, 6):
            whole["external_annotations"] = [{"name": "ProfilerStep#412", "stage": "START", "device": 0, "time_us": self.now}]
        return whole


def sick(version=(2, 9)):
    """Fragmented, with a CUDA graph's pool and blocks that another stream still uses."""
    maker = Maker(version)
    maker.segment([(8 * GIB, "active_allocated", WEIGHTS)])
    maker.segment([(3 * GIB, "active_allocated", OPTIMIZER), (GIB, "inactive", []), (2 * GIB, "active_allocated", OPTIMIZER)])
    for _ in range(4):
        maker.segment([(512 * MIB, "active_allocated", ATTENTION), (1536 * MIB, "inactive", [])])
    maker.segment([(GIB, "inactive", [])], pool=(0, 1))
    maker.segment([(256 * MIB, "active_pending_free", ATTENTION)], stream=0 if version < (2, 1) else 7)
    maker.act("oom", 2 * GIB, 700 * MIB, ATTENTION)
    return maker.whole()


def today():
    """Everything that newer versions write, and addresses from 2^63 on."""
    maker = Maker((2, 15))
    maker.segment([(20 * MIB, "active_allocated", WEIGHTS), (2 * MIB, "inactive", [])], expandable=True, base=(1 << 63) + 4096)
    maker.segment([(MIB, "active_allocated", ATTENTION), (MIB, "inactive", [])], kind="small", stream=3, device=1)
    maker.act("annotate", 0, 0, device=1)
    maker.act("not known yet", 5, 5)
    whole = maker.whole()
    for entry in whole["device_traces"][0]:
        entry["internal_metadata"] = {"a": [1, None, 2.5]}
    whole |= {"host_segments": [dict(whole["segments"][0], device=9)], "host_traces": [[dict(whole["device_traces"][0][0])]]}
    return whole


def cut_ring():
    """The beginning of the trace is gone: what it frees was allocated before."""
    maker = Maker()
    maker.act("free_requested", GIB, 0x7F0000000000)
    maker.act("free_completed", GIB, 0x7F0000000000)
    maker.act("segment_free", 2 * GIB, 0x7F0000000000)
    maker.segment([(512 * MIB, "active_allocated", WEIGHTS), (512 * MIB, "inactive", [])])
    return maker.whole()


def demo():
    """The failure of assets/demo.log: weights, the optimizer's state and activations, a step after the other."""
    home, torch = "/home/ada/vision", "/home/ada/env/lib/python3.12/site-packages/torch"
    main = frame(f"{home}/train.py", 141, "<module>")
    call = frame(f"{torch}/nn/modules/module.py", 1773, "_wrapped_call_impl")
    linear = frame(f"{torch}/nn/functional.py", 2905, "linear")
    forward = frame(f"{home}/train.py", 118, "main")
    weights = [frame(f"{home}/model.py", 31, "__init__"), frame(f"{home}/train.py", 96, "main"), main]
    state = [frame(f"{torch}/optim/adamw.py", 181, "_init_group"), frame(f"{torch}/optim/adamw.py", 228, "step"),
             frame(f"{home}/train.py", 121, "main"), main]
    block = [linear, call, frame(f"{home}/model.py", 58, "forward"), call, forward, main]
    attention = [frame(f"{torch}/nn/functional.py", 6121, "scaled_dot_product_attention"), frame(f"{home}/model.py", 74, "attention"), call,
                 frame(f"{home}/model.py", 57, "forward"), call, forward, main]
    head = [linear, call, forward, main]
    gradients = [frame(f"{torch}/autograd/graph.py", 829, "_engine_run_backward"), frame(f"{home}/train.py", 119, "main"), main]
    maker = Maker((2, 9))
    maker.pause = 11_000
    kept = [maker.place(size * MIB, frames) for size, frames in [(520, weights)] * 2 + [(520, state)] * 4]
    for step in range(6):
        activations = []
        for layer in range(6):
            activations += [maker.place(252 * MIB, block), maker.place((100 if layer else 100.64) * MIB, attention)]
        if step == 5:
            break
        activations.append(maker.place(2560 * MIB, head))
        made = [maker.place(520 * MIB, gradients) for _ in range(2)]
        for size, frames, place in reversed(activations + made):
            maker.act("free_requested", size, place, frames)
            maker.act("free_completed", size, place, frames)
    for size in (1040, 2560):
        maker.act("segment_free", size * MIB, 0x7F0000000000)
    gaps = [20, 0, 30, 0, 26.4, 0, 20]
    alive = kept + activations
    for at, (size, frames, place) in enumerate(alive):
        gap = int(gaps[at] * MIB) if at < len(gaps) else 0
        maker.segment([(size, "active_allocated", frames)] + [(gap, "inactive", [])] * (gap > 0), base=place, is_traced=False)
    maker.act("oom", 2560 * MIB, 372 * MIB, head)
    return maker.whole()


class Bait:
    """Runs a command where it is unpickled: a harmless one."""

    def __reduce__(self):
        import os
        return os.system, ("echo a pickle ran this",)


def small():
    made = {f"sick.{protocol}.pickle": pickle.dumps(sick(), protocol) for protocol in (2, 4, 5)}
    for version in ((2, 0), (2, 1), (2, 4), (2, 6), (2, 11)):
        made[f"torch_{version[0]}_{version[1]}.pickle"] = pickle.dumps(sick(version), 4)
    made["today.pickle"] = pickle.dumps(today(), 4)
    made["cut_ring.pickle"] = pickle.dumps(cut_ring(), 4)
    made["bare.pickle"] = pickle.dumps(sick()["segments"], 4)
    made["sick.json"] = json.dumps(sick()).encode()
    made["bare.json"] = json.dumps(sick()["segments"]).encode()
    made["bait.pickle"] = pickle.dumps({"segments": [Bait()]}, 4)
    made["checkpoint.pickle"] = pickle.dumps({"epoch": 3, "loss": [1.5, 1.25]}, 2)
    for name, content in made.items():
        (HERE / name).write_bytes(content)
    (HERE.parent.parent / "assets/demo.pickle").write_bytes(pickle.dumps(demo(), 4))


def big(entries, depth, protocol, file):
    random.seed(7)
    site = "/home/u/venv/lib/python3.11/site-packages/transformers/models/llama"
    frames = [frame(f"{site}/m{at % 60}.py", at, f"forward_{at}") for at in range(3000)]
    stack = lambda: [frames[random.randrange(3000)] for _ in range(depth)]
    base, now, live, trace = 0x7F0000000000, 1760000000000000, {}, []
    segments = [{"device": 0, "address": base + at * (20 * MIB), "total_size": 20 * MIB, "allocated_size": 0, "active_size": 0, "requested_size": 0,
                 "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": stack(), "blocks": []} for at in range(400)]
    for at in range(entries):
        now += random.randrange(3, 400)
        entry = {"stream": 0, "time_us": now, "compile_context": "N/A", "user_metadata": "", "pool_id": (0, 0)}
        if live and random.random() < 0.5:
            address = next(reversed(live)) if random.random() < 0.7 else next(iter(live))
            freed = {"addr": address, "size": live.pop(address)[0], **entry, "frames": stack()}
            trace += [{"action": "free_requested", **freed}, {"action": "free_completed", **freed}]
        else:
            address = base + at * 512
            live[address] = random.choice([512, 2048, MIB, 8 * MIB]), stack()
            trace.append({"action": "alloc", "addr": address, "size": live[address][0], **entry, "frames": live[address][1]})
    for at, (address, (size, frames_of)) in enumerate(live.items()):
        segments[at % 400]["blocks"].append({"address": address, "size": size, "requested_size": size - 7, "state": "active_allocated", "frames": frames_of})
    trace.append({"action": "oom", "device_free": 123 * MIB, "size": 2 * GIB, "stream": 0, "time_us": now, "frames": stack()})
    with open(file, "wb") as out:
        pickle.dump({"segments": segments, "device_traces": [trace] + [[] for _ in range(7)], "allocator_settings": {}, "external_annotations": []}, out, protocol)


def huge(copies, depth, file):
    """Repeats the actions of a small one, each time with other frames, without ever having the whole in memory."""
    big(20000, depth, 4, file)
    content = pathlib.Path(file).read_bytes()
    places, marks, ends = [], [], []
    for opcode, _, at in pickletools.genops(content):
        if opcode.name == "LONG_BINGET":
            places.append(at)
        elif opcode.name in ("MARK", "APPENDS"):
            (marks if opcode.name == "MARK" else ends).append(at)
    # The marks after this key are that of the list of devices and that of the first one's actions; the last list is that of the devices.
    begin = [at for at in marks if at > content.index(b"device_traces")][1]
    end = ends[-2] + 1
    varied = [at - begin for at in places[:: depth // 2] if begin < at < end]
    frames = [content[at + 1 : at + 5] for at in places[:1000]]
    with open(file, "wb") as out:
        out.write(content[:begin])
        for _ in range(copies):
            chunk = bytearray(content[begin:end])
            for at in varied:
                chunk[at + 1 : at + 5] = random.choice(frames)
            out.write(chunk)
        out.write(content[end:])


if __name__ == "__main__":
    if sys.argv[1:2] == ["big"]:
        big(int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    elif sys.argv[1:2] == ["huge"]:
        huge(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
    else:
        small()
