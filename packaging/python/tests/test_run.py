"""`oomdoctor run --torch-snapshot` with the real program and a stand-in for PyTorch: no line of the script knows of it."""

import os
import sys
import unittest

from support import PACKAGE, TESTS, TestCase, read, write
from test_end_to_end import real_program

FAIL = "import os, sys, torch\nprint(os.getpid(), 'sitecustomize' in sys.modules, torch.CALLS)\ntorch.allocate()\n"
WATCH = "import json, sys\nprint(json.dumps([sys.path, sorted(vars(sys.modules.get('sitecustomize', object)))]))\n"


@unittest.skipUnless(sys.platform == "linux", "commands are run on Linux only")
class TorchSnapshot(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.real_program = real_program()
        if cls.real_program is None:
            raise unittest.SkipTest("no program: build it with cargo build")

    def run_script(self, script, *options, **environment):
        environment.setdefault("PYTHONPATH", os.path.join(TESTS, "fake_torch"))
        environment.setdefault("XDG_STATE_HOME", self.path("state"))
        environment.setdefault("TMPDIR", self.folder)
        write(self.path("script.py"), script)
        program = [self.real_program, "--nvml-library", "/nonexistent/driver", "run", "--record", self.path("record")]
        # With site, which loads sitecustomize.
        return self.run_command(program + list(options) + ["--", sys.executable, "script.py"], **environment)

    def written(self):
        return sorted(name for name in os.listdir(self.folder) if name.startswith("oom_"))

    def test_a_failure_leaves_a_snapshot_that_the_record_names(self):
        for release in ("2.15", "2.15 without observer"):
            result = self.run_script(FAIL, "--torch-snapshot", FAKE_TORCH=release)
            stem = "oom_pid" + result.stdout.split()[0]
            self.assertEqual(self.written(), [stem + ".log", stem + ".pickle"], result.stderr)
            self.assertIn(stem + ".pickle", read(self.path("record")))
            self.assertNotIn("the verdict", result.stderr)
            self.assertEqual(result.returncode, 1)
            for name in self.written() + ["record"]:
                os.unlink(self.path(name))
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("oomdoctor-run-")], [])

    def test_nothing_is_recorded_without_the_option(self):
        result = self.run_script(FAIL)
        self.assertIn("[]", result.stdout)
        self.assertEqual(self.written(), [])

    def test_the_next_sitecustomize_runs_and_the_path_is_as_without(self):
        folder = self.path("site")
        os.mkdir(folder)
        write(os.path.join(folder, "sitecustomize.py"), "import sys\nmarker = 7\nprint('customized')\n")
        for paths in (folder, self.folder, None):
            plain, recorded = (self.run_script(WATCH, *options, PYTHONPATH=paths) for options in ((), ("--torch-snapshot",)))
            self.assertEqual((plain.stdout, plain.stderr), (recorded.stdout, recorded.stderr))
        self.assertIn("customized", self.run_script(WATCH, "--torch-snapshot", PYTHONPATH=folder).stdout)
        write(os.path.join(folder, "sitecustomize.py"), "raise ValueError('broken')\n")
        plain, recorded = (self.run_script(WATCH, *options, PYTHONPATH=folder) for options in ((), ("--torch-snapshot",)))
        self.assertEqual((plain.stdout, plain.stderr), (recorded.stdout, recorded.stderr))

    def test_a_script_may_use_the_installed_hook_as_well(self):
        paths = os.pathsep.join([PACKAGE, os.path.join(TESTS, "fake_torch")])
        script = "import oomdoctor.hook\n" + FAIL
        result = self.run_script(script, "--torch-snapshot", PYTHONPATH=paths)
        self.assertEqual(result.stderr.count("the verdict"), 1, result.stderr)
        self.assertEqual(len([name for name in self.written() if name.endswith(".pickle")]), 1)


if __name__ == "__main__":
    unittest.main()
