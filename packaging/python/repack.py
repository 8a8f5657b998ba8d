"""Packs a built program and the Python package into a wheel, as `maturin build` would, without building the program again.

    python3 repack.py PROGRAM OUT

The metadata comes from maturin, the platform tag from the program: its architecture and the newest glibc symbol that it needs.
Prints the wheel's path.
"""

import base64
import hashlib
import os
import re
import struct
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXECUTABLE = 0o100755
FILE = 0o100644

# The ELF header's e_machine.
ARCHITECTURES = {62: "x86_64", 183: "aarch64"}

# Wheel tags below this one are for systems that ended before Rust's own lower limit.
OLDEST_GLIBC = (2, 17)


def platform_tag(program):
    """Return the tag of the oldest systems that can run `program`."""
    if program[:4] != b"\x7fELF":
        raise SystemExit("repack.py: the program is not an ELF file: only wheels for Linux can be packed")
    machine = struct.unpack_from("<H", program, 18)[0]
    if machine not in ARCHITECTURES:
        raise SystemExit("repack.py: unknown architecture {}".format(machine))
    # The names of the symbol versions stand in the string table, each ended by a zero byte.
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)", program.replace(b"\0", b"\0\0"))
    newest = max([OLDEST_GLIBC] + [(int(major), int(minor)) for major, minor in versions])
    return "manylinux_{}_{}_{}".format(newest[0], newest[1], ARCHITECTURES[machine])


def metadata_files():
    """Return the files of the dist-info folder by name, as maturin writes them."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["maturin", "pep517", "write-dist-info", "--metadata-directory", folder]
        subprocess.run(command, cwd=HERE, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return dict(files_below(folder))


def files_below(folder, prefix=""):
    for parent, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            path = os.path.join(parent, name)
            with open(path, "rb") as file:
                yield prefix + os.path.relpath(path, folder), file.read()


def pack(program_path, out):
    with open(program_path, "rb") as file:
        program = file.read()
    tag = "py3-none-" + platform_tag(program)
    metadata = metadata_files()
    dist_info = next(iter(metadata)).split("/")[0]
    stem = dist_info[: -len(".dist-info")]
    metadata[dist_info + "/WHEEL"] = re.sub(rb"(?m)^Tag: .*$", b"Tag: " + tag.encode(), metadata[dist_info + "/WHEEL"])
    package = files_below(os.path.join(HERE, "oomdoctor"), "oomdoctor/")
    contents = [(name, data, FILE) for name, data in package if "__pycache__" not in name]
    contents.append((stem + ".data/scripts/oomdoctor", program, EXECUTABLE))
    contents += [(name, data, FILE) for name, data in metadata.items()]
    record = dist_info + "/RECORD"
    lines = ["{},sha256={},{}".format(name, digest(data), len(data)) for name, data, _ in contents] + [record + ",,"]
    contents.append((record, ("\n".join(lines) + "\n").encode(), FILE))
    path = os.path.join(out, "{}-{}.whl".format(stem, tag))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, data, mode in contents:
            # The same time in every wheel makes equal contents equal files.
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.external_attr = mode << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(info, data)
    return path


def digest(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    os.makedirs(sys.argv[2], exist_ok=True)
    print(pack(sys.argv[1], sys.argv[2]))
