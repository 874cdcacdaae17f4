"""The compile lines of docs/aot.md, from an installed Tarn and from the wheel."""

import os
import pathlib
import subprocess
import sys

import pytest
from conftest import PROJECT, run

EXAMPLE = PROJECT / "examples/aot"
SCRIPTS = pathlib.Path(sys.executable).parent


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    """Compile the functions of the example, with the Numba of this environment."""
    folder = tmp_path_factory.mktemp("kernels")
    run(sys.executable, EXAMPLE / "kernels.py", folder)
    return folder


def shell(line, folder, **environment):
    """Run a line of the documentation in a folder, with the scripts of the wheel on PATH."""
    path = f"{SCRIPTS}:{os.environ['PATH']}"
    return run("sh", "-c", line, cwd=folder, env={**os.environ, "PATH": path, **environment})


def check_program(folder):
    """Run the example's program, which ends with its count of MemInfos."""
    said = run(folder / "program").splitlines()
    assert said[0] == "norm: 13" and said[-1].startswith("MemInfos: ")
    return subprocess.run(["ldd", folder / "program"], capture_output=True, text=True).stdout


COMPILE = f"cc {EXAMPLE}/main.c kernels.o -I. -o program"


def test_the_line_with_tarn_nrt_config_links(kernels):
    shell(f"{COMPILE} $(tarn nrt config --cflags --libs)", kernels)
    assert "libtarn.so" in check_program(kernels)


def test_a_static_program_needs_no_libtarn(kernels):
    shell(f"{COMPILE} $(tarn nrt config --cflags --libs --static)", kernels)
    assert "libtarn" not in check_program(kernels)


def test_pkg_config_of_the_wheel_links(kernels):
    line = f"{COMPILE} $(pkg-config --cflags --libs tarn-aot tarn)"
    folder = shell("tarn nrt config --pkgconfigdir", kernels).strip()
    shell(line, kernels, PKG_CONFIG_PATH=folder)
    assert "libtarn.so" in check_program(kernels)


@pytest.mark.parametrize("package", ["tarn", "tarn-static"])
def test_pkg_config_of_an_installation_links(prefix, kernels, package):
    folder = next(prefix.rglob("tarn.pc")).parent
    shell(
        f"{COMPILE} $(pkg-config --cflags --libs tarn-aot {package}) -Wl,-rpath,{folder.parent}",
        kernels,
        PKG_CONFIG_PATH=str(folder),
    )
    assert ("libtarn.so" in check_program(kernels)) == (package == "tarn")


@pytest.mark.parametrize("options", ["", "--static", "--cflags --bad"])
def test_a_wrong_use_of_the_command_says_what_is_right(options):
    done = subprocess.run(
        [SCRIPTS / "tarn", "nrt", "config", *options.split()], capture_output=True, text=True
    )
    assert done.returncode == 2 and done.stdout == "" and "usage: tarn nrt" in done.stderr
