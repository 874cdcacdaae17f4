"""The sdists of both distributions: unpacked in an empty folder, built into wheels, imported."""

import os
import sys
import tarfile

import pytest
from conftest import PROJECT, run

SOURCES = {"tarn_gpu": PROJECT, "tarn_gpu_prune": PROJECT / "python/prune"}
# One pruner, for the LLVM of the llvmlite here: the others are built in the same way.
OPTIONS = {"tarn_gpu": [], "tarn_gpu_prune": ["--config-settings=cmake.define.TARN_LLVM_ALSO="]}

# Calls the build backend of a project as pip does.
BACKEND = """
import sys, tomllib
with open("pyproject.toml", "rb") as file:
    system = tomllib.load(file)["build-system"]
sys.path[:0] = system.get("backend-path", [])
backend = __import__(system["build-backend"], fromlist=["build_sdist"])
print(backend.build_sdist(sys.argv[1]))
"""


def make_sdist(project, folder):
    """Return the archive that the build backend of a project makes."""
    out = run(sys.executable, "-c", BACKEND, folder, cwd=project, timeout=900)
    return folder / out.split()[-1]


def unpack(archive, folder):
    with tarfile.open(archive) as tar:
        tar.extractall(folder)
    (root,) = folder.iterdir()
    return root


@pytest.fixture(scope="module")
def wheels(tmp_path_factory):
    """Wheels of both, from unpacked sdists, by name of the distribution."""
    made = {}
    for name, project in SOURCES.items():
        folder = tmp_path_factory.mktemp(name)
        root = unpack(make_sdist(project, folder), folder / "unpacked")
        run(
            *(sys.executable, "-m", "pip", "wheel", "-q", "--no-build-isolation", "--no-deps"),
            *("-w", folder, *OPTIONS[name], root),
            cwd=folder,
            timeout=1500,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder)},
        )
        (made[name],) = folder.glob("*.whl")
    return made


@pytest.mark.full
def test_wheels_of_the_sdists_import_and_allocate(wheels, tmp_path):
    site = tmp_path / "site"
    run(
        *(sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"),
        *("--target", site, *wheels.values()),
    )
    program = """if True:
        import tarn, tarn.prune
        buffer = tarn.DeviceBuffer.to_device(bytes(range(80)))
        assert buffer.tobytes() == bytes(range(80))
        print(tarn.__file__, tarn.prune.llvm_version())
        with open("/proc/self/maps") as maps:
            print(*{line.split()[-1] for line in maps if "/libtarn" in line})
    """
    environment = {**os.environ, "PYTHONPATH": str(site), "TARN_DRIVER": "sim"}
    said = run(sys.executable, "-c", program, env=environment, cwd=tmp_path)
    module, _version, *libraries = said.split()
    assert len(libraries) == 2
    assert {path.startswith(f"{site}/tarn/") for path in (module, *libraries)} == {True}, said
    assert "driver simulator" in run(site / "bin/tarn", "info", env=environment)
    assert (site / "share/man/man1/tarn.1").exists()


def test_an_unpacked_sdist_makes_the_same_sdist(tmp_path):
    """The backend of tarn-gpu-prune takes its sources from two folders above, or beside itself."""
    first = make_sdist(SOURCES["tarn_gpu_prune"], tmp_path)
    root = unpack(first, tmp_path / "unpacked")
    again = tmp_path / "again"
    again.mkdir()
    second = make_sdist(root, again)
    with tarfile.open(first) as one, tarfile.open(second) as other:
        assert set(one.getnames()) == set(other.getnames())
    assert not (root / "python").exists()
    assert "../.." not in (root / "pyproject.toml").read_text()
