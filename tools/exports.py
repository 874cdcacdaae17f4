#!/usr/bin/env python3
"""Compare the names that libtarn exports with tools/exports.txt; libtarn_prune has a list
of its own, tools/exports-prune.txt.

    tools/exports.py build/release/lib/libtarn.so           compare; exit 1 if they differ
    tools/exports.py build/release/lib/libtarn.so --write   write the list anew

A name that is not on the list, or that is no longer there, is a change of the ABI: write
the list anew in the commit that means it, and name the change in CHANGELOG.md. Some names
must never be exported, list or not: Numba's own extension exports them too, and the first
one loaded would serve both. No library may import __tls_get_addr: each access to a thread-local
variable would be a call.
"""

import pathlib
import subprocess
import sys

TOOLS = pathlib.Path(__file__).parent
TAKEN = {
    "NRT_dealloc",
    "NRT_MemInfo_alloc_external",
    "NRT_MemInfo_alloc_safe_aligned_external",
}


def dynamic_symbols(library, which):
    """Return the dynamic symbols of a library that this option of nm selects, sorted."""
    out = subprocess.run(
        ["nm", "-D", which, "--format=posix", library],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return sorted(line.split()[0].split("@")[0] for line in out.splitlines() if line)


def list_for(library):
    """The file with the names that this library may export."""
    prune = pathlib.Path(library).name.startswith("libtarn_prune")
    return TOOLS / ("exports-prune.txt" if prune else "exports.txt")


def complaints(names, path):
    """One sentence for each name that is wrong."""
    listed = path.read_text().split()
    for name in names:
        if name in TAKEN or not name.startswith("tarn_"):
            yield f"exported, but must not be: {name}"
        elif name not in listed:
            yield f"exported, but not in {path.name}: {name}"
    for name in listed:
        if name not in names:
            yield f"in {path.name}, but not exported: {name}"


def main(arguments):
    if not arguments or arguments[1:] not in ([], ["--write"]):
        print(__doc__.strip(), file=sys.stderr)
        return 2
    names = dynamic_symbols(arguments[0], "--defined-only")
    path = list_for(arguments[0])
    if arguments[1:]:
        path.write_text("".join(name + "\n" for name in names))
    found = list(complaints(names, path))
    if "__tls_get_addr" in dynamic_symbols(arguments[0], "--undefined-only"):
        found.append("imported, but must not be: __tls_get_addr")
    print("\n".join(found) or f"{len(names)} names, as listed")
    return 1 if found or not names else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
