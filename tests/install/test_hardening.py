"""Hardening of the objects of a release build, checked with readelf.

Nothing writable is executable or resolved late, nothing is searched for in the current directory,
and buffers are checked. The tests cover the installation and the wheel.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

NO_CODE = "libcuda.so"  # the simulator's second name
NO_BUFFERS = "_nrt_python"  # calls nothing that has a checked form


def readelf(*options):
    return subprocess.run(
        ["readelf", "-W", *options], text=True, check=True, capture_output=True
    ).stdout


def elf_files(root):
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


@pytest.fixture(params=["installation", "wheel"])
def objects(request):
    """Return all objects of an installation or a wheel, the command included."""
    if request.param == "installation":
        return list(elf_files(request.getfixturevalue("prefix")))
    command = Path(sys.executable).parent / "tarn"
    return [command, *elf_files(request.getfixturevalue("package"))]


def wrong(objects, holds):
    return [str(path) for path in objects if not holds(path)]


def test_all_kinds_of_objects_are_looked_at(objects):
    names = {re.split(r"[-.]", path.name)[0] for path in objects}
    assert {"tarn", "libtarn", "libcuda"} <= names
    if objects[0].parent == Path(sys.executable).parent:
        assert {"_tarn", "_nrt_python"} <= names


def test_symbols_are_bound_at_the_start_and_read_only_then(objects):
    def holds(path):
        flags = re.search(r"\(FLAGS_1\).*", readelf("-d", path))
        return flags and re.search(r"\bNOW\b", flags[0]) and "GNU_RELRO" in readelf("-l", path)

    assert wrong(objects, holds) == []


def test_the_stack_is_not_executable(objects):
    def holds(path):
        stack = re.search(r"GNU_STACK.*", readelf("-l", path))
        return stack and re.search(r" RW ", stack[0])

    assert wrong(objects, holds) == []


def test_libraries_are_searched_for_beside_the_object_alone(objects):
    def holds(path):
        found = re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", readelf("-d", path))
        return all(element.startswith("$ORIGIN") for line in found for element in line.split(":"))

    assert wrong(objects, holds) == []


def test_stacks_and_buffers_are_checked(objects):
    def holds(path):
        symbols = set(re.findall(r"\b(__\w+_chk(?:_fail)?)\b", readelf("--dyn-syms", path)))
        return path.name == NO_CODE or (
            "__stack_chk_fail" in symbols and (path.name.startswith(NO_BUFFERS) or len(symbols) > 1)
        )

    assert wrong(objects, holds) == []
