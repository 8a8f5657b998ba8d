"""Checks a CycloneDX file: its version, and that it lists each linked crate.

usage: sbom.py FILE VERSION < lines of "crate version"
"""

import json
import sys


def main():
    bom = json.load(open(sys.argv[1], encoding="utf-8"))
    problems = []
    if bom.get("bomFormat") != "CycloneDX" or not bom.get("specVersion"):
        problems.append("it is no CycloneDX file")
    root = bom["metadata"]["component"]
    if (root["name"], root["version"]) != ("oomdoctor", sys.argv[2]):
        problems.append(f"it describes {root['name']} {root['version']}")
    listed = {(part["name"], part["version"]) for part in bom["components"]}
    linked = {tuple(line.split()) for line in sys.stdin if line.strip()} - {("oomdoctor", sys.argv[2])}
    problems += [f"{name} {version} is linked but not listed" for name, version in sorted(linked - listed)]
    # Helpers of the tests; their presence would mean that more than the program was listed.
    problems += [f"{name} is only used by tests" for name, _ in sorted(listed) if name in ("insta", "proptest", "divan")]
    if not linked:
        problems.append("cargo tree named no linked crate")
    if problems:
        sys.exit("\n".join(f"{sys.argv[1]}: {problem}" for problem in problems))
    print(f"{len(listed)} crates listed, {len(linked)} of them linked")


main()
