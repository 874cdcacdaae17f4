"""Compilation of the C++ sources that the package ships, on first use.

Some extensions depend on the exact version of another package, so a wheel cannot hold them.
build() compiles such a source on the machine of its user and keeps the result in a cache of
the user: `TARN_CACHE_DIR`, else `$XDG_CACHE_HOME/tarn`, else `~/.cache/tarn`.

A process loads what the cache holds, so other users must not be able to write to it. build()
makes its folder `build` with mode 0700. It fails if another user owns the folder or can write to
it. It replaces a file that another user owns or can write to.

The sources are C++17. The result exports only what its source marks as visible. A file gets its
name when it is complete. A lock lets one process of several compile.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import shlex
import shutil
import stat
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

SOURCES = Path(__file__).parent

_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w")
_PATIENCE_S = 600
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class BuildError(RuntimeError):
    """A requirement is missing, the cache is unsafe, or the compiler failed."""


class MissingError(BuildError):
    """A compiler, a header or a library is missing."""


def find_compiler() -> list[str]:
    """Return the command of the C++ compiler: that of CXX, else `g++`, `c++` or `clang++`.

    Raises
    ------
    MissingError
        There is none.
    """
    wanted = shlex.split(os.environ.get("CXX", ""))
    for command in [wanted] if wanted else [["g++"], ["c++"], ["clang++"]]:
        found = shutil.which(command[0])
        if found:
            return [found, *command[1:]]
    missing = f"CXX={wanted[0]}" if wanted else "g++, c++ and clang++"
    raise MissingError(f"a C++ compiler is missing: {missing} not found on the PATH")


def find_header(header: str, folders: Iterable[str | os.PathLike[str] | None], hint: str) -> Path:
    """Return the first folder that holds a header.

    Parameters
    ----------
    header : str
        The name as after `#include`.
    folders : iterable of str, path or None
        Where to search; None is skipped.
    hint : str
        The package that has the header, for the error message.

    Raises
    ------
    MissingError
        No folder has it.
    """
    for folder in folders:
        if folder is not None and (Path(folder) / header).is_file():
            return Path(folder)
    raise MissingError(f"the header {header} is missing: install {hint}")


def find_python_headers() -> Path:
    """Return the folder of Python.h.

    Raises
    ------
    MissingError
        This Python was installed without its headers.
    """
    folders = (sysconfig.get_path("include"), sysconfig.get_path("platinclude"))
    return find_header("Python.h", folders, "the headers of this Python, such as python3-dev")


def find_loaded_library(soname: str) -> Path:
    """Return the file of a library that this process has loaded.

    Parameters
    ----------
    soname : str
        Its file name, or the beginning, such as "libtarn.so".

    Raises
    ------
    MissingError
        No such library is loaded.
    """
    for line in Path("/proc/self/maps").read_text(errors="surrogateescape").splitlines():
        path = Path(line.partition("/")[1] + line.partition("/")[2])
        if path.name.startswith(soname) and path.is_file():
            return path
    raise MissingError(f"{soname} is missing: this process has not loaded it")


def build(
    name: str,
    sources: Sequence[Path],
    *,
    include_dirs: Sequence[Path] = (),
    libraries: Sequence[Path] = (),
    key: Sequence[str] = (),
) -> Path:
    """Compile sources to a shared object, or find it in the cache.

    Parameters
    ----------
    name : str
        The beginning of the file's name.
    sources : sequence of path
        The files in C++.
    include_dirs : sequence of path
        Folders of headers.
    libraries : sequence of path
        Shared libraries to link with. The process has to load them before the result.
    key : sequence of str
        What else the result depends on, such as the versions of the packages with the headers.

    Returns
    -------
    path
        The shared object. It stays where it is; a different key makes another file.

    Raises
    ------
    BuildError
        There is no compiler, the cache is unsafe or full, or the compiler failed. Then the message
        has its command and its first errors.
    """
    compiler = find_compiler()
    command = [
        *(compiler + list(_FLAGS)),
        *(f"-I{folder}" for folder in include_dirs),
        *map(str, sources),
        *map(str, libraries),
    ]
    identity = [
        command,
        [hashlib.sha256(source.read_bytes()).hexdigest() for source in sources],
        _version_of(compiler),
        platform.machine(),
        list(key),
    ]
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]
    folder = _cache()
    target = folder / f"{name}-{digest}.so"
    if not _is_ours(target):
        try:
            with _lock(folder / "lock"):
                if not _is_ours(target):
                    _compile(command, folder, target)
        except OSError as error:
            raise BuildError(f"{target} cannot be made: {error}") from error
    return target


def _version_of(compiler: list[str]) -> str:
    """Return the output of the compiler for --version."""
    try:
        done = subprocess.run([*compiler, "--version"], capture_output=True, timeout=_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"{shlex.join(compiler)} --version failed: {error}") from error
    return done.stdout.decode(errors="replace")


def _cache() -> Path:
    """Return the folder of the results, which no other user can write to; make it if necessary."""
    root = os.environ.get("TARN_CACHE_DIR")
    if not root:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        root = os.path.join(base, "tarn")
    folder = Path(os.path.abspath(root)) / "build"
    try:
        for missing in reversed([part for part in (folder, *folder.parents) if not part.exists()]):
            missing.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        parents = [(parent, parent.stat()) for parent in folder.parents]
    except OSError as error:
        raise BuildError(
            f"the cache {folder} is unavailable, set TARN_CACHE_DIR: {error}"
        ) from error
    problem = None
    if not stat.S_ISDIR(found.st_mode):
        problem = f"{folder} is not a folder"
    elif found.st_uid != os.geteuid():
        problem = f"{folder} belongs to user {found.st_uid}, not to {os.geteuid()}"
    elif found.st_mode & _OTHERS_WRITE:
        problem = f"others may write to {folder}, its mode is {stat.S_IMODE(found.st_mode):o}"
    for parent, state in parents:
        if state.st_mode & stat.S_IWOTH and not state.st_mode & stat.S_ISVTX:
            problem = f"everyone may rename what {parent} holds"
    if problem is not None:
        raise BuildError(f"the cache is unsafe, set TARN_CACHE_DIR to another folder: {problem}")
    return folder


def _is_ours(file: Path) -> bool:
    """Return True for a file that only this user can have written."""
    try:
        found = file.lstat()
    except FileNotFoundError:
        return False
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_uid == os.geteuid()
        and not found.st_mode & _OTHERS_WRITE
    )


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    """Keep other processes from compiling the same; the kernel drops the lock of a dead one."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with suppress(OSError):  # a file system without locks: both compile, both are valid
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        # Explicitly: a child that was forked meanwhile has a copy of the descriptor.
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _compile(command: list[str], folder: Path, target: Path) -> None:
    """Run the compiler and give the result its name."""
    with tempfile.TemporaryDirectory(prefix="tmp-", dir=folder) as scratch:
        made = Path(scratch) / target.name
        try:
            done = subprocess.run(
                [*command, "-o", str(made)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_PATIENCE_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise BuildError(f"{shlex.join(command)}: {error}") from error
        if done.returncode != 0:
            lines = done.stdout.decode(errors="replace").splitlines()
            errors = [line for line in lines if "error" in line] or lines
            text = "\n".join(errors[:5])
            raise BuildError(f"the compiler failed: {shlex.join(command)}\n{text}")
        made.chmod(0o700)
        os.replace(made, target)
