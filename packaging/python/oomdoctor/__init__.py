"""oomdoctor: the verdict on a GPU job that ran out of memory.

Importing this package changes nothing. The program is on PATH as ``oomdoctor`` and also runs as ``python -m oomdoctor``.
``import oomdoctor.hook`` or ``%load_ext oomdoctor`` prints its verdict under every out-of-memory traceback.
"""

__all__ = ["load_ipython_extension", "unload_ipython_extension"]


def load_ipython_extension(shell):
    """Print the verdict below out-of-memory tracebacks of this shell: what ``%load_ext oomdoctor`` calls."""
    from . import hook

    hook.install(shell)


def unload_ipython_extension(shell):
    """Remove the hook again: what ``%unload_ext oomdoctor`` calls."""
    from . import hook

    hook.uninstall()


def __getattr__(name):
    # The version is looked up when it is asked for: importlib.metadata takes longer to import than everything else here.
    if name == "__version__":
        from importlib import metadata

        return metadata.version("oomdoctor")
    raise AttributeError("module {!r} has no attribute {!r}".format(__name__, name))
