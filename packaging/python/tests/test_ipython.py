"""The hook in IPython and Jupyter, where those are installed."""

import importlib.util
import json
import os
import subprocess
import sys
import unittest

from support import CHILD_SECONDS, PACKAGE, TESTS, TestCase, read, write


def is_installed(*modules):
    return all(importlib.util.find_spec(module) is not None for module in modules)


# What is printed after a failed cell that allocated with a framework other than PyTorch, which is not imported in these tests.
VERDICT = (
    "\noomdoctor:\nthe verdict\n"
    "The traceback keeps the failed cell's tensors allocated. To free them, run 1/0 in one cell, then: import gc; gc.collect()\n"
)
OOM = "from support import *; raise Framework.torch_oom(TORCH_TEXT)"

# Imports IPython once, which takes most of a second, then runs each list of cells in a shell of its own, as a notebook does.
# stderr goes where stdout goes, to see the order.
SHELLS = """
import json, os, sys
from IPython.core.interactiveshell import InteractiveShell
for line in sys.stdin:
    task = json.loads(line)
    if os.fork() == 0:
        os.chdir(task["folder"])
        os.environ.update(task["environment"])
        os.dup2(os.open("output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
        sys.stderr = sys.stdout
        shell = InteractiveShell.instance(colors="NoColor", history_manager=None)
        for cell in task["cells"]:
            print("## " + cell.split("\\n")[0])
            shell.run_cell(cell, store_history=False)
        sys.stdout.flush()
        os._exit(0)
    print(os.wait()[1], flush=True)
"""


