"""Prints the verdict after IPython or Jupyter has shown a traceback."""

import sys

from . import hook

__all__ = ["install_in_shell"]


def install_in_shell(shell=None):
    """Hook `shell`, or else the shell of this process; return it, or None where there is none.

    The method `showtraceback` covers cells, `%run` and `ipython script.py`. The event `post_run_cell` covers errors that a handler
    of `set_custom_exc` shows in its own way. An error that both report has one verdict.
    """
    if shell is None:
        shell = _running_shell()
    if shell is None:
        return None
    link = hook.new_link("shell", shell, "showtraceback")
    if link is None:
        return shell

    def showtraceback(*arguments, **options):
        given = arguments[0] if arguments else options.get("exc_tuple")
        # Without a current error the shell shows an old one again (`%tb`), which has had its verdict.
        error = given[1] if given else sys.exc_info()[1]
        try:
            return link.previous(*arguments, **options)
        finally:
            if link.is_active:
                hook.print_verdict(error, in_shell=_lives_on(shell))

    link.put(showtraceback)
    hook.replace("cells", _CellListener(shell))
    return shell


class _CellListener:
    """Prints the verdict on the error of a cell, unless it has been printed."""

    def __init__(self, shell):
        self._shell = shell
        shell.events.register("post_run_cell", self.after_cell)

    def after_cell(self, result=None):
        hook.print_verdict(getattr(result, "error_in_exec", None), in_shell=_lives_on(self._shell))

    def remove(self):
        try:
            self._shell.events.unregister("post_run_cell", self.after_cell)
        except ValueError:
            pass


def _lives_on(shell):
    """Return whether the process goes on after the error: `ipython script.py` ends (TerminalIPythonApp.interact, IPython 9.18)."""
    return bool(getattr(getattr(shell, "parent", None), "interact", True))


def _running_shell():
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    try:
        return get_ipython() if get_ipython is not None else None
    except Exception:  # IPython is half imported. `import oomdoctor.hook` must not fail for that.
        return None
