"""Which program is run, and `python -m oomdoctor`."""

import os
import shutil
import sys
import unittest

from support import PACKAGE, TestCase, write

FIND = "from oomdoctor._program import find_program; print(find_program())"


@unittest.skipIf(os.environ.get("OOMDOCTOR_TEST_INSTALLED"), "these tests lay out installations of their own")
class FindProgram(TestCase):
    def install(self, *folders):
        """Copy the package to a folder of an installation and return the environment that imports it from there."""
        site = self.path(*folders)
        shutil.copytree(os.path.join(PACKAGE, "oomdoctor"), os.path.join(site, "oomdoctor"))
        os.makedirs(os.path.join(site, "oomdoctor-9.dist-info"))
        return {"PYTHONPATH": site, "OOMDOCTOR_PROGRAM": None, "PATH": self.path("empty")}

    def put_program(self, *folders):
        path = self.path(*(folders + ("oomdoctor",)))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write(path, "#!/bin/sh\n")
        os.chmod(path, 0o755)
        return path

    def find(self, environment):
        return self.run_command([sys.executable, "-c", FIND], **environment).stdout.strip()

    def test_it_is_in_the_prefix_of_the_installation(self):
        for site in ("site-packages", "dist-packages"):
            environment = self.install(site + "-prefix", "lib", "python3.11", site)
            program = self.put_program(site + "-prefix", "bin")
            self.assertEqual(self.find(environment), program)

    def test_it_is_beside_the_package_of_a_target_installation(self):
        environment = self.install("target")
        program = self.put_program("target", "bin")
        self.assertEqual(self.find(environment), program)

    @unittest.skipIf(sys.prefix != sys.base_prefix, "a virtual environment has no folder of the user")
    def test_it_is_in_the_scripts_of_the_user(self):
        environment = self.install("anywhere")
        program = self.put_program("user", "bin")
        self.assertEqual(self.find(dict(environment, PYTHONUSERBASE=self.path("user"))), program)

    def test_path_comes_last(self):
        environment = self.install("target")
        on_path = self.put_program("elsewhere")
        environment["PATH"] = self.path("elsewhere")
        self.assertEqual(self.find(environment), on_path)
        own = self.put_program("target", "bin")
        self.assertEqual(self.find(environment), own)

    def test_a_copy_of_the_package_in_a_project_runs_no_program_of_the_project(self):
        environment = self.install("project")
        self.put_program("project", "bin")
        os.rmdir(self.path("project", "oomdoctor-9.dist-info"))
        self.assertEqual(self.find(environment), "None")

    def test_only_absolute_folders_of_path_are_searched(self):
        environment = self.install("project")
        self.put_program()
        for path in (os.pathsep, ".", self.path("empty") + os.pathsep):
            self.assertEqual(self.find(dict(environment, PATH=path)), "None")

    def test_an_isolated_interpreter_heeds_neither_the_variable_nor_the_users_folder(self):
        environment = self.install("target")
        find = "import sys; sys.path.insert(0, {!r}); {}".format(environment["PYTHONPATH"], FIND)
        chosen = self.put_program("chosen")
        self.put_program("user", "bin")
        variables = dict(environment, OOMDOCTOR_PROGRAM=chosen, PYTHONUSERBASE=self.path("user"), HOME=self.path("user"))
        self.assertEqual(self.run_command([sys.executable, "-I", "-c", find], **variables).stdout.strip(), "None")

    def test_a_chosen_program_wins_and_is_not_replaced_when_missing(self):
        environment = self.install("target")
        self.put_program("target", "bin")
        chosen = self.put_program("chosen")
        self.assertEqual(self.find(dict(environment, OOMDOCTOR_PROGRAM=chosen)), chosen)
        self.assertEqual(self.find(dict(environment, OOMDOCTOR_PROGRAM=self.path("missing"))), "None")

    def test_files_that_cannot_run_are_passed_over(self):
        environment = self.install("target")
        os.chmod(self.put_program("target", "bin"), 0o644)
        os.makedirs(self.path("elsewhere", "oomdoctor"))
        environment["PATH"] = self.path("elsewhere")
        self.assertEqual(self.find(environment), "None")

    def test_without_a_program_the_module_says_so(self):
        environment = self.install("target")
        result = self.run_command([sys.executable, "-m", "oomdoctor", "ps"], **environment)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertRegex(result.stderr, r"\Aoomdoctor: [^\n]+\n\Z")


class RunModule(TestCase):
    def test_the_module_runs_the_program_with_its_arguments_and_exit_code(self):
        self.fake_program('printf "%s|" "$@"; echo error >&2; exit 7')
        result = self.run_command([sys.executable, "-m", "oomdoctor", "fit", "a b", "", "--json"])
        self.assertEqual((result.returncode, result.stdout, result.stderr), (7, "fit|a b||--json|", "error\n"))


if __name__ == "__main__":
    unittest.main()
