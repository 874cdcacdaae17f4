#!/usr/bin/env python3
"""Checks that each file includes only lower layers, and begins with a comment.

    layers.py [ROOT]    prints `path:line: error`, exit 1 if there is any

The modules and their order are in project.py. The command, the extension, the examples and the
benchmarks include the public headers alone.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from project import (
    INCLUDE_ROOTS,
    MODULES,
    PROJECT,
    PUBLIC_HEADERS,
    PUBLIC_ONLY,
    Module,
    c_files,
    module_of,
    top_folders,
)

Found = tuple[str, int, str]  # path, line, what is wrong
Header = tuple[str, str]  # a file, and a header that it includes: paths in the project
COMMENT = {
    **dict.fromkeys((".c", ".h", ".cpp", ".hpp"), r"/[*/]"),
    ".py": r'#|r?"""',
    ".sh": r"#",
    ".txt": r"#",
}
COMMENTED = ("include", "cli", "python", "tests", "examples", "tools", "cmake", "bench")
INCLUDE = re.compile(r'\s*#\s*include\s+["<]([^">]+)[">]')


def includes(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line number, included name) for each include of a file."""
    for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
        if match := INCLUDE.match(line):
            yield number, match[1]


def target(included: str, modules: Sequence[Module]) -> tuple[Module | None, str]:
    """Return the module that an included name belongs to, and its path in the project. The module
    of a system header, and of a file beside the one that includes it, is None."""
    folder, _, name = included.partition("/")
    if folder == "tarn" and name:
        stem = PurePosixPath(name).stem
        wanted = PUBLIC_HEADERS.get(stem, stem)
        module = next((one for one in modules if one.name == wanted), None)
        return module, f"include/{included}"
    for root in INCLUDE_ROOTS:
        if module := module_of(root + included, modules):
            return module, root + included
    return None, included


def layer_of(path: str, module: Module) -> tuple[int, str]:
    """Return the layer of a file in its module, and its entry there; (-1, folder) if it has none.
    The path begins in the module's folder."""
    inside = PurePosixPath(path)
    folder = inside.parts[0] if len(inside.parts) > 1 else "."
    for entry in (inside.with_suffix("").as_posix(), folder):
        for number, layer in enumerate(module.layers):
            if entry in layer.split():
                return number, entry
    return -1, folder


def is_below(other: str, path: str, module: Module) -> bool:
    """Return whether this file of a module may use the other one. Both paths begin in the module's
    folder."""
    (there, other_entry), (here, entry) = layer_of(other, module), layer_of(path, module)
    return not module.layers or there < here or (there == here and other_entry == entry)


def refusal_inside(path: str, other: str, module: Module) -> str | None:
    """Return why a file of a module may not include this other one of the module, or None."""
    path, other = path[len(module.folder) + 1 :], other[len(module.folder) + 1 :]
    if module.header in (path, other) or is_below(other, path, module):
        return None
    return f"{module.name} includes {other}, which is not below it"


def refusal(path: str, included: str, module: Module, modules: Sequence[Module]) -> str | None:
    """Return why a file of `module` may not include this, or None."""
    if ".." in included.split("/"):
        return "leaves its folder by ..; write module/file.h"
    other, where = target(included, modules)
    if other is module:
        return None if where.startswith("include/") else refusal_inside(path, where, module)
    if other is None:
        return f"includes {included} of no module" if where.startswith("include/") else None
    if module.library is not None:
        folders = {other.folder, where} if where.startswith("include/") else {where}
        allowed = any(f == a or f.startswith(a + "/") for f in folders for a in module.library)
        return None if allowed else f"{module.name}, a library of its own, includes {included}"
    if other.library is not None:
        return f"includes {included} of {other.name}, which is a library of its own"
    if modules.index(other) > modules.index(module):
        return f"{module.name} includes a higher module: {included}"
    return None


def has_a_place(path: str, module: Module) -> str | None:
    """Return why the table of modules does not know the folder of a file, or None."""
    number, folder = layer_of(path[len(module.folder) + 1 :], module)
    if number >= 0 or (folder == "." and not module.layers):
        return None
    return f"the layers of {module.name} have no entry {folder}"


def wrong_includes(root: Path, modules: Sequence[Module] = MODULES) -> Iterator[Found]:
    """Return includes by modules and public headers of files that are not below them."""
    for folder in top_folders(modules):
        for name, path in c_files(root, folder):
            module = module_of(name, modules)
            if module is None:
                yield name, 1, "no module has this folder"
                continue
            if why := has_a_place(name, module):
                yield name, 1, why
            for number, included in includes(path):
                if why := refusal(name, included, module, modules):
                    yield name, number, why
    for name, path in c_files(root, "include"):
        module, _ = target(f"tarn/{path.name}", modules)
        for number, included in includes(path):
            if path.stem == "tarn":
                continue
            if module is None:
                yield name, 1, "no module has this public header"
                break
            if why := refusal(name, included, module, modules):
                yield name, number, why


def includes_of_internals(root: Path, modules: Sequence[Module] = MODULES) -> Iterator[Found]:
    """Return includes of internal headers by clients of the public ones."""
    for folder in PUBLIC_ONLY:
        for name, path in c_files(root, folder):
            for number, included in includes(path):
                module, where = target(included, modules)
                if module and not where.startswith("include/"):
                    yield name, number, f"{folder} includes {included}, not a public header"


def without_comment(root: Path, modules: Sequence[Module] = MODULES) -> Iterator[Found]:
    """Return files without a comment in the first line."""
    for folder in (*top_folders(modules), *COMMENTED):
        for path in sorted((root / folder).rglob("*")):
            is_list = path.suffix == ".txt" and path.name != "CMakeLists.txt"
            if path.suffix not in COMMENT or is_list:
                continue
            first = path.read_text(errors="replace").split("\n", 1)[0]
            if not re.match(COMMENT[path.suffix], first):
                name = path.relative_to(root).as_posix()
                yield name, 1, "the first line is no comment that says what the file is"


def main(arguments: list[str]) -> int:
    root = Path(arguments[0] if arguments else PROJECT).resolve()
    if not (root / "src").is_dir():
        print(f"layers.py: no src in {root}", file=sys.stderr)
        return 2
    found = [*wrong_includes(root), *includes_of_internals(root), *without_comment(root)]
    for path, number, why in found:
        print(f"{path}:{number}: {why}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
