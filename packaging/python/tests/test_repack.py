"""The platform tag of a wheel packed around a given program."""

import importlib.util
import os
import struct
import unittest

from support import PACKAGE

# Loaded from its path: its folder on sys.path would put the package's source before an installed one.
spec = importlib.util.spec_from_file_location("repack", os.path.join(PACKAGE, "repack.py"))
repack = importlib.util.module_from_spec(spec)
spec.loader.exec_module(repack)
platform_tag = repack.platform_tag

X86_64, AARCH64, RISCV = 62, 183, 243


def program(machine, *symbol_versions):
    header = b"\x7fELF" + bytes(14) + struct.pack("<H", machine) + bytes(44)
    return header + b"\0" + b"".join(version + b"\0" for version in (b"libc.so.6",) + symbol_versions)


class PlatformTag(unittest.TestCase):
    def test_it_is_the_newest_glibc_that_the_program_needs(self):
        needed = program(X86_64, b"GLIBC_2.2.5", b"GLIBC_2.28", b"GLIBC_2.3", b"GLIBC_2.9", b"GLIBC_PRIVATE", b"GCC_3.0")
        self.assertEqual(platform_tag(needed), "manylinux_2_28_x86_64")
        self.assertEqual(platform_tag(program(AARCH64, b"GLIBC_2.34", b"GLIBC_2.17")), "manylinux_2_34_aarch64")

    def test_it_is_never_older_than_rust_supports(self):
        self.assertEqual(platform_tag(program(X86_64, b"GLIBC_2.2.5")), "manylinux_2_17_x86_64")

    def test_text_that_only_mentions_a_version_does_not_count(self):
        needed = program(X86_64, b"GLIBC_2.17", b"needs GLIBC_2.99 or newer", b"GLIBC_2.98 is missing")
        self.assertEqual(platform_tag(needed), "manylinux_2_17_x86_64")

    def test_programs_of_other_systems_are_refused(self):
        for other in (b"MZ\x90\0", b"\xcf\xfa\xed\xfe", b"#!/bin/sh\n", b"", program(RISCV, b"GLIBC_2.27")):
            with self.assertRaises(SystemExit):
                platform_tag(other)


if __name__ == "__main__":
    unittest.main()