@unittest.skipUnless(is_installed("IPython"), "IPython is not installed")
class IPythonShell(TestCase):
    interpreter = [sys.executable]

    @classmethod
    def setUpClass(cls):
        paths = [PACKAGE, TESTS] if not os.environ.get("OOMDOCTOR_TEST_INSTALLED") else [TESTS]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(paths))
        cls.shells = subprocess.Popen(
            cls.interpreter + ["-c", SHELLS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            universal_newlines=True,
        )

    @classmethod
    def tearDownClass(cls):
        cls.shells.communicate()

    def run_cells(self, *cells):
        task = {"cells": cells, "folder": self.folder, "environment": self.environment()}
        self.shells.stdin.write(json.dumps(task) + "\n")
        self.shells.stdin.flush()
        status = self.shells.stdout.readline()
        self.assertEqual(status, "0\n")
        return read(self.path("output"))

    def test_a_script_that_ends_is_not_told_how_to_free_memory(self):
        write(self.path("job.py"), "import oomdoctor.hook\n" + OOM)
        result = self.run_command(self.interpreter + ["-m", "IPython", "--no-banner", self.path("job.py")])
        self.assertIn("the verdict", result.stdout + result.stderr)
        self.assertNotIn("gc.collect", result.stdout + result.stderr)

    def last_cell(self, *cells):
        return self.run_cells(*cells).rpartition("\n## ")[2]

    def test_the_verdict_follows_the_unchanged_traceback(self):
        plain = self.last_cell("pass", OOM)
        for load in ("import oomdoctor.hook", "%load_ext oomdoctor"):
            hooked = self.last_cell(load, OOM)
            self.assertEqual(hooked, plain + VERDICT)

    def test_loading_twice_or_in_both_ways_prints_once(self):
        cells = (
            "import oomdoctor.hook",
            "%load_ext oomdoctor",
            "%reload_ext oomdoctor",
            "import oomdoctor.hook as h; h.install()",
        )
        self.assertEqual(self.run_cells(*(cells + (OOM,))).count("the verdict"), 1)

    def test_other_errors_pass_unchanged(self):
        cells = [
            "1 / 0",
            "raise MemoryError",
            "x = = 1",
            "%nosuchmagic",
            "raise KeyboardInterrupt",
            "%tb",
            "print('fine')",
            "import sys; sys.exit(3)",
        ]
        plain = self.run_cells("pass", *cells).partition("\n## ")[2]
        hooked = self.run_cells("import oomdoctor.hook", *cells).partition("\n## ")[2]
        self.assertEqual(hooked, plain)
        self.assertFalse(self.has_run())

    def test_showing_the_traceback_again_does_not_repeat_the_verdict(self):
        output = self.run_cells("import oomdoctor.hook", OOM, "%tb")
        self.assertEqual(output.count("the verdict"), 1)
        self.assertEqual(output.count("Traceback (most recent call last)"), 2)

    def test_a_second_failure_has_its_own_verdict(self):
        self.assertEqual(self.run_cells("import oomdoctor.hook", OOM, OOM).count("the verdict"), 2)

    def test_a_script_that_a_cell_runs_has_a_verdict(self):
        write(self.path("train.py"), OOM)
        output = self.run_cells("import oomdoctor.hook", "%run train.py")
        self.assertEqual(output.count("the verdict"), 1)

    def test_a_custom_handler_still_handles_its_errors(self):
        custom = "def h(shell, kind, error, tb, tb_offset=None): print('custom traceback')\nget_ipython().set_custom_exc((RuntimeError,), h)"
        for cells in (("import oomdoctor.hook", custom), (custom, "import oomdoctor.hook")):
            self.assertIn("custom traceback\n" + VERDICT, self.last_cell(*(cells + (OOM,))))

    def test_unloading_puts_everything_back(self):
        check = "s = get_ipython(); print('showtraceback' in vars(s), len(s.events.callbacks['post_run_cell']), sys.excepthook is before)"
        cells = (
            "import sys; before = sys.excepthook",
            check,
            "%load_ext oomdoctor",
            check,
            "%unload_ext oomdoctor",
            check,
            OOM,
        )
        output = self.run_cells(*cells)
        self.assertEqual(output.count("the verdict"), 0)
        states = [line for line in output.split("\n") if line.endswith((" True", " False")) and not line.startswith("#")]
        self.assertEqual(states[0], states[2])
        self.assertNotEqual(states[0], states[1])

    def test_a_shell_changed_later_by_others_keeps_their_change(self):
        other = """
shell = get_ipython(); ours = shell.showtraceback
def show(*a, **k):
    print("other"); ours(*a, **k)
shell.showtraceback = show
"""
        output = self.run_cells(
            "import oomdoctor.hook", other, "%unload_ext oomdoctor", "import oomdoctor.hook as h; h.uninstall()", OOM
        )
        self.assertEqual((output.count("other\n"), output.count("the verdict")), (1, 0))
        output = self.run_cells("import oomdoctor.hook", other, OOM)
        self.assertEqual((output.count("other\n"), output.count("the verdict")), (1, 1))

    def test_the_failed_cell_is_freed_as_the_hint_says_and_not_before(self):
        write(self.path("kept.py"), KEPT)
        is_alive = "print('alive:', kept.tensor() is not None)"
        cells = ("import gc, kept", "kept.fail()", "gc.collect()", is_alive, "1 / 0", "gc.collect()", is_alive)
        for load in ("pass", "import oomdoctor.hook"):
            output = self.run_cells('import sys; sys.path.insert(0, "")', load, *cells)
            self.assertLess(output.index("alive: True"), output.index("alive: False"))

    def test_the_ipython_command_prints_it_for_code_and_for_files(self):
        write(self.path("train.py"), "import oomdoctor.hook\n" + OOM)
        for arguments in (["-c", "import oomdoctor.hook; " + OOM], [self.path("train.py")]):
            command = [sys.executable, "-m", "IPython", "--no-banner", "--colors=NoColor"] + arguments
            result = self.run_command(command)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("OutOfMemoryError", result.stdout + result.stderr)
            self.assertEqual(result.stderr.count("the verdict"), 1)

    @unittest.skipUnless(hasattr(os, "openpty"), "this system has no pseudo-terminals")
    def test_a_real_terminal_shows_it_below_the_traceback(self):
        lines = ["import oomdoctor.hook", OOM, "%tb", "exit"]
        terminal, child_end = os.openpty()
        command = [sys.executable, "-m", "IPython", "--no-banner", "--simple-prompt", "--colors=NoColor"]
        child = subprocess.Popen(
            command, stdin=child_end, stdout=child_end, stderr=child_end, env=self.environment(TERM="xterm"), cwd=self.folder
        )
        os.close(child_end)
        try:
            os.write(terminal, "".join(line + "\n" for line in lines).encode())
            output = read_to_end(terminal)
            self.assertEqual(child.wait(CHILD_SECONDS), 0)
        finally:
            child.kill()
            child.wait()
            os.close(terminal)
        self.assertEqual(output.count("the verdict"), 1)
        self.assertLess(output.index("Traceback (most recent"), output.index("the verdict"))
        self.assertLess(output.index("the verdict"), output.rindex("Traceback (most recent"))


KEPT = """
import weakref
from support import *
class Tensor: pass
tensor = None
def fail():
    global tensor
    activations = Tensor()
    tensor = weakref.ref(activations)
    raise Framework.torch_oom(TORCH_TEXT)
"""


def read_to_end(terminal):
    parts = []
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # what Linux reports once the child has closed its end
            part = b""
        if not part:
            return b"".join(parts).decode("utf-8", "replace")
        parts.append(part)


@unittest.skipUnless(is_installed("ipykernel", "jupyter_client"), "ipykernel and jupyter_client are not installed")
class JupyterKernel(TestCase):
    def test_a_notebook_shows_the_verdict_after_the_error(self):
        from jupyter_client.manager import start_new_kernel

        manager, client = start_new_kernel(
            kernel_name="python3", env=self.environment(), cwd=self.folder, startup_timeout=CHILD_SECONDS
        )
        try:
            self.assertEqual(self.execute(client, "%load_ext oomdoctor"), [])
            self.assertEqual(self.execute(client, OOM), ["OutOfMemoryError", VERDICT])
            self.assertEqual(self.execute(client, "1 / 0"), ["ZeroDivisionError"])
            self.assertEqual(self.execute(client, "%unload_ext oomdoctor"), [])
            self.assertEqual(self.execute(client, OOM), ["OutOfMemoryError"])
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)

    def execute(self, client, code):
        """Return what the notebook shows below the cell: error names and texts."""
        shown = []

        def note(message):
            content = message["content"]
            if message["msg_type"] == "error":
                shown.append(content["ename"])
            elif message["msg_type"] == "stream":
                shown.append(content["text"])

        client.execute_interactive(code, output_hook=note, timeout=CHILD_SECONDS)
        return shown


if __name__ == "__main__":
    unittest.main()
