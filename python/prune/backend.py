"""The build backend of tarn-gpu-prune: scikit-build-core, and an sdist with the sources of Tarn.

The project is a folder of Tarn's checkout and is built from the CMake project two folders above. An
sdist has no folder above itself. So it gets what that CMake project reads, and a pyproject.toml
whose paths lead there.
"""

import os
import pathlib
import shutil
import tempfile

from scikit_build_core import build as core
from scikit_build_core.build import *  # noqa: F403

HERE = pathlib.Path(__file__).resolve().parent
OWN = ("LICENSE", "README.md", "backend.py")
CHECKOUT = HERE.parents[1]
SOURCES = ("CMakeLists.txt", "cmake", "include", "sim", "src")


def _copy_project(folder):
    """Copy what an sdist has into an empty folder."""
    for name in OWN:
        shutil.copy(HERE / name, folder)
    for name in SOURCES:
        path = CHECKOUT / name
        if path.is_dir():
            shutil.copytree(path, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(path, folder)
    text = (HERE / "pyproject.toml").read_text()
    text = text.replace('"../.."', '"."').replace('"../../', '"')
    (folder / "pyproject.toml").write_text(text)


def build_sdist(sdist_directory, config_settings=None):
    """Make the sdist, in a checkout or in an unpacked sdist."""
    out = os.path.abspath(sdist_directory)
    if (HERE / "CMakeLists.txt").exists():  # an unpacked sdist is whole
        return core.build_sdist(out, config_settings)
    with tempfile.TemporaryDirectory() as folder:
        _copy_project(pathlib.Path(folder))
        before = os.getcwd()
        os.chdir(folder)
        try:
            return core.build_sdist(out, config_settings)
        finally:
            os.chdir(before)
