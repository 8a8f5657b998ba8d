"""torch.cuda: calls that wait until CUDA is initialized."""

from . import memory  # noqa: F401

_initialized = False
_queued = []


def is_initialized():
    return _initialized


def init():
    global _initialized
    if not _initialized:
        _initialized = True
        for call in _queued:
            call()


def _lazy_call(call):
    if _initialized:
        call()
    else:
        _queued.append(call)
