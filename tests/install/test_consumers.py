"""Other projects find an installed Tarn, build against it and run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PROJECT, build, run

WANTED = "tarn 0.2.0\n"


def test_cmake_finds_the_installation(prefix, tmp_path):
    assert run(build("consumer", tmp_path, prefix) / "consumer") == WANTED


def test_cmake_finds_the_wheel(package, tmp_path):
    assert run(build("consumer", tmp_path, package) / "consumer") == WANTED


OF_FIRST_CPP = "limiter: 2097152 bytes exceed the limit, 256 of 1048576 bytes are in use\n"


@pytest.mark.parametrize("root", ["prefix", "package"])
def test_a_project_in_cpp_finds_tarn(root, request, tmp_path):
    folder = build("cpp_consumer", tmp_path, request.getfixturevalue(root))
    environment = {**os.environ, "TARN_DRIVER": "sim"}
    assert run(folder / "cpp_consumer", env=environment) == OF_FIRST_CPP


@pytest.mark.parametrize("root", ["prefix", "package"])
def test_cmake_finds_the_helpers_of_compiled_code(root, request, tmp_path):
    folder = build("consumer", tmp_path, request.getfixturevalue(root))
    assert run(folder / "consumer_aot") == "reshape 1, stride 8\n"


@pytest.mark.parametrize("root", ["prefix", "package"])
def test_cmake_finds_the_static_library(root, request, tmp_path):
    program = build("consumer", tmp_path, request.getfixturevalue(root)) / "consumer_static"
    assert run(program) == "tarn 0.2.0, 64 bytes\n"
    assert "libtarn" not in run("ldd", program)


@pytest.mark.parametrize("root", ["prefix", "package"])
def test_cmake_finds_the_device_runtime(root, request, tmp_path):
    """A project without CUDA reads the target; tests/gpu/device_target.sh compiles with it."""
    cache = build("consumer", tmp_path, request.getfixturevalue(root)) / "device.txt"
    source, headers = cache.read_text().split()
    assert "NRT_decref" in Path(source).read_text()
    assert "NRT_decref" in (Path(headers) / "tarn/nrt_device.cuh").read_text()


def test_cmake_refuses_a_version_that_is_not_there(prefix, tmp_path):
    with pytest.raises(AssertionError, match=r'compatible\s+with requested version "0.1"'):
        build("consumer", tmp_path, prefix, "-Dwanted=0.1")


def compile_with_pkg_config(prefix, source, out, *options, compiler="cc"):
    libraries = next(prefix.rglob("tarn.pc")).parents[1]
    environment = {**os.environ, "PKG_CONFIG_PATH": str(libraries / "pkgconfig")}
    assert run("pkg-config", "--modversion", "tarn", env=environment) == "0.2.0\n"
    flags = run("pkg-config", "--cflags", "--libs", "tarn", env=environment).split()
    run(compiler, *options, PROJECT / source, "-o", out, *flags, f"-Wl,-rpath,{libraries}")
    return out


def test_pkg_config_finds_the_installation(prefix, tmp_path):
    source = "tests/install/consumer/main.c"
    assert run(compile_with_pkg_config(prefix, source, tmp_path / "consumer")) == WANTED


def test_pkg_config_serves_cpp(prefix, tmp_path):
    program = compile_with_pkg_config(
        prefix, "examples/cpp/first.cpp", tmp_path / "first", "-std=c++17", compiler="c++"
    )
    environment = {**os.environ, "TARN_DRIVER": "sim"}
    assert run(program, env=environment) == OF_FIRST_CPP


def test_somebodys_own_manager_serves_a_program_that_does_not_know_of_it(prefix, tmp_path):
    """Both are built as in docs/managers.md; the program uses the process's manager."""
    plugin = compile_with_pkg_config(
        prefix,
        "examples/plugins/cache_manager.c",
        tmp_path / "cache_manager.so",
        "-shared",
        "-fPIC",
    )
    program = compile_with_pkg_config(prefix, "examples/c/manager.c", tmp_path / "manager")
    environment = {**os.environ, "TARN_MEMORY_MANAGER": "./cache_manager.so"}
    assert "served by:    cache\n" in run(program, env=environment, cwd=tmp_path)
    assert "served by:    cache\n" in run(program, plugin)
    assert "served by:    resource\n" in run(program)


def test_the_installed_tool_runs_where_it_was_moved(prefix):
    assert "sim" in run(prefix / "bin/tarn", "info", env={**os.environ, "TARN_DRIVER": "sim"})


def test_somebodys_own_resource_passes_the_installed_conformance_suite(prefix, tmp_path):
    assert " 0 failed" in run(build("own_resource", tmp_path, prefix) / "own_resource")


def test_get_include_is_enough_to_compile(tmp_path):
    folder = run(sys.executable, "-c", "import tarn; print(tarn.get_include())").strip()
    run(
        "cc",
        "-c",
        PROJECT / "tests/install/consumer/main.c",
        "-I",
        folder,
        "-o",
        tmp_path / "main.o",
    )


def test_the_library_needs_libc_alone(prefix):
    library = next(prefix.rglob("libtarn.so"))
    needed = subprocess.run(["readelf", "-d", library], text=True, capture_output=True).stdout
    names = {line.split("[")[1].rstrip("]") for line in needed.splitlines() if "(NEEDED)" in line}
    assert names <= {"libc.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}
