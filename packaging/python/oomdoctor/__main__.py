"""Runs the program with the same arguments, in place of this interpreter where the system can do that."""

import os
import sys

from ._program import find_program


def main():
    program = find_program()
    if program is None:
        sys.stderr.write("oomdoctor: program not found; reinstall it with: pip install --force-reinstall oomdoctor\n")
        return 2
    arguments = [program] + sys.argv[1:]
    try:
        if os.name == "posix":
            os.execv(program, arguments)
        import subprocess

        return subprocess.call(arguments)
    except OSError as error:
        sys.stderr.write("oomdoctor: cannot run {}: {}\n".format(program, error.strerror or error))
        return 2


if __name__ == "__main__":
    sys.exit(main())
