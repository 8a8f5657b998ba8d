"""Expands the cargo-binstall template of Cargo.toml for the archives in a folder, and looks for the program in each.

usage: binstall.py FOLDER

The variables are those of cargo-binstall's SUPPORT.md (checked 2026-11-22).
"""

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path


def package():
    out = subprocess.run(
        ["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked", "--offline"],
        check=True, stdout=subprocess.PIPE,
    ).stdout
    return json.loads(out)["packages"][0]


def expand(template, values):
    def value(match):
        return values[match.group(1)]

    return re.sub(r"\{\s*([a-z-]+)\s*\}", value, template)


def main():
    folder = Path(sys.argv[1])
    crate = package()
    binstall = crate["metadata"]["binstall"]
    start = f"{crate['name']}-{crate['version']}-"
    for archive in sorted(folder.glob(start + "*.tar.gz")):
        target = archive.name[len(start):-len(".tar.gz")]
        values = {
            "name": crate["name"], "version": crate["version"], "target": target, "bin": "oomdoctor", "binary-ext": "",
            "repo": crate["repository"] or "https://repository-not-set.invalid/oomdoctor",
        }
        url = expand(binstall["pkg-url"], values)
        if url.rsplit("/", 1)[1] != archive.name:
            sys.exit(f"cargo-binstall would load {url}, but the archive is {archive.name}")
        program = expand(binstall["bin-dir"], values)
        with tarfile.open(archive) as members:
            if not members.getmember(program).mode & 0o100:
                sys.exit(f"{program} in {archive.name} is not executable")
        print(f"cargo-binstall: {url} holds {program}")


main()
