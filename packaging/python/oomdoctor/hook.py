"""Prints oomdoctor's verdict below the traceback of an out-of-memory error.

Importing this module installs the hook in ``sys.excepthook``, in ``threading.excepthook`` and, inside IPython or Jupyter, in the
shell. The hook that was there before runs first and prints its traceback as always. Errors other than out-of-memory errors of
PyTorch, JAX, TensorFlow and CuPy pass through unchanged.

Importing must cost under 1 ms. This module is therefore small and imports only what the interpreter has loaded already; what a
failure or a shell needs is imported there.
"""

import atexit
import os
import sys

__all__ = ["install", "uninstall", "record_memory"]

# What is installed now, by name. Everything in it has a `remove` method. A reload keeps it.
_installed = globals().get("_installed", {})

# False where only PyTorch's memory is recorded: under `oomdoctor run --torch-snapshot`, which gives the verdict itself.
prints_verdict = True

# The main script. Python forgets it before it calls what is registered for its exit.
_main_file = getattr(sys.modules.get("__main__"), "__file__", None)


def install(shell=None):
    """Install the hook; installing it twice changes nothing.

    `shell` is the IPython shell to hook as well; without it, the running one is used where there is one.
    """
    _install_excepthook()
    threading = sys.modules.get("threading")
    if threading is not None:
        _install_threading_hook(threading)
    elif "threading" not in _installed:
        # Importing threading takes milliseconds, so wait until the program does it.
        _installed["threading"] = ImportWatcher("threading", _install_threading_hook)
    if shell is not None or _has_shell():
        from ._shell import install_in_shell

        shell = install_in_shell(shell)
    if shell is None and getattr(sys, "last_value", None) is None:
        # A library that replaced sys.excepthook without calling ours hides the failure from it. Python keeps the uncaught
        # exception in sys.last_value, so the verdict can still be printed at exit.
        atexit.unregister(_at_exit)
        atexit.register(_at_exit)


def uninstall():
    """Put back every hook that `install` replaced, and stop recording memory history."""
    atexit.unregister(_at_exit)
    while _installed:
        _installed.popitem()[1].remove()
    recording = sys.modules.get(__package__ + "._recording")
    if recording is not None:
        recording.stop()


def record_memory(max_entries=100_000, folder=None, snapshots=1):
    """Record PyTorch's memory history, and write a snapshot when CUDA memory runs out.

    The history keeps the last `max_entries` events with their Python stacks. At an out-of-memory error, `oom_pidPID.pickle` (with
    several ranks, `oom_rankRANK_pidPID.pickle`) is written to `folder`, by default the current directory, and the traceback of an
    uncaught error beside it as `.log`. Both are readable by you alone. One process writes at most `snapshots` snapshots, so that a
    program which catches the error and retries does not fill the disk.

    Recording starts when the program initializes CUDA. Raises ImportError where PyTorch is not installed, and OSError where the folder
    cannot be made. No snapshot is written beside 16 others, so that a job which is started again and again does not fill the disk.
    """
    from . import _recording

    _recording.start(max_entries=max_entries, folder=folder, snapshots=snapshots)


class Link:
    """A hook of ours in place of `owner.name`.

    A hook that somebody else installed later may keep calling this one. `remove` therefore only switches it off where it cannot
    take it out: it then passes everything to the hook before it and does nothing else.
    """

    def __init__(self, owner, name):
        self.owner = owner
        self.name = name
        self.was_set_on_owner = name in vars(owner)
        self.previous = getattr(owner, name)
        self.hook = None
        self.is_active = False

    def put(self, hook):
        self.hook = hook
        self.is_active = True
        setattr(self.owner, self.name, hook)

    def is_in_place(self, owner):
        return self.owner is owner and vars(owner).get(self.name) is self.hook

    def remove(self):
        self.is_active = False
        if self.is_in_place(self.owner):
            if self.was_set_on_owner:
                setattr(self.owner, self.name, self.previous)
            else:
                delattr(self.owner, self.name)


