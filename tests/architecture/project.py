"""The modules of Tarn, lowest first, and the files of each. The other rules read this table.

To move a folder, change its line in MODULES; `layers.py` then says which includes are wrong.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Module:
    """A module: its files may include files of the modules before it in the table."""

    name: str
    folder: str
    # The header of the module's own. It may declare functions of any file, and it may have the
    # structure of the whole: files of each layer may include it, and it their headers.
    header: str = ""
    # Folders and stems inside the module, lowest first. Names of one string are peers: they do
    # not include or call each other. A stem's own entry counts before that of its folder. "." has
    # the other files of the module's folder.
    layers: tuple[str, ...] = ()
    # A library of its own: the folders and files that it may include. No other module may
    # include its headers.
    library: tuple[str, ...] | None = None


MODULES = (
    Module("base", "src/base"),
    Module("driver", "src/driver", header="driver.h"),
    Module("nvtx", "src/nvtx"),
    Module(
        "sim",
        "sim",
        library=("src/base", "src/driver/cuda_abi.h"),
        layers=("core", "races", "work", "memory", "module", "graph", "."),
    ),
    Module("nrt", "src/nrt", header="runtime.h"),
    Module("aot", "src/aot", library=("src/base", "src/nrt")),
    Module("prune", "src/prune", library=("src/base",)),
    Module("resource", "src/resource", header="internal.h"),
    Module("plan", "src/plan", header="plan.h"),
    Module(
        "pool",
        "src/pool",
        layers=(
            "lock mutations counts",
            "blocks backing",
            "pool",
            "order",
            "cache",
            "compact",
            "follow",
            ".",
        ),
    ),
    Module("trace", "src/trace", header="format.h"),
    Module("guard", "src/guard", header="guard.h"),
    Module("adaptor", "src/adaptor"),
    Module("device", "src/device"),
    Module("torch", "src/torch"),
    Module("pointer", "src/pointer", header="pointer.h"),
    Module("ipc", "src/ipc", header="owner.h"),
    Module("manager", "src/manager", header="manager.h"),
)

# What stands on the modules: the rule about cycles holds for these as well.
FRONT = (
    Module("cli", "cli"),
    Module("python/ext", "python/ext"),
    Module("python/ext/nrt", "python/ext/nrt"),
)

# The module of a public header that does not carry its name. tarn.h includes all.
PUBLIC_HEADERS = {
    "status": "base",
    "version": "base",
    "nrt_names": "nrt",
    "fabric": "ipc",
    "nrt_external": "nrt",
    "nrt_resource": "resource",
    "stack": "trace",
}

# Where the compiler looks for "module/file.h".
INCLUDE_ROOTS = ("src/", "")

# What uses the public headers alone.
PUBLIC_ONLY = ("cli", "python/ext", "examples", "bench")


def top_folders(modules: Sequence[Module] = MODULES) -> list[str]:
    """The folders of the project in which modules are: src, and later sim."""
    return sorted({module.folder.partition("/")[0] for module in modules})


def module_of(path: str, modules: Sequence[Module] = MODULES) -> Module | None:
    """The module of a path in the project: the one with the longest folder."""
    inside = [module for module in modules if path.startswith(module.folder + "/")]
    return max(inside, key=lambda module: len(module.folder), default=None)


def c_files(root: Path, folder: str) -> Iterator[tuple[str, Path]]:
    """(path in the project, path) of each C and C++ file below a folder, in a fixed order."""
    for path in sorted((root / folder).rglob("*.*")):
        if path.suffix in (".c", ".h", ".cpp", ".hpp"):
            yield path.relative_to(root).as_posix(), path


def sources(root: Path = PROJECT, modules: Sequence[Module] = MODULES) -> dict[str, dict[str, str]]:
    """For each module the texts of its files, by their path in the module's folder."""
    texts: dict[str, dict[str, str]] = {module.name: {} for module in modules}
    for folder in top_folders(modules):
        for name, path in c_files(root, folder):
            if module := module_of(name, modules):
                inside = PurePosixPath(name).relative_to(module.folder).as_posix()
                texts[module.name][inside] = path.read_text(errors="replace")
    return texts


def public_names(root: Path = PROJECT) -> set[str]:
    """The names that the public headers declare; `name_fn` is the type of a function `name`."""
    words: set[str] = set()
    for path in (root / "include/tarn").glob("*.h"):
        words.update(re.findall(r"\b(?:tarn_[a-zA-Z]|NRT_)\w*", path.read_text()))
    return words | {word.removesuffix("_fn") for word in words}
