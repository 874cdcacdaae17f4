"""tarn._build: sources of the package, compiled on first use and kept in a cache of the user."""

import ctypes
import multiprocessing
import os
import stat

import pytest
from tarn import _build

SOURCE = 'extern "C" __attribute__((visibility("default"))) int answer() { return ANSWER; }\n'


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A source, a header, a cache, and a compiler that counts its calls in a file."""
    compiler = tmp_path / "compiler"
    compiler.write_text(
        f'#!/bin/sh\ncase "$*" in *-shared*) echo >>{tmp_path}/calls;; esac\nexec c++ "$@"\n'
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("TARN_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "answer.cpp").write_text("#include <answer.h>\n" + SOURCE)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "answer.h").write_text("#define ANSWER 42\n")
    return tmp_path


def build(project, **more):
    return _build.build(
        "answer", [project / "answer.cpp"], include_dirs=[project / "include"], **more
    )


def calls(project):
    file = project / "calls"
    return len(file.read_text()) if file.exists() else 0


def test_a_source_becomes_a_library_that_loads(project):
    assert ctypes.CDLL(str(build(project))).answer() == 42


def test_the_second_call_finds_the_result_in_the_cache(project):
    first = build(project)
    assert build(project) == first
    assert calls(project) == 1


def test_another_key_source_or_compiler_is_another_file(project, monkeypatch):
    files = {build(project), build(project, key=["rmm 26.10"])}
    (project / "answer.cpp").write_text("#include <answer.h>\n" + SOURCE + "\n")
    files.add(build(project))
    monkeypatch.setenv("CXX", os.environ["CXX"] + " -O1")
    files.add(build(project))
    assert len(files) == calls(project) == 4


def test_nothing_but_the_results_and_the_lock_stays_in_the_cache(project):
    result = build(project)
    assert {path.name for path in result.parent.iterdir()} == {result.name, "lock"}


def test_the_error_of_the_compiler_is_in_the_message_and_nothing_stays(project):
    (project / "include" / "answer.h").write_text("#define ANSWER unknown_name\n")
    with pytest.raises(_build.BuildError, match="unknown_name.*was not declared"):
        build(project)
    assert not list((project / "cache").rglob("*.so"))


def test_processes_that_build_simultaneously_compile_once(project):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=build, args=(project,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert calls(project) == 1


def test_the_cache_is_the_users_alone_whatever_the_umask_is(project):
    before = os.umask(0)
    try:
        result = build(project)
    finally:
        os.umask(before)
    assert stat.S_IMODE(result.stat().st_mode) == 0o700
    assert stat.S_IMODE(result.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_cache_that_others_may_write_to_is_rejected(project, mode):
    folder = project / "cache" / "build"
    folder.mkdir(parents=True)
    folder.chmod(mode)
    with pytest.raises(_build.BuildError, match=f"unsafe.*mode is {mode:o}"):
        build(project)
    assert calls(project) == 0


def test_a_cache_that_everyone_may_rename_is_rejected(project):
    (project / "cache").mkdir()
    (project / "cache").chmod(0o777)
    with pytest.raises(_build.BuildError, match="everyone may rename"):
        build(project)


def test_a_link_is_no_cache(project):
    (project / "elsewhere").mkdir(mode=0o700)
    (project / "cache").mkdir()
    (project / "cache" / "build").symlink_to(project / "elsewhere")
    with pytest.raises(_build.BuildError, match="is not a folder"):
        build(project)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_cache_of_another_user_is_rejected(project):
    folder = project / "cache" / "build"
    folder.mkdir(parents=True, mode=0o700)
    os.chown(folder, 12345, -1)
    with pytest.raises(_build.BuildError, match="belongs to user 12345"):
        build(project)


def plant_mode(result):
    result.write_bytes(b"hostile")
    result.chmod(0o722)


def plant_link(result):
    other = result.parent.parent / "hostile.so"
    other.write_bytes(b"hostile")
    result.unlink()
    result.symlink_to(other)


@pytest.mark.parametrize("plant", [plant_mode, plant_link])
def test_a_file_that_others_may_have_written_is_replaced(project, plant):
    result = build(project)
    plant(result)
    assert build(project) == result
    assert not result.is_symlink() and result.read_bytes().startswith(b"\x7fELF")
    assert calls(project) == 2


def test_a_cache_that_cannot_be_made_is_an_error_that_names_the_variable(project):
    (project / "cache").write_text("")
    with pytest.raises(_build.BuildError, match="set TARN_CACHE_DIR"):
        build(project)


def test_a_result_that_cannot_be_written_is_an_error_and_nothing_stays(project, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(_build.BuildError, match="No space left"):
        build(project)
    assert [path.name for path in (project / "cache" / "build").iterdir()] == ["lock"]


def test_without_the_variable_the_cache_is_where_the_users_caches_are(project, monkeypatch):
    monkeypatch.delenv("TARN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(project / "xdg"))
    assert build(project).parent == project / "xdg" / "tarn" / "build"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(project / "home"))
    assert build(project).parent == project / "home" / ".cache" / "tarn" / "build"


def test_what_is_missing_is_named(project, monkeypatch):
    with pytest.raises(_build.MissingError, match=r"nothing\.h is missing: install the package"):
        _build.find_header("nothing.h", [None, project], "the package")
    with pytest.raises(_build.MissingError, match="libnothing.so is missing"):
        _build.find_loaded_library("libnothing.so")
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(_build.MissingError, match="CXX=no-such-compiler not found"):
        build(project)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", str(project))
    with pytest.raises(_build.MissingError, match=r"g\+\+, c\+\+ and clang\+\+ not found"):
        build(project)


def test_the_loaded_libtarn_is_found():
    assert _build.find_loaded_library("libtarn.so").is_file()