def new_link(key, owner, name):
    """Return a link for the hook `owner.name`, or None if ours is in place.

    Where another hook took its place, which may not call ours, a new link goes in front and the old one only passes on.
    """
    installed = _installed.get(key)
    # Not by its class: a reload makes a new one.
    if hasattr(installed, "is_in_place"):
        if installed.is_in_place(owner):
            return None
        installed.remove()
    link = _installed[key] = Link(owner, name)
    return link


def replace(key, installed):
    """Remember what is installed under `key`, and remove what was installed under it before."""
    if key in _installed:
        _installed[key].remove()
    _installed[key] = installed


def print_verdict(error, in_shell=False):
    """Print the verdict on `error` if it is an out-of-memory error. Never raises: the traceback and the exit code are not ours."""
    if error is None:
        return
    try:
        from . import _verdict

        _verdict.print_verdict(error, in_shell)
    except BaseException:  # Also Ctrl-C during the verdict, and what an interpreter that shuts down may raise.
        pass


def _install_excepthook():
    link = new_link("excepthook", sys, "excepthook")
    if link is None:
        return

    def excepthook(kind, error, trace):
        try:
            link.previous(kind, error, trace)
        finally:
            # A hook that captures what ours prints, as that of torch.distributed does to prefix it with the rank, holds the
            # traceback back until we return. torchrun may end this process before that, so such a verdict waits for the exit.
            is_captured = sys.excepthook is not excepthook and getattr(sys, "stderr", None) is not sys.__stderr__
            comes_at_exit = is_captured and getattr(sys, "last_value", None) is error
            if link.is_active and not comes_at_exit:
                print_verdict(error)

    link.put(excepthook)


def _install_threading_hook(threading):
    link = new_link("threading", threading, "excepthook")
    if link is None:
        return

    def excepthook(arguments):
        error = arguments.exc_value
        try:
            link.previous(arguments)
        finally:
            if link.is_active:
                print_verdict(error)

    link.put(excepthook)


def _has_shell():
    """Return whether this process runs in IPython or Jupyter."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    try:
        return get_ipython is not None and get_ipython() is not None
    except Exception:  # IPython is half imported. `import oomdoctor.hook` must not fail for that.
        return False


def _at_exit():
    error = getattr(sys, "last_value", None)
    if error is not None and _ended_the_program(error):
        print_verdict(error)


def _ended_the_program(error):
    """Return whether `error` left the program's main script: test runners and consoles set sys.last_value for errors of others."""
    if hasattr(sys, "ps1") or sys.flags.interactive:
        return False
    trace = error.__traceback__
    if trace is None:
        return False
    code = trace.tb_frame.f_code
    # `python -m` begins in runpy, and a program on stdin or in -c has no file.
    started_by_runpy = os.path.basename(code.co_filename) in ("<frozen runpy>", "runpy.py")
    main_file = _main_file or ("<string>" if sys.argv[:1] == ["-c"] else "<stdin>")
    return started_by_runpy or (code.co_name == "<module>" and code.co_filename == main_file)


class ImportWatcher:
    """Calls `action` with the module `name` right after the program has imported it, then is gone."""

    def __init__(self, name, action):
        self.name = name
        self.action = action
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        for finder in list(sys.meta_path):
            if finder is self:
                continue
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path, target) if find_spec is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _WatchedLoader(spec.loader, self)
                return spec
        return None

    def remove(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class _WatchedLoader:
    """Loads a module as its own loader does, then calls the watcher's action with it.

    The watcher stays until the module is loaded: some programs only look whether there is one, and a first import may fail.
    """

    def __init__(self, loader, watcher):
        self._loader = loader
        self._watcher = watcher

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        if self._watcher not in sys.meta_path:
            return
        self._watcher.remove()
        try:
            self._watcher.action(module)
        except Exception:
            pass


install()
if os.environ.get("OOMDOCTOR_MEMORY_HISTORY", "").lower() in ("1", "true", "yes", "on"):
    from ._recording import start_when_imported

    start_when_imported()
