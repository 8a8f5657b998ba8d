"""The hook with the real program: OOMDOCTOR_PROGRAM, the installed one, or the newest one that cargo built here."""

import os
import subprocess
import sys
import unittest

from support import REPOSITORY, TestCase

SCRIPT = """
import oomdoctor.hook
from support import Framework, TORCH_TEXT
def forward():
    raise {}
forward()
"""


def real_program():
    """Return a program that knows the options which the hook uses, or None."""
    from oomdoctor._program import find_program

    built = [os.path.join(REPOSITORY, "target", profile, "oomdoctor") for profile in ("release", "debug")]
    built = sorted(filter(os.path.isfile, built), key=os.path.getmtime, reverse=True)
    is_chosen = os.environ.get("OOMDOCTOR_PROGRAM") or os.environ.get("OOMDOCTOR_TEST_INSTALLED")
    program = find_program() if is_chosen or not built else built[0]
    if program is None:
        return None
    usage = subprocess.run([program, "diagnose", "--help"], stdout=subprocess.PIPE, universal_newlines=True).stdout
    return program if "--brief" in usage and "--run-pid" in usage else None


class RealProgram(TestCase):
    @classmethod
    def setUpClass(cls):
        cls.real_program = real_program()
        if cls.real_program is None:
            raise unittest.SkipTest("no program with diagnose --brief and --run-pid: build it with cargo build")

    def setUp(self):
        super().setUp()
        state = self.path("state")
        self.own_folders = {
            "XDG_STATE_HOME": state,
            "XDG_CONFIG_HOME": state,
            "HOME": state,
            "OOMDOCTOR_PROGRAM": self.real_program,
        }

    def failing(self, error):
        return self.run_python(SCRIPT.format(error), **self.own_folders)

    def test_each_framework_has_a_verdict(self):
        for error in (
            "Framework.torch_oom(TORCH_TEXT)",
            "Framework.torch_cuda_oom(TORCH_TEXT)",
            "RuntimeError('CUDA error: out of memory')",
            "RuntimeError(\"[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
            'allocate 400000000000 bytes. Error code 12 (Cannot allocate memory)")',
            "Framework.jax('RESOURCE_EXHAUSTED: Out of memory while trying to allocate 21474836480 bytes.')",
            "Framework.tensorflow_exhausted('OOM when allocating tensor with shape[1024,1024,1024] and type float on "
            "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Fill]')",
            "Framework.cupy_oom('Out of memory allocating 8,000,000,000 bytes (allocated so far: 1,000,000,000 bytes).')",
        ):
            with self.subTest(error):
                result = self.failing(error)
                self.assertEqual(result.returncode, 1)
                traceback, header, verdict = result.stderr.partition("\n\noomdoctor:\n")
                self.assertTrue(header, result.stderr)
                self.assertIn("in forward", traceback)
                self.assertTrue(verdict.strip())
                self.assertNotIn("\033", verdict)

    def test_the_verdict_has_the_figures_of_the_log(self):
        self.assertIn("2.5 GiB", self.failing("Framework.torch_oom(TORCH_TEXT)").stderr.partition("\n\noomdoctor:\n")[2])

    def test_the_installed_command_and_the_module_are_the_same_program(self):
        version = subprocess.run([self.real_program, "--version"], stdout=subprocess.PIPE, universal_newlines=True).stdout
        result = self.run_command([sys.executable, "-m", "oomdoctor", "--version"], **self.own_folders)
        self.assertEqual(result.stdout, version)
        self.assertTrue(version.startswith("oomdoctor "))


if __name__ == "__main__":
    unittest.main()
