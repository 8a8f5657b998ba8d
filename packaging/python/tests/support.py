"""What the tests share: made-up errors of the exact classes and texts, fake programs, and child interpreters."""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

TESTS = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(TESTS)
REPOSITORY = os.path.dirname(os.path.dirname(PACKAGE))

# build.sh sets this to test the installed package instead of the source.
if not os.environ.get("OOMDOCTOR_TEST_INSTALLED"):
    sys.path.insert(0, PACKAGE)

# A child that takes longer is stuck; nothing here waits for time to pass.
CHILD_SECONDS = 60


def error_class(path, *bases):
    """Return a class whose module and name are those of the dotted `path`, as far as `type(error)` tells."""
    module, _, name = path.rpartition(".")
    return type(name, bases or (Exception,), {"__module__": module, "__qualname__": name})


class Framework:
    """The error classes of the frameworks, read or raised in the releases that `oomdoctor._verdict` names."""

    torch_oom = error_class("torch.OutOfMemoryError", RuntimeError)
    torch_cuda_oom = error_class("torch.cuda.OutOfMemoryError", RuntimeError)
    torch_accelerator = error_class("torch.AcceleratorError", RuntimeError)
    torch_spawn = error_class("torch.multiprocessing.spawn.ProcessRaisedException", Exception)
    torch_nccl = error_class("torch.distributed.DistBackendError", RuntimeError)
    jax = error_class("jax.errors.JaxRuntimeError", RuntimeError)
    jaxlib = error_class("jaxlib.xla_extension.XlaRuntimeError", RuntimeError)
    tensorflow = error_class("tensorflow.python.framework.errors_impl.OpError", Exception)
    tensorflow_exhausted = error_class("tensorflow.python.framework.errors_impl.ResourceExhaustedError", tensorflow)
    tensorflow_internal = error_class("tensorflow.python.framework.errors_impl.InternalError", tensorflow)
    cupy_oom = error_class("cupy.cuda.memory.OutOfMemoryError", MemoryError)
    cupy_runtime = error_class("cupy_backends.cuda.api.runtime.CUDARuntimeError", RuntimeError)
    cupy_driver = error_class("cupy_backends.cuda.api.driver.CUDADriverError", RuntimeError)
    cupy_cublas = error_class("cupy_backends.cuda.libs.cublas.CUBLASError", RuntimeError)


TORCH_TEXT = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.06 GiB is free. "
    "Process 4242 has 14.00 GiB memory in use. Including non-PyTorch memory, this process has 8.58 GiB memory in use. "
    "Of the allocated memory 8.05 GiB is allocated by PyTorch, and 41.88 MiB is reserved by PyTorch but unallocated."
)


class TestCase(unittest.TestCase):
    """A test with a folder of its own and a fake program in it."""

    maxDiff = None

    # Without site, a child starts several times faster. An installed package needs it.
    interpreter = [sys.executable] + ([] if os.environ.get("OOMDOCTOR_TEST_INSTALLED") else ["-S"])

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="oomdoctor-test-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.program = self.fake_program("cat > {folder}/log; echo the verdict")

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def fake_program(self, commands):
        """Make the shell `commands` the program; it also writes its arguments, one on each line."""
        path = self.path("program")
        lines = ["#!/bin/sh", 'printf "%s\\n" "$@" > {folder}/arguments', commands]
        write(path, "\n".join(lines).replace("{folder}", self.folder) + "\n")
        os.chmod(path, 0o755)
        return path

    def has_run(self):
        return os.path.exists(self.path("arguments"))

    def environment(self, **more):
        """Return an environment without what a distributed job, a terminal or a user may have set."""
        kept = ("PATH", "HOME", "LANG", "LC_ALL", "SYSTEMROOT", "TMPDIR", "LD_LIBRARY_PATH", "OOMDOCTOR_TEST_INSTALLED")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        paths = [TESTS] if os.environ.get("OOMDOCTOR_TEST_INSTALLED") else [PACKAGE, TESTS]
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        environment["OOMDOCTOR_PROGRAM"] = self.program
        environment["IPYTHONDIR"] = self.path("ipython")
        environment.update(more)
        return {name: value for name, value in environment.items() if value is not None}

    def run_python(self, script, *arguments, **environment):
        """Run `script` as a file in a child interpreter."""
        path = self.path("script.py")
        write(path, textwrap.dedent(script))
        return self.run_command(self.interpreter + [path] + list(arguments), **environment)

    def run_command(self, command, **environment):
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(**environment),
            cwd=self.folder,
            universal_newlines=True,
            timeout=CHILD_SECONDS,
        )


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path) as file:
        return file.read()
