"""Records PyTorch's memory history, and writes a snapshot when CUDA memory runs out.

The calls used here and their older forms were read in torch 1.13.1, 2.0.1, 2.1.2, 2.4.1 and 2.15.0 (checked 2026-11-22).
"""

import os
import sys

from . import hook

__all__ = ["start", "start_when_imported", "stop", "write_at_failure"]


# In one folder. A job that is started again and again has a new PID each time.
MOST_SNAPSHOTS = 16


# The file in which the paths of snapshots are noted, one a line, or None.
noted_in = None


class _Recording:
    """One call of `start`: what was asked for and what was written."""

    def __init__(self, max_entries, folder, snapshots):
        self.max_entries = max_entries
        self.folder = folder
        self.snapshots = snapshots
        # The process that wrote the snapshots so far: a forked child starts anew.
        self.pid = os.getpid()
        self.written = 0
        # True once PyTorch records, which is when CUDA is initialized.
        self.has_started = False
        # True between a snapshot by the observer and the traceback of the same failure.
        self.is_observed = False
        # True if the newest failure has a snapshot: the log of a later one does not belong beside it.
        self.wants_log = False


_recording = None
_has_observer = False


def start_when_imported():
    """Start recording as soon as the program has imported PyTorch: sorted imports put ``oomdoctor.hook`` before ``torch``."""
    if "torch" in sys.modules:
        _start_as_asked()
    else:
        hook.replace("torch", hook.ImportWatcher("torch", _start_as_asked))


def _start_as_asked(torch=None):
    try:
        hook.record_memory()
    except Exception as error:
        _say("memory history is not recorded: {}".format(error))


def start(max_entries, folder, snapshots):
    """Ask PyTorch to record, now or as soon as the program initializes CUDA."""
    global _recording

    try:
        import torch
    except ImportError as error:
        raise ImportError("record_memory needs PyTorch, and importing it failed: {}".format(error)) from error

    if max_entries < 1 or snapshots < 1:
        raise ValueError("max_entries and snapshots must be at least 1")
    folder = os.path.abspath(folder if folder is not None else os.curdir)
    os.makedirs(folder, exist_ok=True)
    recording = _Recording(max_entries, folder, snapshots)
    _recording = recording

    def begin():
        if _recording is not recording:
            return
        try:
            _begin(torch, recording)
        except Exception as error:
            # The async allocator records nothing, and PyTorch turns an exception here into one of its own.
            _say("memory history is not recorded: {}".format(error))

    # Attaching the observer initializes CUDA, which would break programs that fork first, so it waits for the program to do it.
    torch.cuda._lazy_call(begin)


def stop():
    """Stop recording. The observer stays attached, since PyTorch cannot remove one, but does nothing any more."""
    global _recording

    recording, _recording = _recording, None
    if recording is not None and recording.has_started:
        try:
            sys.modules["torch"].cuda.memory._record_memory_history(None)
        except Exception:
            pass


def write_at_failure(log):
    """Write the text of an uncaught out-of-memory error, and a snapshot if PyTorch's observer has written none for it."""
    recording = _recording
    if recording is None or not recording.has_started:
        return
    if not recording.is_observed:
        recording.wants_log = _write_snapshot(recording)
    recording.is_observed = False
    if recording.wants_log:
        recording.wants_log = False
        _write(recording, "log", lambda file: file.write(log.encode("utf-8", "backslashreplace")))


def _begin(torch, recording):
    global _has_observer

    record = torch.cuda.memory._record_memory_history
    try:
        # Python stacks only: resolving C++ frames makes a snapshot take minutes.
        record("all", stacks="python", max_entries=recording.max_entries)
    except TypeError:
        try:
            # torch 2.0
            record(True, trace_alloc_max_entries=recording.max_entries, trace_alloc_record_context=True)
        except TypeError:
            # torch 1.13 keeps no history, but knows who allocated what is alive.
            record(True)
    recording.has_started = True
    attach = getattr(torch._C, "_cuda_attach_out_of_memory_observer", None)
    if attach is not None and not _has_observer:
        attach(_observe)
        _has_observer = True


def _observe(device, requested, allocated, free):
    """Called by PyTorch before it raises the error, when the tensors of the failed step are still alive. Must not raise."""
    try:
        recording = _recording
        if recording is not None and recording.has_started:
            recording.wants_log = _write_snapshot(recording)
            recording.is_observed = True
    except Exception:
        pass


def _write_snapshot(recording):
    """Write a snapshot if the limits allow one more; return whether it was written."""
    if recording.pid != os.getpid():
        recording.pid = os.getpid()
        recording.written = 0
    if recording.written >= recording.snapshots or _has_many_snapshots(recording.folder):
        return False
    recording.written += 1

    def dump(file):
        import pickle

        # Protocol 4, since PyTorch's viewer shows nothing for protocol 5, the default of Python 3.14.
        pickle.dump(sys.modules["torch"].cuda.memory._snapshot(), file, protocol=4)

    path = _write(recording, "pickle", dump)
    if path is not None:
        _say("memory snapshot: {}".format(path))
        _note(path)
    return path is not None


def _has_many_snapshots(folder):
    try:
        names = os.listdir(folder)
    except OSError:
        return False
    return sum(name.startswith("oom_") and name.endswith(".pickle") for name in names) >= MOST_SNAPSHOTS


def _write(recording, extension, dump):
    """Write a file that only its owner can read, whole or not at all; return its path, or None."""
    path = os.path.join(recording.folder, _file_name(recording, extension))
    unfinished = path + ".part"
    try:
        # A file of an earlier run with the same PID, as containers have it, is replaced: a crash loop must not fill the disk.
        if os.path.lexists(unfinished):
            os.unlink(unfinished)
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                dump(file)
            os.replace(unfinished, path)
        except BaseException:
            os.unlink(unfinished)
            raise
        return path
    except Exception as error:
        _say("cannot write {}: {}".format(path, getattr(error, "strerror", None) or error))
        return None


def _file_name(recording, extension):
    from ._verdict import rank

    own_rank = rank()
    of_rank = "" if own_rank is None else "rank{}_".format(own_rank)
    # The first snapshot has no number; a program that asked for more gets oom_pid4242_2.pickle and so on.
    number = "" if recording.written < 2 else "_{}".format(recording.written)
    return "oom_{}pid{}{}.{}".format(of_rank, os.getpid(), number, extension)


def _note(path):
    if noted_in is None:
        return
    try:
        with open(noted_in, "a", errors="surrogateescape") as file:
            file.write(path + "\n")
    except OSError:
        pass


def _say(text):
    try:
        sys.stderr.write("oomdoctor: {}\n".format(text))
        sys.stderr.flush()
    except Exception:
        pass
