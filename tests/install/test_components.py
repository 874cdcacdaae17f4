"""The components of an installation: each has its files, and works with those it needs.

The build is the preset `user` with the Python package, in the folders of a Debian package. Its
flags are those of the release build, whose objects ccache may have.
"""

import os
import re
import sys

import pytest
from conftest import PROJECT, build, run

LIB = "lib/x86_64-linux-gnu"
SITE = f"lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
COMPONENTS = ["runtime", "development", "simulator", "python"]
SIM = {**os.environ, "TARN_DRIVER": "sim"}


@pytest.fixture(scope="session")
def user_build(tmp_path_factory):
    """Build as if there were no cmocka."""
    folder = tmp_path_factory.mktemp("user")
    run(
        "cmake",
        "--preset",
        "user",
        "-B",
        folder,
        "-DTARN_WERROR=ON",
        "-DCMAKE_DISABLE_FIND_PACKAGE_cmocka=ON",
        "-DTARN_PYTHON=ON",
        f"-DPython_EXECUTABLE={sys.executable}",
        f"-DCMAKE_INSTALL_LIBDIR={LIB}",
        cwd=PROJECT,
    )
    run("cmake", "--build", folder, timeout=900)
    return folder


def test_a_plain_build_needs_no_cmocka_and_lets_warnings_pass(tmp_path):
    said = run(
        "cmake",
        "-S",
        PROJECT,
        "-B",
        tmp_path,
        "-DTARN_PRUNE=OFF",
        "-DCMAKE_DISABLE_FIND_PACKAGE_cmocka=ON",
    )
    assert "Tarn: tests and benchmarks: OFF" in said
    assert "-Werror" not in (tmp_path / "compile_commands.json").read_text()


def install(user_build, prefix, *components):
    for component in components:
        run("cmake", "--install", user_build, "--prefix", prefix, "--component", component)
    return prefix


def names(prefix):
    """Return files and links below `prefix`, without versions."""
    return {
        re.sub(r"(\.so)[.0-9]+$", r"\1.N", str(path.relative_to(prefix)))
        for path in prefix.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }


