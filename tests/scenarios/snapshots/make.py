"""Makes the memory snapshots of the scenarios, as small JSON of the shape that PyTorch dumps: `python3 make.py`."""

import json

MIB = 1 << 20


def frame(path, line, name):
    return {"filename": path, "line": line, "name": name}


WEIGHTS = [frame("/srv/train/model.py", 10, "__init__"), frame("/srv/train/train.py", 5, "main")]
FORWARD = [
    frame("/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py", 2450, "linear"),
    frame("/srv/train/model.py", 41, "attention"),
    frame("/srv/train/train.py", 88, "main"),
]
OPTIMIZER = [
    frame("/opt/venv/lib/python3.11/site-packages/torch/optim/adamw.py", 181, "_init_group"),
    frame("/opt/venv/lib/python3.11/site-packages/torch/optim/adamw.py", 228, "step"),
    frame("/srv/train/train.py", 95, "main"),
]
METRICS = [frame("/srv/train/metrics.py", 61, "update"), frame("/srv/train/train.py", 99, "main")]
LOSS = [
    frame("/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py", 3494, "cross_entropy"),
    frame("/srv/train/train.py", 91, "main"),
]


class Snapshot:
    def __init__(self, expandable=False):
        self.segments, self.trace, self.annotations = [], [], []
        self.settings = {"expandable_segments": expandable, "PYTORCH_CUDA_ALLOC_CONF": ""}
        self.next = 0x7F0000000000

    def segment(self, blocks, pool=(0, 0), stream=0, rounding=0, device=0):
        """A segment of blocks (MiB, state, frames)."""
        address, made = self.next, []
        for mib, state, frames in blocks:
            size = mib * MIB
            requested = 0 if state == "inactive" else size - rounding * MIB
            made.append({"address": self.next, "size": size, "requested_size": requested, "state": state, "frames": frames})
            self.next += size
        total = self.next - address
        self.next += 1 << 30
        self.segments.append({
            "device": device, "address": address, "total_size": total, "stream": stream, "segment_type": "large",
            "segment_pool_id": pool, "is_expandable": self.settings["expandable_segments"], "blocks": made,
        })
        return address

    def did(self, action, address, mib, frames=()):
        entry = {"action": action, "size": mib * MIB, "stream": 0, "time_us": 1795176000000000 + len(self.trace)}
        entry["device_free" if action == "oom" else "addr"] = address
        self.trace.append(entry | ({"frames": frames} if frames else {}))

    def oom(self, mib, free, frames):
        self.did("oom", free * MIB, mib, frames)

    def step(self, number):
        time = 1795176000000000 + len(self.trace)
        self.annotations.append({"name": f"ProfilerStep#{number}", "stage": "START", "device": 0, "time_us": time})

    def write(self, name):
        whole = {
            "segments": self.segments, "device_traces": [self.trace], "allocator_settings": self.settings,
            "external_annotations": self.annotations,
        }
        with open(f"{name}.json", "w", encoding="utf-8") as file:
            json.dump(whole, file, separators=(",", ":"))
            file.write("\n")


def pieces(expandable):
    made = Snapshot(expandable)
    made.segment([(9216, "active_allocated", WEIGHTS)])
    for _ in range(4):
        made.segment([(512, "active_allocated", FORWARD), (1536, "inactive", [])])
    made.oom(2048, 700, FORWARD)
    return made


pieces(False).write("pieces")
pieces(True).write("pieces_expandable")

both = pieces(False)
both.segment([(5120, "inactive", [])], pool=(0, 3))
both.write("pieces_and_pool")

locked = Snapshot()
locked.segment([(16384, "active_allocated", WEIGHTS)])
locked.segment([(4096, "inactive", [])], pool=(0, 3))
locked.oom(2048, 300, FORWARD)
locked.write("graph_pool")

pending = Snapshot()
pending.segment([(16384, "active_allocated", WEIGHTS)])
pending.segment([(3072, "active_pending_free", FORWARD)], stream=7)
pending.oom(1024, 500, FORWARD)
pending.write("pending_free")

leak = Snapshot()
kept = []
for step in range(400, 412):
    leak.step(step)
    leak.did("alloc", 1, 4096, FORWARD)
    kept.append((512, "active_allocated", METRICS))
    leak.did("alloc", 0x7F0000000000 + (step - 400) * 512 * MIB, 512, METRICS)
    leak.did("free_completed", 1, 4096)
leak.segment(kept)
leak.segment([(12288, "active_allocated", WEIGHTS)])
leak.oom(4096, 900, FORWARD)
leak.write("leak")

optimizer = Snapshot()
optimizer.segment([(20480, "active_allocated", WEIGHTS)])
optimizer.segment([(1024, "active_allocated", OPTIMIZER)])
optimizer.oom(1024, 200, OPTIMIZER)
optimizer.write("optimizer")

logits = Snapshot()
logits.segment([(14336, "active_allocated", WEIGHTS)])
logits.oom(9216, 8192, LOSS)
logits.write("logits")

rounding = Snapshot()
rounding.segment([(22 * 64, "active_allocated", WEIGHTS)] * 16, rounding=200)
rounding.oom(512, 100, FORWARD)
rounding.write("rounding")

large = Snapshot()
large.segment([(12288, "active_allocated", WEIGHTS)])
large.oom(8192, 6144, FORWARD)
large.write("large_request")

for rank, activations in enumerate([2048, 9216, 1024]):
    uneven = Snapshot()
    uneven.segment([(12288, "active_allocated", WEIGHTS), (activations, "active_allocated", FORWARD)])
    if rank == 1:
        uneven.oom(1024, 200, FORWARD)
    uneven.write(f"uneven_rank{rank}")

for rank in range(3):
    stray = Snapshot()
    stray.segment([(12288, "active_allocated", WEIGHTS)], device=rank)
    if rank == 0:
        stray.oom(1024, 200, FORWARD)
    else:
        stray.segment([(4096, "active_allocated", WEIGHTS)])
    stray.write(f"stray_rank{rank}")

healthy = Snapshot()
healthy.segment([(4096, "active_allocated", WEIGHTS), (1024, "inactive", [])])
healthy.did("alloc", 0x7F0000000000, 4096, WEIGHTS)
healthy.write("healthy")
