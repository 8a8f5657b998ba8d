"""Keeps what is linked in a CycloneDX file, and checks that nothing linked is absent.

usage: sbom.py FOUND RESULT VERSION < lines of "crate version", as cargo tree names them

cargo-cyclonedx takes its list from `cargo metadata`, which names macros, and crates behind features that are off.
"""

import json
import sys


def main():
    found, result, version = sys.argv[1:]
    linked = {tuple(line.split()) for line in sys.stdin if line.strip()} - {("oomdoctor", version)}
    with open(found, encoding="utf-8") as file:
        bom = json.load(file)
    root = bom["metadata"]["component"]
    if (bom["bomFormat"], root["name"], root["version"]) != ("CycloneDX", "oomdoctor", version):
        sys.exit(f"{found} does not describe oomdoctor {version}")
    listed = {(part["name"], part["version"]) for part in bom["components"]}
    absent = [f"{name} {crate_version}" for name, crate_version in sorted(linked - listed)]
    if absent or not linked:
        sys.exit(f"{found} lacks crates that are linked: {', '.join(absent) or 'cargo tree named none'}")
    bom["components"] = [part for part in bom["components"] if (part["name"], part["version"]) in linked]
    kept = {part["bom-ref"] for part in bom["components"]} | {root["bom-ref"]}
    bom["dependencies"] = [
        {**entry, "dependsOn": [ref for ref in entry.get("dependsOn", []) if ref in kept]}
        for entry in bom["dependencies"]
        if entry["ref"] in kept
    ]
    with open(result, "w", encoding="utf-8") as file:
        json.dump(bom, file, indent=1)
        file.write("\n")
    print(f"{len(linked)} crates are linked, of {len(listed)} that were listed")


main()
