"""The hook in real interpreters: what is printed, what is not, and the exit code."""

import os
import signal
import subprocess
import sys
import unittest
from textwrap import dedent

from support import TORCH_TEXT, TestCase, read, write

# Every script can be run without the hook, on the same lines, to compare the two.
PRELUDE = "import sys\nif 'hooked' in sys.argv: import oomdoctor.hook\nfrom support import Framework, TORCH_TEXT\n"

OOM = PRELUDE + "def forward():\n    raise Framework.torch_oom(TORCH_TEXT)\nforward()\n"

OTHER_FAILURES = {
    "an error": "def f():\n    raise ValueError('no')\nf()",
    "a chained error": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('no') from e",
    "an error of the framework": "raise Framework.torch_accelerator('CUDA error: device-side assert triggered')",
    "system memory of Python": "raise MemoryError",
    "an exit code": "sys.exit(7)",
    "an exit message": "sys.exit('bye')",
    "an exit after a caught failure": "try:\n    raise Framework.torch_oom(TORCH_TEXT)\nexcept RuntimeError:\n    sys.exit(3)",
    "an interrupt": "raise KeyboardInterrupt",
    "an interrupt after a failure": "try:\n    raise Framework.torch_oom(TORCH_TEXT)\nexcept RuntimeError:\n    raise KeyboardInterrupt",
    "a syntax error": "exec('x = = 1')",
    "an error without text": "class E(Exception):\n    def __str__(self):\n        raise TypeError('no text')\nraise E",
    "a caught failure": "try:\n    raise Framework.torch_oom(TORCH_TEXT)\nexcept RuntimeError:\n    print('smaller batch')",
    "a failure replaced by another": "try:\n    raise Framework.torch_oom(TORCH_TEXT)\nexcept RuntimeError:\n    raise ValueError('no') from None",
    "a thread": "import threading\nt = threading.Thread(target=int, args=('x',), name='t')\nt.start()\nt.join()\nprint('on')",
    "a thread that exits": "import threading\nt = threading.Thread(target=sys.exit, args=(4,))\nt.start()\nt.join()",
    "no error": "print('fine')",
}


