"""docs/licences.md: its tables list the objects of the wheels, their libraries and the extras."""

import fnmatch
import importlib.metadata
import re
import subprocess
import tomllib
import zipfile

import pytest
from conftest import PROJECT

PAGE = (PROJECT / "docs/licences.md").read_text()
WHEELS = ("tarn_gpu", "tarn_gpu_prune")
BINARY = (b"\x7fELF", b"!<ar")


def table(heading):
    """Return the rows of the first table below a heading, without its head."""
    section = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def spans(cell):
    return re.findall(r"`([^`]+)`", cell)


@pytest.fixture(scope="module", params=WHEELS)
def wheel(request):
    """A wheel that ./check has built: its distribution, and its archive."""
    (path,) = (PROJECT / "build/wheel").glob(f"{request.param}-*.whl")
    return request.param, zipfile.ZipFile(path)


def binaries(archive):
    return [name for name in archive.namelist() if archive.open(name).read(4) in BINARY]


def needed(archive, name, folder):
    """Return the libraries that an object names, those of the two wheels left out."""
    path = archive.extract(name, folder)
    out = subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True)
    found = re.findall(r"\(NEEDED\).*\[(.*)\]", out.stdout)
    return {one for one in found if not one.startswith(("libtarn.so.", "libcuda.so."))}


def test_the_page_lists_the_compiled_files(wheel):
    distribution, archive = wheel
    rows = [spans(row[0])[0] for row in table("Contents of the wheels")
            if row[1] == distribution.replace("_", "-")]  # fmt: skip
    found = binaries(archive)
    assert [name for name in found if not any(fnmatch.fnmatch(name, row) for row in rows)] == []
    assert [row for row in rows if not fnmatch.filter(found, row)] == []


def test_all_other_files_are_of_this_repository(wheel):
    """So that no file of another project gets into a wheel without a row of the page."""
    _, archive = wheel
    made = re.compile(r"\.dist-info/|/cmake/tarn/tarnConfig|/pkgconfig/|tarn/lib/libtarn\.so$")
    others = []
    for name in set(archive.namelist()) - set(binaries(archive)):
        places = [PROJECT / "python" / name, PROJECT / name.removeprefix("tarn/")]
        if name.endswith("/share/man/man1/tarn.1"):
            places.append(PROJECT / "docs/reference/tarn.1")
        if not made.search(name) and not any(place.is_file() for place in places):
            others.append(name)
    assert others == []


def test_the_page_lists_the_linked_libraries(wheel, tmp_path):
    _, archive = wheel
    rows = [(spans(row[0]), spans(row[2]) or ["*"]) for row in table("Linked libraries")]
    used = set()
    for name in binaries(archive):
        if name.endswith(".a"):
            continue
        for library in needed(archive, name, tmp_path):
            fitting = [
                (patterns, objects)
                for patterns, objects in rows
                if any(fnmatch.fnmatch(library, one) for one in patterns)
                and any(fnmatch.fnmatch(name, one) for one in objects)
            ]
            assert fitting, f"{name} links {library}: no row of docs/licences.md has both"
            used.add(fitting[0][0][0])
    mine = {
        patterns[0]
        for patterns, objects in rows
        if any(fnmatch.filter(archive.namelist(), one) for one in objects)
    }
    assert used == mine


def test_the_page_lists_the_extras():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == []
    rows = {
        row[0].strip("`"): (row[1], row[2]) for row in table("Packages that the extras install")
    }
    extras = {
        name: re.split(r"[\[<>=~!]", packages[0])[0]
        for name, packages in project["optional-dependencies"].items()
    }
    assert {name: package for name, (package, _) in rows.items()} == extras
    for package, licence in rows.values():
        seen = importlib.metadata.metadata(package)
        assert licence in (seen["License-Expression"], seen["License"]), package
