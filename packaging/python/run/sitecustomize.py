"""First on PYTHONPATH for ``oomdoctor run --torch-snapshot``: runs the sitecustomize that Python would have run, then asks
PyTorch to record its memory.

Every interpreter that the command starts loads this. Nothing here may make one fail, and none of it stays on sys.path.
"""

import os
import sys


def _record(folder):
    sys.path.insert(0, folder)
    try:
        from _oomdoctor_run import _recording, hook
    finally:
        sys.path.remove(folder)
    # The program that runs the command gives the verdict.
    hook.prints_verdict = False
    _recording.noted_in = os.path.join(folder, "written")
    _recording.start_when_imported()


_folder = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _folder]
sys.modules.pop("sitecustomize", None)
try:
    # Where there is none, its ImportError goes to Python, as it would without this one.
    import sitecustomize  # noqa: F401
finally:
    try:
        _record(_folder)
    except Exception:
        pass
