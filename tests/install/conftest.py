"""Fixtures of the installation tests: one installation in a folder of its own, and the wheel.

They run with the interpreter of the environment that has the wheel, after a build in build/release
(TARN_BUILD names another), on the simulator.
"""

import importlib.util
import os
import pathlib
import subprocess

import pytest

PROJECT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("TARN_BUILD", PROJECT / "build" / "release"))


def run(*command, **options):
    """Run a command that has to succeed; a failure shows its output."""
    options.setdefault("timeout", 300)
    done = subprocess.run(
        [str(part) for part in command],
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        **options,
    )
    assert done.returncode == 0, f"{command}: exit {done.returncode}\n{done.stdout}"
    return done.stdout


def build(source, build_folder, prefix, *options):
    """Configure and build a CMake project that finds Tarn under `prefix`."""
    run(
        "cmake",
        "-G",
        "Ninja",
        "-S",
        PROJECT / "tests/install" / source,
        "-B",
        build_folder,
        f"-DCMAKE_PREFIX_PATH={prefix}",
        *options,
    )
    run("cmake", "--build", build_folder)
    return build_folder


@pytest.fixture(scope="session")
def prefix(tmp_path_factory):
    """Install Tarn with `cmake --install` and then move it: no file may depend on its path."""
    first = tmp_path_factory.mktemp("install") / "first"
    run("cmake", "--install", BUILD, "--prefix", first)
    return first.rename(first.with_name("moved"))


@pytest.fixture(scope="session")
def package():
    """Return the folder of the package `tarn` in the environment; it is a prefix as well."""
    return pathlib.Path(importlib.util.find_spec("tarn").submodule_search_locations[0])