def test_each_component_has_what_it_is_for(user_build, tmp_path):
    has = {
        component: names(install(user_build, tmp_path / component, component))
        for component in COMPONENTS
    }
    assert has["runtime"] == {
        f"{LIB}/libtarn.so.N",
        "bin/tarn",
        "share/man/man1/tarn.1",
        "share/tarn/LICENSE",
    }
    assert has["simulator"] == {f"{LIB}/tarn/sim/libcuda.so", f"{LIB}/tarn/sim/libcuda.so.N"}
    headers = {f"include/tarn/{path.name}" for path in PROJECT.glob("include/tarn/*.*h*")}
    assert has["development"] == headers | {
        f"{LIB}/libtarn.so",
        f"{LIB}/libtarn.a",
        f"{LIB}/libtarn_aot.a",
        f"{LIB}/pkgconfig/tarn.pc",
        f"{LIB}/pkgconfig/tarn-aot.pc",
        f"{LIB}/pkgconfig/tarn-static.pc",
        f"{LIB}/cmake/tarn/tarnConfig.cmake",
        f"{LIB}/cmake/tarn/tarnConfigVersion.cmake",
        "share/tarn/conformance/tarn_conformance.c",
        "share/tarn/conformance/tarn_conformance.h",
        "share/tarn/nrt_device.cu",
    }
    modules = {
        f"{SITE}/tarn/{path.relative_to(PROJECT / 'python/tarn')}"
        for path in (PROJECT / "python/tarn").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    others = has["python"] - modules
    assert modules < has["python"]
    assert {f"{SITE}/tarn.pth", f"{SITE}/tarn/lib", f"{SITE}/tarn/include"} < others
    assert {name.split("/")[-1].split(".")[0] for name in others} == {
        "tarn",
        "_tarn_start",
        "pytest_tarn",
        "pytest_tarn_sim",
        "lib",
        "include",
        "_tarn",
        "_nrt_python",
    }


def test_the_components_are_the_whole_installation_and_share_nothing(user_build, tmp_path):
    run("cmake", "--install", user_build, "--prefix", tmp_path / "all")
    parts = [names(install(user_build, tmp_path / part, part)) for part in COMPONENTS]
    assert names(tmp_path / "all") == set().union(*parts)
    assert len(names(tmp_path / "all")) == sum(map(len, parts))


def test_projects_build_against_runtime_and_development(user_build, tmp_path):
    prefix = install(user_build, tmp_path / "prefix", "runtime", "development")
    folder = build("consumer", tmp_path / "consumer", prefix)
    assert run(folder / "consumer_aot") == "reshape 1, stride 8\n"  # needs no driver
    install(user_build, prefix, "simulator")
    assert run(folder / "consumer", env=SIM) == "tarn 0.2.0\n"


def test_projects_are_told_when_the_runtime_is_missing(user_build, tmp_path):
    prefix = install(user_build, tmp_path / "prefix", "development")
    with pytest.raises(AssertionError, match="libtarn is not in"):
        build("consumer", tmp_path / "consumer", prefix)


def test_cmake_finds_the_components_that_are_installed_and_no_others(user_build, tmp_path):
    prefix = install(user_build, tmp_path / "prefix", "runtime", "development")
    there = "-Dcomponents=static;aot;nrt_device"
    build("consumer", tmp_path / "consumer", prefix, there)
    for absent in "simulator", "nonsense":
        with pytest.raises(AssertionError, match=f"tarn has no component {absent}"):
            build("consumer", tmp_path / absent, prefix, f"-Dcomponents=static;{absent}")
    install(user_build, prefix, "simulator")
    build("consumer", tmp_path / "simulator", prefix, there + ";simulator")


@pytest.mark.parametrize("name, source", [("tarn-static", "static.c"), ("tarn-aot", "aot.c")])
def test_pkg_config_links_the_static_libraries(user_build, tmp_path, name, source):
    prefix = install(user_build, tmp_path / "prefix", "runtime", "development")
    environment = {**SIM, "PKG_CONFIG_PATH": str(prefix / LIB / "pkgconfig")}
    packages = [name] if name == "tarn-static" else [name, "tarn"]
    flags = run("pkg-config", "--cflags", "--libs", *packages, env=environment).split()
    program = tmp_path / "program"
    run("cc", PROJECT / "tests/install/consumer" / source, "-o", program, *flags,
        f"-Wl,-rpath,{prefix / LIB}")  # fmt: skip
    install(user_build, prefix, "simulator")
    assert run(program, env=environment)


def test_the_library_finds_the_simulator_where_it_is_installed(user_build, tmp_path):
    prefix = install(user_build, tmp_path, "runtime")
    with pytest.raises(AssertionError, match=f"{LIB}/tarn/sim/libcuda.so.1"):
        run(prefix / "bin/tarn", "info", env=SIM)
    install(user_build, prefix, "simulator")
    assert f"{LIB}/tarn/sim/libcuda.so.1" in run(prefix / "bin/tarn", "info", env=SIM)


def test_the_python_package_runs_on_the_installed_library(user_build, tmp_path):
    prefix = install(user_build, tmp_path, "runtime", "simulator", "development", "python")
    program = """if True:
        import os, tarn
        buffer = tarn.DeviceBuffer.to_device(bytes(range(80)))
        assert buffer.tobytes() == bytes(range(80))
        assert os.path.exists(os.path.join(tarn.get_include(), "tarn", "tarn.h"))
        assert os.path.exists(os.path.join(tarn.get_library_dir(), "libtarn.so"))
        with open("/proc/self/maps") as maps:
            print(*{line.split()[-1] for line in maps if "libtarn.so" in line})
    """
    said = run(sys.executable, "-c", program, env={**SIM, "PYTHONPATH": str(prefix / SITE)})
    (library,) = said.split()
    assert library.startswith(f"{prefix}/{LIB}/libtarn.so.")
