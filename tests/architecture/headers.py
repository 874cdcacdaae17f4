#!/usr/bin/env python3
"""Checks that headers declare the shared functions of a file, under names with its stem.

    headers.py [MODULE...]    prints the functions that break a rule

A shared function is one that another stem of the project mentions; the public API is not meant.
x.h, or the header that the table of modules names, declares the shared functions of x.c. The name
of a shared function of x.c or x.h begins with `tarn__x` or `sim_x`.
"""

import sys
from collections.abc import Collection, Mapping
from pathlib import PurePosixPath

from calls import DRIVER_CALL, Function, Source, parse
from project import MODULES, Module, public_names, sources

Project = dict[str, dict[str, Source]]  # module, path in the module


def parsed(texts: Mapping[str, Mapping[str, str]]) -> Project:
    """Return the parsed files of each module."""
    return {
        module: {path: parse(text) for path, text in files.items()}
        for module, files in texts.items()
    }


def users(project: Project) -> dict[str, set[str]]:
    """Return for each name the stems (module/stem) that mention it."""
    found: dict[str, set[str]] = {}
    for module, files in project.items():
        for path, source in files.items():
            stem = f"{module}/{path.rpartition('.')[0]}"
            own = {function.name for function in source.functions}
            mentioned = [source.mentions, *source.macros.values()]
            mentioned += [function.mentions for function in source.functions]
            for mentions in mentioned:
                for name in {name for name, _ in mentions} - own:
                    found.setdefault(name, set()).add(stem)
    return found


def shared(project: Project, public: Collection[str] = ()) -> dict[str, list[tuple[str, Function]]]:
    """Return for each module the functions that another stem mentions, with the file of each."""
    used = users(project)
    found: dict[str, list[tuple[str, Function]]] = {module: [] for module in project}
    for module, files in project.items():
        for path, source in sorted(files.items()):
            stem = f"{module}/{path.rpartition('.')[0]}"
            for function in source.functions:
                name = function.name
                if name in public or DRIVER_CALL.match(name):
                    continue
                is_shared = path.endswith(".h") or not function.is_static
                if is_shared and used.get(name, set()) - {stem}:
                    found[module].append((path, function))
    return found


def without_header(
    project: Project, public: Collection[str] = (), modules: Collection[Module] = MODULES
) -> dict[str, list[str]]:
    """Return `file: function` for each shared function that neither header declares."""
    headers = {module.name: module.header for module in modules}
    found: dict[str, list[str]] = {}
    for module, functions in shared(project, public).items():
        files = project[module]
        nothing = Source()
        for path, function in functions:
            own = files.get(str(PurePosixPath(path).with_suffix(".h")), nothing)
            common = files.get(headers.get(module, ""), nothing)
            if path.endswith(".c") and function.name not in own.declared | common.declared:
                found.setdefault(module, []).append(f"{path}: {function.name}")
    return found


def without_stem(project: Project, public: Collection[str] = ()) -> dict[str, list[str]]:
    """Return `file: function` for each shared function without the stem of its file in the name."""
    found: dict[str, list[str]] = {}
    for module, functions in shared(project, public).items():
        for path, function in functions:
            stem = PurePosixPath(path).stem
            if not function.name.startswith((f"tarn__{stem}", f"sim_{stem}")):
                found.setdefault(module, []).append(f"{path}: {function.name}")
    return found


def main(arguments: list[str]) -> int:
    project, public = parsed(sources()), public_names()
    count = shared(project, public)
    no_header, no_stem = without_header(project, public), without_stem(project, public)
    for module in arguments or project:
        bad = no_header.get(module, []), no_stem.get(module, [])
        print(f"{module}: {len(count[module])} shared functions, {len(bad[0])} that no header of "
              f"their name declares, {len(bad[1])} without their stem")  # fmt: skip
        for what, names in zip(("no header", "no stem"), bad):
            print("".join(f"    {what}: {name}\n" for name in names), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
