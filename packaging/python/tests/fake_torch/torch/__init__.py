"""Stands in for PyTorch in the tests of the memory recording; FAKE_TORCH names the release whose calls it has.

The signatures are those of torch 2.15.0, of 2.1.2, which are the same for our calls, of 2.0.1 and of 1.13.1
(checked 2026-11-22). No observer exists in "2.15 without observer".
"""

import os
import types

RELEASE = os.environ.get("FAKE_TORCH", "2.15")

# What was asked of it, in order.
CALLS = []
OBSERVERS = []


class OutOfMemoryError(RuntimeError):
    __module__ = "torch"


_C = types.SimpleNamespace()
if RELEASE != "2.15 without observer":

    def _attach(observer):
        CALLS.append("observer attached")
        OBSERVERS.append(observer)

    _C._cuda_attach_out_of_memory_observer = _attach

from . import cuda  # noqa: E402


def allocate(message="CUDA out of memory. Tried to allocate 20.00 GiB."):
    """Fail as an allocation on the GPU does: the observers run, then the error is raised."""
    cuda.init()
    for observer in OBSERVERS:
        observer(0, 20 << 30, 8 << 30, 1 << 30)
    raise OutOfMemoryError(message)