class Hook(TestCase):
    def assert_verdict(self, result, exit_code=1, times=1):
        self.assertEqual(result.returncode, exit_code, result.stderr)
        self.assertEqual(result.stderr.count("the verdict"), times, result.stderr)

    def test_importing_the_package_alone_changes_nothing(self):
        script = """
            import sys
            before = sys.excepthook, list(sys.meta_path), set(sys.modules)
            import oomdoctor
            print((sys.excepthook, list(sys.meta_path)) == before[:2], sorted(set(sys.modules) - before[2]))
        """
        self.assertEqual(self.run_python(script).stdout, "True ['oomdoctor']\n")
        self.assertEqual(self.run_python("import oomdoctor\n" + OOM).stderr.count("verdict"), 0)
        self.assertFalse(self.has_run())

    def test_importing_the_hook_loads_no_other_module(self):
        script = """
            import atexit, os, sys
            before = set(sys.modules)
            import oomdoctor.hook
            print(sorted(set(sys.modules) - before))
        """
        self.assertEqual(self.run_python(script).stdout, "['oomdoctor', 'oomdoctor.hook']\n")

    def test_the_verdict_follows_the_traceback(self):
        plain = self.run_python(OOM)
        hooked = self.run_python(OOM, "hooked")
        self.assert_verdict(hooked)
        self.assertTrue(hooked.stderr.startswith(plain.stderr))
        self.assertEqual(hooked.stderr[len(plain.stderr) :], "\noomdoctor:\nthe verdict\n")
        self.assertEqual(hooked.stdout, plain.stdout)

    def test_the_program_reads_what_python_printed_and_knows_the_pid(self):
        script = PRELUDE + "import os\nprint(os.getpid())\ntry:\n    raise Framework.torch_oom(TORCH_TEXT)\n"
        result = self.run_python(script + "except RuntimeError as e:\n    raise ValueError('step failed') from e", "hooked")
        log = read(self.path("log"))
        self.assertEqual(log, result.stderr[: len(log)])
        self.assertIn("direct cause", log)
        arguments = read(self.path("arguments")).split("\n")
        self.assertEqual(arguments[:5], ["diagnose", "--brief", "--run-pid", result.stdout.strip(), "--command"])
        self.assertTrue(arguments[5].endswith("script.py hooked"), arguments)
        self.assertEqual(arguments[6:], ["-", ""])

    def test_only_a_command_that_somebody_typed_is_passed_on(self):
        self.run_python(OOM, "hooked", "two words", "--lr", "1e-4")
        self.assertIn("hooked 'two words' --lr 1e-4\n", read(self.path("arguments")))
        self.run_python(OOM, "hooked", RANK="0")
        self.assertNotIn("--command", read(self.path("arguments")))
        self.run_python(OOM, "hooked", "x" * 5000)
        self.assertNotIn("--command", read(self.path("arguments")))
        self.run_command([sys.executable, "-c", "import oomdoctor.hook\n" + OOM])
        self.assertNotIn("--command", read(self.path("arguments")))

    def test_a_command_with_a_secret_is_not_passed_on(self):
        for secret in (["--hf-token", "x"], ["--api_key=x"], ["--key", "sk-abc"], ["--db", "postgres://me:pw@host/db"]):
            self.run_python(OOM, "hooked", *secret)
            self.assertNotIn("--command", read(self.path("arguments")), secret)
        self.run_python(OOM, "hooked", "--max-tokens", "512", "--tokenizer", "t", "--url", "http://host/p")
        self.assertIn("--max-tokens 512", read(self.path("arguments")))

    def test_other_failures_pass_unchanged(self):
        for name, failure in OTHER_FAILURES.items():
            with self.subTest(name):
                plain = self.run_python(PRELUDE + failure)
                hooked = self.run_python(PRELUDE + failure, "hooked")
                outcome = (hooked.returncode, hooked.stdout, hooked.stderr)
                self.assertEqual(outcome, (plain.returncode, plain.stdout, plain.stderr))
                self.assertFalse(self.has_run())

    @unittest.skipIf(sys.version_info < (3, 11), "this Python has no ExceptionGroup")
    def test_a_group_has_a_verdict(self):
        failure = "raise ExceptionGroup('tasks', [ValueError('a'), Framework.jax('RESOURCE_EXHAUSTED: Out of memory')])"
        self.assert_verdict(self.run_python(PRELUDE + failure, "hooked"))
        self.assertIn("JaxRuntimeError", read(self.path("log")))

    def test_a_thread_has_a_verdict_whenever_threading_was_imported(self):
        failure = """
def work():
    raise Framework.cupy_oom("Out of memory allocating 8 bytes (allocated so far: 1 bytes).")
import threading
thread = threading.Thread(target=work, name="worker")
thread.start()
thread.join()
print(threading.__spec__.loader is threading.__loader__, type(threading.__loader__).__name__)
"""
        for first in ("", "import threading\n"):
            plain = self.run_python(first + PRELUDE + failure)
            hooked = self.run_python(first + PRELUDE + failure, "hooked")
            self.assert_verdict(hooked, exit_code=0)
            self.assertEqual(hooked.stderr, plain.stderr + "\noomdoctor:\nthe verdict\n")
            self.assertEqual(hooked.stdout, plain.stdout)

    def test_one_error_has_one_verdict(self):
        script = """
            import sys, threading
            import oomdoctor.hook
            from support import Framework, TORCH_TEXT
            errors = []
            def work():
                try:
                    raise Framework.torch_oom(TORCH_TEXT)
                except RuntimeError as error:
                    errors.append(error)
                    raise
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            raise ValueError("worker failed") from errors[0]
        """
        self.assert_verdict(self.run_python(script))

    def test_installing_twice_prints_once(self):
        script = "import oomdoctor.hook, threading\noomdoctor.hook.install()\noomdoctor.hook.install()\n"
        script += "assert oomdoctor.hook._installed['excepthook'].previous is sys.__excepthook__\n"
        self.assert_verdict(self.run_python("import sys\n" + script + OOM))

    def test_a_hook_installed_before_still_runs_first(self):
        script = (
            "import sys\nsys.excepthook = lambda *e: print('traceback of another', file=sys.stderr)\nimport oomdoctor.hook\n"
        )
        result = self.run_python(script + OOM)
        self.assertEqual(result.stderr, "traceback of another\n\noomdoctor:\nthe verdict\n")

    def test_a_hook_before_that_fails_or_exits_does_so_still(self):
        for failure in ("sys.exit(9)", "1 / 0"):
            script = "import sys\ndef other(*e):\n    {}\nsys.excepthook = other\n".format(failure)
            plain = self.run_python(script + "\n" + OOM)
            hooked = self.run_python(script + "import oomdoctor.hook\n" + OOM)
            self.assert_verdict(hooked, exit_code=plain.returncode)
            self.assertIn(plain.stderr.partition("ZeroDivisionError")[1], hooked.stderr)

    def test_a_hook_installed_later_that_calls_ours_still_works(self):
        script = """
            import sys
            import oomdoctor.hook
            ours = sys.excepthook
            def later(*error):
                print("later", file=sys.stderr)
                ours(*error)
            sys.excepthook = later
        """
        result = self.run_python(dedent(script) + OOM)
        self.assert_verdict(result)
        self.assertTrue(result.stderr.startswith("later\nTraceback"))

    def test_a_hook_installed_later_that_calls_nothing_does_not_hide_the_verdict(self):
        script = (
            "import sys\nimport oomdoctor.hook\nsys.excepthook = lambda *e: print('traceback of another', file=sys.stderr)\n"
        )
        result = self.run_python(script + OOM)
        self.assert_verdict(result)
        self.assertEqual(result.stderr, "traceback of another\n\noomdoctor:\nthe verdict\n")

    def test_the_traceback_is_out_before_the_program_runs(self):
        # As torch.distributed does it in torch 2.15.0, to put the rank before each line (checked 2026-11-22).
        capture = """
            import io, sys
            import oomdoctor.hook
            inner = sys.excepthook
            def capture(*error):
                stderr, sys.stderr = sys.stderr, io.StringIO()
                try:
                    inner(*error)
                finally:
                    text, sys.stderr = sys.stderr.getvalue(), stderr
                sys.stderr.write("".join("[rank0]: " + line for line in text.splitlines(True)))
            sys.excepthook = capture
        """
        self.fake_program("cp {folder}/stderr {folder}/seen; cat > /dev/null; echo the verdict")
        for prelude, traceback in (("import oomdoctor.hook\n", "\nTraceback"), (dedent(capture), "\n[rank0]: Traceback")):
            write(self.path("script.py"), prelude + OOM)
            with open(self.path("stderr"), "w") as stderr:
                subprocess.run(self.interpreter + [self.path("script.py")], stderr=stderr, env=self.environment())
            self.assertIn(traceback, "\n" + read(self.path("seen")))
            self.assertTrue(read(self.path("stderr")).endswith("\n\noomdoctor:\nthe verdict\n"))

    def test_uninstall_puts_everything_back(self):
        script = """
            import sys
            before = sys.excepthook, list(sys.meta_path)
            import oomdoctor.hook
            oomdoctor.hook.uninstall()
            assert (sys.excepthook, list(sys.meta_path)) == before
            import threading
            default = threading.excepthook
            assert "oomdoctor" not in default.__module__
            oomdoctor.hook.install()
            assert threading.excepthook is not default
            oomdoctor.hook.uninstall()
            oomdoctor.hook.uninstall()
            assert sys.excepthook is before[0] and threading.excepthook is default
        """
        result = self.run_python(dedent(script) + OOM)
        self.assert_verdict(result, times=0)
        self.assertNotIn("Assertion", result.stderr)

    def test_uninstall_below_a_later_hook_only_passes_on(self):
        script = dedent(
            """
            import sys, threading
            import oomdoctor.hook
            ours, ours_in_threads = sys.excepthook, threading.excepthook
            def later(*error):
                print("later", file=sys.stderr)
                ours(*error)
            def later_in_threads(arguments):
                print("later", file=sys.stderr)
                ours_in_threads(arguments)
            sys.excepthook, threading.excepthook = later, later_in_threads
            oomdoctor.hook.uninstall()
            assert sys.excepthook is later and threading.excepthook is later_in_threads
            threading.Thread(target=int, args=("x",)).start()
            """
        )
        result = self.run_python(script + OOM)
        self.assert_verdict(result, times=0)
        self.assertEqual(result.stderr.count("later\n"), 2)
        self.assertIn("OutOfMemoryError", result.stderr)
        result = self.run_python(script + "oomdoctor.hook.install()\n" + OOM)
        self.assert_verdict(result)

    def test_the_program_says_no_or_cannot_read(self):
        self.fake_program("cat > /dev/null; echo text; echo more >&2; exit 1")
        result = self.run_python(OOM, "hooked")
        self.assertEqual((result.returncode, result.stderr), (1, self.run_python(OOM).stderr))
        self.assertTrue(self.has_run())
        self.fake_program("cat > /dev/null; echo text; echo 'oomdoctor: config.ron is broken' >&2; exit 2")
        result = self.run_python(OOM, "hooked")
        self.assert_one_line(result)
        self.assertTrue(result.stderr.endswith("oomdoctor: no verdict: config.ron is broken\n"), result.stderr)

    def test_threads_that_fail_alike_have_one_verdict(self):
        script = """
            import threading
            def work():
                raise Framework.torch_oom(TORCH_TEXT)
            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        """
        self.assert_verdict(self.run_python(PRELUDE + dedent(script), "hooked"), exit_code=0)

    def test_an_error_raised_while_handling_the_failure_names_the_failure(self):
        script = "try:\n    raise Framework.torch_oom(TORCH_TEXT)\nexcept RuntimeError:\n    open('no such file')\n"
        result = self.run_python(PRELUDE + script, "hooked")
        self.assert_verdict(result)
        self.assertIn("\noomdoctor, on the earlier OutOfMemoryError:\n", result.stderr)

    def test_an_error_of_a_test_runner_or_a_console_has_no_verdict_at_exit(self):
        script = """
            import sys
            def runs_a_test():
                try:
                    raise Framework.torch_oom(TORCH_TEXT)
                except RuntimeError as error:
                    sys.last_value = error
            runs_a_test()
            try:
                exec(compile("raise Framework.torch_oom(TORCH_TEXT)", "<cell>", "exec"))
            except RuntimeError as error:
                sys.last_value = error.with_traceback(error.__traceback__.tb_next)
        """
        self.assert_verdict(self.run_python(PRELUDE + dedent(script), "hooked"), exit_code=0, times=0)

    def test_looking_for_a_module_or_failing_to_import_it_does_not_end_the_watch(self):
        script = """
            import importlib.util
            assert importlib.util.find_spec("threading") is not None
            import threading
            threading.Thread(target=lambda: exec("raise Framework.torch_oom(TORCH_TEXT)")).start()
        """
        prelude = "import sys\nassert 'threading' not in sys.modules\n"
        self.assert_verdict(self.run_python(prelude + PRELUDE + dedent(script), "hooked"), exit_code=0)

    @unittest.skipIf(sys.version_info < (3, 11), "this Python has no ExceptionGroup")
    def test_a_member_that_python_does_not_print_is_in_the_log(self):
        failure = "raise ExceptionGroup('tasks', [ValueError(i) for i in range(30)] + [Framework.torch_oom(TORCH_TEXT)])"
        self.assert_verdict(self.run_python(PRELUDE + failure, "hooked"))
        self.assertIn(TORCH_TEXT, read(self.path("log")))

    def test_jax_on_the_cpu_has_no_verdict(self):
        script = """
            import types
            sys.modules["jax"] = types.SimpleNamespace(default_backend=lambda: BACKEND)
            raise Framework.jax("RESOURCE_EXHAUSTED: Out of memory allocating 40000000000000 bytes.")
        """
        for backend, times in (("cpu", 0), ("gpu", 1)):
            lines = PRELUDE + "BACKEND = {!r}\n".format(backend) + dedent(script)
            self.assert_verdict(self.run_python(lines, "hooked"), times=times)

    def test_reloading_the_hook_keeps_what_is_installed(self):
        script = """
            import importlib, sys
            before = sys.excepthook
            import oomdoctor.hook
            importlib.reload(oomdoctor.hook).uninstall()
            assert sys.excepthook is before, sys.excepthook
        """
        self.assertEqual(self.run_python(script).stderr, "")

    def test_a_verdict_is_printed_as_the_program_words_it(self):
        self.fake_program("cat > /dev/null; printf '2.2\\302\\240GiB \\342\\211\\210\\n\\n  end\\n\\n'; echo warning >&2")
        result = self.run_python(OOM, "hooked", PYTHONIOENCODING="utf-8", LC_ALL="C.UTF-8")
        self.assertTrue(result.stderr.endswith("\n\noomdoctor:\n2.2\xa0GiB ≈\n\n  end\n"), result.stderr)
        result = self.run_python(OOM, "hooked", PYTHONIOENCODING="ascii:strict")
        self.assertIn("end\n", result.stderr)

    def test_no_trouble_with_the_program_takes_more_than_one_line(self):
        write(self.path("no program"), "text")
        os.chmod(self.path("no program"), 0o755)
        for program in (self.path("missing"), self.folder, self.path("no program")):
            self.assert_one_line(self.run_python(OOM, "hooked", OOMDOCTOR_PROGRAM=program))
        self.fake_program("kill -SEGV $$")
        result = self.run_python(OOM, "hooked")
        self.assert_one_line(result)
        self.assertIn("signal {}".format(int(signal.SIGSEGV)), result.stderr)
        self.fake_program("echo the verdict")  # without reading the log
        self.assert_verdict(self.run_python(OOM.replace("TORCH_TEXT)", "TORCH_TEXT + 'x' * 300000)"), "hooked"))

    def test_a_program_that_hangs_is_ended(self):
        result = self.run_with_hanging_program("echo $$ > {folder}/new; mv {folder}/new {folder}/pid; exec cat {folder}/never")
        self.assert_one_line(result)
        with self.assertRaises(ProcessLookupError):
            os.kill(int(read(self.path("pid"))), 0)

    def test_a_child_of_the_program_that_keeps_its_output_open_is_not_waited_for(self):
        result = self.run_with_hanging_program("cat {folder}/never & echo $! > {folder}/new; mv {folder}/new {folder}/pid")
        os.kill(int(read(self.path("pid"))), signal.SIGKILL)
        self.assert_one_line(result)

    def run_with_hanging_program(self, commands):
        """Run a failing script with a short time limit, which begins once `commands` have written the file `pid`."""
        impatient = """
            import os, subprocess
            import oomdoctor._verdict
            oomdoctor._verdict.TIMEOUT_SECONDS = 0.1
            communicate = subprocess.Popen.communicate
            def once_started(*arguments, **options):
                while not os.path.exists("pid"):
                    pass
                return communicate(*arguments, **options)
            subprocess.Popen.communicate = once_started
        """
        os.mkfifo(self.path("never"))
        self.fake_program(commands)
        return self.run_python(dedent(impatient) + OOM, "hooked", PYTHONWARNINGS="error")

    def test_a_program_that_cannot_be_started_is_tried_without_fork(self):
        script = dedent(
            """
            import errno, subprocess
            start, options = subprocess.Popen, []
            def full(command, **given):
                options.append(given["close_fds"])
                if len(options) <= ALLOWED:
                    raise OSError(errno.ENOMEM, "Cannot allocate memory")
                return start(command, **given)
            subprocess.Popen = full
            """
        )
        self.assert_verdict(self.run_python(script.replace("ALLOWED", "1") + OOM, "hooked"))
        result = self.run_python(script.replace("ALLOWED", "2") + OOM, "hooked")
        self.assert_verdict(result, times=0)
        self.assertEqual(result.stderr.strip().split("\n")[-1].split(":")[0], "oomdoctor")

    def assert_one_line(self, result):
        self.assertEqual(result.returncode, 1)
        traceback, _, rest = result.stderr.partition(TORCH_TEXT + "\n")
        self.assertIn("Traceback", traceback)
        self.assertRegex(rest, r"\Aoomdoctor: [^\n]+\n\Z")

    def test_a_closed_or_missing_stderr_is_no_trouble(self):
        for change in ("sys.stderr.close()", "sys.stderr = None", "del sys.stderr", "sys.stderr = object()"):
            plain = self.run_python("import sys\n{}\n".format(change) + OOM)
            hooked = self.run_python("import sys\n{}\n".format(change) + OOM, "hooked")
            self.assertEqual((hooked.returncode, hooked.stdout), (plain.returncode, plain.stdout))

    def test_the_program_never_reads_the_terminal(self):
        self.fake_program("cat > {folder}/log; test ! -t 0 && echo the verdict")
        self.assert_verdict(self.run_python(OOM, "hooked"))
        self.assertIn(TORCH_TEXT, read(self.path("log")))

    def test_each_rank_labels_its_verdict(self):
        for variables, label in (
            ({"RANK": "3", "LOCAL_RANK": "1"}, "oomdoctor, rank 3:\n"),
            ({"LOCAL_RANK": "1"}, "oomdoctor, rank 1:\n"),
            ({"SLURM_PROCID": "2", "SLURM_NTASKS": "4"}, "oomdoctor, rank 2:\n"),
            ({"SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, "oomdoctor:\n"),
            ({"RANK": "../x"}, "oomdoctor:\n"),
        ):
            self.assertIn("\n\n" + label + "the verdict\n", self.run_python(OOM, "hooked", **variables).stderr)

    def test_an_error_in_an_interrupted_verdict_keeps_the_exit_code(self):
        # Once it has read the log, the script waits for its output.
        self.fake_program("cat > /dev/null; kill -INT $PPID; exec cat {folder}/never")
        os.mkfifo(self.path("never"))
        # A background job starts with SIGINT ignored.
        script = OOM + "\n"
        script = script.replace("\n", "; import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n", 1)
        result = self.run_python(script, "hooked")
        self.assertEqual((result.returncode, result.stderr), (1, self.run_python(script).stderr))

    @unittest.skipUnless(hasattr(os, "openpty"), "this system has no pseudo-terminals")
    def test_only_a_terminal_gets_colors(self):
        for variables, has_color in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)):
            text = self.terminal_output(**dict({"TERM": "xterm", "PYTHON_COLORS": "0"}, **variables))
            self.assertIn("the verdict", text)
            self.assertEqual("\033[" in text, has_color)

    def terminal_output(self, **variables):
        write(self.path("script.py"), OOM)
        terminal, child_end = os.openpty()
        try:
            command = [sys.executable, self.path("script.py"), "hooked"]
            environment = self.environment(**variables)
            subprocess.run(command, stdin=child_end, stdout=child_end, stderr=child_end, env=environment, timeout=60)
            return os.read(terminal, 65536).decode()
        finally:
            os.close(terminal)
            os.close(child_end)


if __name__ == "__main__":
    unittest.main()
