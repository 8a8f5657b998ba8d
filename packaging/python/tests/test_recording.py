"""The opt-in memory recording, with a stand-in for PyTorch."""

import os
import pickle
import stat
import unittest

from support import PACKAGE, TESTS, TestCase, read, write

RECORD = "import oomdoctor.hook\noomdoctor.hook.record_memory({})\n"
FAIL = "import torch\ntorch.allocate()\n"


class Recording(TestCase):
    def run_script(self, script, **environment):
        paths = [TESTS, os.path.join(TESTS, "fake_torch")]
        if not os.environ.get("OOMDOCTOR_TEST_INSTALLED"):
            paths.append(PACKAGE)
        environment.setdefault("PYTHONPATH", os.pathsep.join(paths))
        return self.run_python("import os, sys\nprint(os.getpid())\n" + script, **environment)

    def written(self, folder="."):
        return sorted(name for name in os.listdir(self.path(folder)) if name.startswith("oom_"))

    def test_a_failure_leaves_a_snapshot_and_the_log_beside_it(self):
        result = self.run_script(RECORD.format("") + FAIL, RANK="3")
        stem = "oom_rank3_pid" + result.stdout.split()[0]
        self.assertEqual(self.written(), [stem + ".log", stem + ".pickle"])
        with open(self.path(stem + ".pickle"), "rb") as file:
            data = file.read()
        self.assertEqual(pickle.loads(data)["device_traces"][0][0]["action"], "oom")
        self.assertEqual(data[:2], b"\x80\x04")
        self.assertIn("OutOfMemoryError: CUDA out of memory", read(self.path(stem + ".log")))
        announcements = [line for line in result.stderr.split("\n") if line.startswith("oomdoctor: memory snapshot: ")]
        self.assertEqual(len(announcements), 1)
        self.assertTrue(announcements[0].endswith(os.path.join(os.path.realpath(self.folder), stem + ".pickle")))
        self.assertIn("the verdict", result.stderr)
        self.assertEqual(result.returncode, 1)

    def test_the_files_are_private_whatever_the_umask(self):
        self.run_script("os.umask(0)\n" + RECORD.format("") + FAIL)
        modes = {stat.S_IMODE(os.stat(self.path(name)).st_mode) for name in self.written()}
        self.assertEqual(modes, {0o600})

    def test_nothing_is_recorded_without_being_asked(self):
        result = self.run_script(
            "import oomdoctor.hook\n" + FAIL.replace("torch.allocate", "print(torch.CALLS); torch.allocate")
        )
        self.assertIn("[]", result.stdout)
        self.assertEqual(self.written(), [])

    def test_recording_is_bounded_and_waits_for_cuda(self):
        script = RECORD.format("max_entries=500") + "import torch\nprint(torch.CALLS)\ntorch.cuda.init()\nprint(torch.CALLS)\n"
        before, after = self.run_script(script).stdout.strip().split("\n")[1:]
        self.assertEqual(before, "[]")
        self.assertEqual(after, "[('history', 'all', 'python', 500), 'observer attached']")

    def test_older_releases_are_asked_in_their_way(self):
        for release, call in (("2.0", "('history', True, None, 100000)"), ("1.13", "('history', True, None, None)")):
            script = RECORD.format("") + "import torch\ntorch.cuda.init()\nprint(torch.CALLS[0])\n" + FAIL
            result = self.run_script(script, FAKE_TORCH=release)
            self.assertIn(call, result.stdout)
            self.assertEqual(len([name for name in self.written() if name.endswith(".pickle")]), 1)
            for name in self.written():
                os.remove(self.path(name))

    def test_without_an_observer_the_snapshot_is_written_at_the_traceback(self):
        result = self.run_script(RECORD.format("") + FAIL, FAKE_TORCH="2.15 without observer")
        self.assertEqual([os.path.splitext(name)[1] for name in self.written()], [".log", ".pickle"])
        self.assertEqual(result.stderr.count("memory snapshot"), 1)

    def test_an_allocator_that_records_nothing_is_one_line(self):
        result = self.run_script(RECORD.format("") + FAIL, FAKE_TORCH="async allocator")
        self.assertEqual(self.written(), [])
        self.assertEqual(result.stderr.count("oomdoctor: memory history is not recorded"), 1)
        self.assertIn("the verdict", result.stderr)

    def test_the_environment_variable_works_in_any_order_of_imports(self):
        for script in ("import torch\nimport oomdoctor.hook\n", "import oomdoctor.hook\nimport torch\n"):
            result = self.run_script(script + FAIL, OOMDOCTOR_MEMORY_HISTORY="1")
            self.assertEqual(result.stderr.count("memory snapshot"), 1, result.stderr)
        self.assertEqual(len(self.written()), 4)
        for off in ("", "0"):
            result = self.run_script("import torch\nimport oomdoctor.hook\n" + FAIL, OOMDOCTOR_MEMORY_HISTORY=off)
            self.assertEqual(result.stderr.count("memory snapshot"), 0)

    def test_the_environment_variable_without_pytorch_changes_nothing(self):
        script = "import oomdoctor.hook\nprint('torch' in sys.modules)\n"
        result = self.run_script(script, OOMDOCTOR_MEMORY_HISTORY="1")
        self.assertEqual((result.stdout.split()[1:], result.stderr), (["False"], ""))

    def test_without_pytorch_the_call_says_so(self):
        script = "sys.modules['torch'] = None\n" + RECORD.format("")
        result = self.run_script(script)
        self.assertEqual(result.returncode, 1)
        self.assertIn("ImportError: record_memory needs PyTorch", result.stderr)

    def test_failures_that_the_program_catches_do_not_fill_the_disk(self):
        retry = "import torch\nfor _ in range(20):\n    try:\n        torch.allocate()\n    except RuntimeError: pass\n"
        for asked, expected in (("", 1), ("snapshots=3", 3)):
            result = self.run_script(RECORD.format(asked) + retry)
            names = self.written()
            self.assertEqual(len(names), expected)
            self.assertEqual(result.stderr.count("memory snapshot"), expected)
            for name in names:
                self.assertTrue(name.endswith(".pickle"))
                os.remove(self.path(name))

    def test_a_job_that_is_started_again_and_again_does_not_fill_the_disk(self):
        from oomdoctor import _recording

        for number in range(_recording.MOST_SNAPSHOTS):
            write(self.path("oom_pid{}.pickle".format(number)), "")
        self.run_script(RECORD.format("") + FAIL)
        self.assertEqual(len(self.written()), _recording.MOST_SNAPSHOTS)

    def test_words_for_no_do_not_start_a_recording(self):
        for word, is_recorded in (("1", True), ("true", True), ("0", False), ("off", False), ("no", False), ("", False)):
            result = self.run_script("import oomdoctor.hook\n" + FAIL, OOMDOCTOR_MEMORY_HISTORY=word)
            self.assertEqual("memory snapshot" in result.stderr, is_recorded, word)

    def test_a_forked_child_writes_its_own(self):
        fork = "import torch\ntry: torch.allocate()\nexcept RuntimeError: pass\nif os.fork() == 0:\n    torch.allocate()\nos.wait()\n"
        self.run_script(RECORD.format("") + fork)
        self.assertEqual(len([name for name in self.written() if name.endswith(".pickle")]), 2)

    def test_the_folder_is_made_and_kept_when_the_program_changes_its_own(self):
        self.run_script(RECORD.format("folder='new/snapshots'") + "os.chdir('/')\n" + FAIL)
        self.assertEqual(len(self.written("new/snapshots")), 2)

    def test_a_file_of_an_earlier_run_is_replaced_and_links_are_not_followed(self):
        script = """
stem = "oom_pid%d" % os.getpid()
os.symlink("target", stem + ".pickle")
os.symlink("target", stem + ".log.part")
"""
        self.run_script(script + RECORD.format("") + FAIL)
        self.assertFalse(os.path.exists(self.path("target")))
        self.assertEqual(len(self.written()), 2)
        self.assertFalse(any(os.path.islink(self.path(name)) for name in self.written()))

    def test_a_full_disk_is_one_line_and_leaves_nothing(self):
        script = """
import errno, pickle
def full(*a, **k): raise OSError(errno.ENOSPC, "No space left on device")
pickle.dump = full
"""
        result = self.run_script(script + RECORD.format("") + FAIL)
        self.assertEqual([name for name in self.written() if "pickle" in name], [])
        self.assertEqual(result.stderr.count("oomdoctor: cannot write"), 1)
        self.assertIn("No space left on device", result.stderr)
        self.assertIn("the verdict", result.stderr)

    def test_a_folder_that_vanished_is_no_trouble(self):
        script = RECORD.format("folder='gone'") + "os.rmdir('gone')\n" + FAIL
        result = self.run_script(script)
        self.assertIn("oomdoctor: cannot write", result.stderr)
        self.assertIn("the verdict", result.stderr)
        self.assertEqual(result.returncode, 1)

    def test_uninstall_stops_the_recording(self):
        script = (
            RECORD.format("") + "import torch\ntorch.cuda.init()\noomdoctor.hook.uninstall()\nprint(torch.CALLS[-1])\n" + FAIL
        )
        result = self.run_script(script)
        self.assertIn("('history', None,", result.stdout)
        self.assertEqual(self.written(), [])
        self.assertNotIn("oomdoctor: ", result.stderr)

    def test_wrong_limits_are_refused(self):
        for wrong in ("max_entries=0", "snapshots=0"):
            self.assertIn("ValueError", self.run_script(RECORD.format(wrong)).stderr)

    def test_it_can_start_in_the_middle_of_a_run(self):
        script = (
            "import torch\ntorch.cuda.init()\n"
            + RECORD.format("")
            + RECORD.format("max_entries=7")
            + "print(torch.CALLS)\n"
            + FAIL
        )
        result = self.run_script(script)
        self.assertEqual(result.stdout.count("observer attached"), 1)
        self.assertEqual(len(self.written()), 2)


if __name__ == "__main__":
    unittest.main()
