#!/usr/bin/env python3
"""Checks that a module includes only modules below it, and that each file begins with a comment.

    rooms.py [ROOT]     prints `path:line: error`, exit 1 if there is any

The modules and their order are those of ARCHITECTURE.md. Clients (the tool, the extension, the
examples) include only the public headers.
"""

import pathlib
import re
import sys

ROOMS = [
    "base",
    "driver",
    "sim",
    "nrt",
    "helper",
    "prune",
    "resource",
    "trace",
    "adaptor",
    "device",
    "pointer",
    "ipc",
    "manager",
]
# The simulator is a library of its own. It includes only the lowest module and, of the driver's
# module, the types that both sides of the driver's interface share.
SIM_MAY_INCLUDE = {"base", "sim", "driver/cuda_abi.h"}
# Public headers of the lowest module, and the one that includes all public headers.
HEADER_ROOM = {
    "status": "base",
    "version": "base",
    "nrt_names": "nrt",
    "nrt_external": "nrt",
    "nrt_resource": "resource",
    "pool": "resource",
}
FRONT = ["cli", "python/ext", "examples", "bench"]
SPOKEN = {".c": r"/[*/]", ".h": r"/[*/]", ".py": r'#|r?"""', ".sh": r"#", ".txt": r"#"}
INCLUDE = re.compile(r'\s*#\s*include\s+["<]([^">]+)[">]')


def files(root, folder, endings):
    """Return every file below a folder with one of these endings, in a fixed order."""
    return sorted(p for p in (root / folder).rglob("*") if p.suffix in endings)


def includes(path):
    """Yield (line number, included name) for each include of a file."""
    for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
        if match := INCLUDE.match(line):
            yield number, match[1]


def room_of(included):
    """Return the module of an included name; None for system headers and the like."""
    folder, _, rest = included.partition("/")
    if folder == "tarn" and rest:
        name = rest.removesuffix(".h")
        return HEADER_ROOM.get(name, name)
    return folder if folder in ROOMS and rest else None


def refusal(room, included):
    """Return why a file of `room` may not include this, or None."""
    other = room_of(included)
    if other is None or other == room:
        return "leaves its folder by ..; write room/file.h" if ".." in included else None
    if room == "sim":
        allowed = other in SIM_MAY_INCLUDE or included in SIM_MAY_INCLUDE
        return None if allowed else f"the stand-in includes {included}"
    if other == "sim":
        return f"includes {included} of the stand-in, which is a library of its own"
    if other not in ROOMS or ROOMS.index(other) > ROOMS.index(room):
        return f"{room} includes upstairs: {included}"
    return None


def upstairs(root):
    """Return includes in src/ and include/ that name a module above."""
    for path in files(root, "src", {".c", ".h"}):
        room = path.relative_to(root / "src").parts[0]
        if room not in ROOMS:
            yield path, 1, f"no room is called {room}"
            continue
        for number, included in includes(path):
            if why := refusal(room, included):
                yield path, number, why
    for path in files(root, "include", {".h"}):
        room = room_of(f"tarn/{path.name}")
        for number, included in includes(path):
            if path.stem != "tarn" and (why := refusal(room, included)):
                yield path, number, why


def past_the_door(root):
    """Return includes of internal headers by clients of the public headers."""
    for folder in FRONT:
        for path in files(root, folder, {".c", ".h"}):
            for number, included in includes(path):
                if included.partition("/")[0] in ROOMS:
                    yield path, number, f"{folder} includes {included}, not a public header"


def silent(root):
    """Return files whose first line is no comment."""
    for folder in [
        "src",
        "include",
        "cli",
        "python",
        "tests",
        "examples",
        "tools",
        "cmake",
        "bench",
    ]:
        for path in files(root, folder, set(SPOKEN)):
            first = path.read_text(errors="replace").split("\n", 1)[0]
            is_list = path.suffix == ".txt" and path.name != "CMakeLists.txt"
            if not is_list and not re.match(SPOKEN[path.suffix], first):
                yield path, 1, "the first line is no comment that says what the file is"


def main(arguments):
    root = pathlib.Path(arguments[0] if arguments else ".").resolve()
    if not (root / "src").is_dir():
        print(f"rooms.py: no src in {root}", file=sys.stderr)
        return 2
    found = [*upstairs(root), *past_the_door(root), *silent(root)]
    for path, number, why in found:
        print(f"{path.relative_to(root)}:{number}: {why}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
