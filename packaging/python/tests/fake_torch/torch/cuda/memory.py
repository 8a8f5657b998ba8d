"""torch.cuda.memory, with the signatures of several releases."""

import sys

from .. import CALLS, RELEASE

if RELEASE == "2.0":

    def _record_memory_history(
        enabled,
        record_context=True,
        trace_alloc_max_entries=1,
        trace_alloc_record_context=False,
        device=None,
        _enable_expensive_cpp=False,
    ):
        CALLS.append(("history", enabled, None, trace_alloc_max_entries))

elif RELEASE == "1.13":

    def _record_memory_history(enabled, device=None):
        CALLS.append(("history", enabled, None, None))

elif RELEASE == "async allocator":

    def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=sys.maxsize):
        raise RuntimeError("cudaMallocAsync does not yet support recordHistory.")

else:

    def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=sys.maxsize, device=None):
        CALLS.append(("history", enabled, stacks, max_entries))


def _snapshot(device=None):
    CALLS.append("snapshot")
    return {"segments": [], "device_traces": [[{"action": "oom", "size": 20 << 30}]]}
