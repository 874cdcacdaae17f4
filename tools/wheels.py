#!/usr/bin/env python3
"""Builds wheels of tarn-gpu for glibc 2.28 and each Python below .pythons/, and tries them there.

    tools/wheels.py [VERSION...]    build into build/wheelhouse, audit, install, run
    tools/wheels.py --try WHEEL...  only install and run these

`zig cc` compiles and links against an old glibc, whatever the system has. tools/pythons.py unpacks
the Pythons; a version without one is reported as not tried. Each wheel is installed into an
environment that has nothing else, where programs allocate on the driver simulator.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pythons
from pythons import ROOT, run

GLIBC = "2.28"
PLATFORM = "manylinux_2_28_x86_64"
TOOLS = ROOT / ".venv-wheels/bin"
OUT = ROOT / "build/wheelhouse"
WORK = ROOT / "build/zig"
PROGRAMS = ("examples/python/first.py", "examples/python/pool.py")


def write_compiler() -> pathlib.Path:
    """A command that compiles for the old glibc."""
    zig = next(TOOLS.parent.glob("lib/python3*/site-packages/ziglang/zig"))
    compiler = WORK / "zig-cc"
    text = f'#!/bin/sh\nexec {zig} cc -target x86_64-linux-gnu.{GLIBC} "$@"\n'
    if not compiler.exists() or compiler.read_text() != text:  # ccache looks at its time
        compiler.write_text(text)
        compiler.chmod(0o755)
    return compiler


def zlib() -> list[str]:
    """The headers of zlib alone: beside them, /usr/include has those of another libc."""
    headers = WORK / "zlib"
    headers.mkdir(exist_ok=True)
    for name in ("zlib.h", "zconf.h"):
        shutil.copy(next(pathlib.Path("/usr/include").rglob(name)), headers)
    library = next(pathlib.Path("/usr/lib").glob("*-linux-gnu/libz.so"))
    return [
        f"--config-settings=cmake.define.ZLIB_INCLUDE_DIR={headers}",
        f"--config-settings=cmake.define.ZLIB_LIBRARY={library}",
    ]


def pip(version: str, *arguments: object, **options: object) -> None:
    run(TOOLS / "pip", "-q", "--python", pythons.python_of(version), *arguments, **options)


def build(version: str) -> pathlib.Path:
    """Build the wheel for this Python and name it after its policy.

    One build folder serves all versions: only the extension is compiled for each.
    """
    built = WORK / f"wheel-{version}"
    shutil.rmtree(built, ignore_errors=True)
    built.mkdir(parents=True)
    environment = {
        **os.environ,
        "CC": str(write_compiler()),
        "CCACHE_COMPILERTYPE": "clang",
    }
    pip(version, "install", "scikit-build-core")
    pip(version, "wheel", "--no-build-isolation", "--no-deps", "-w", built,
        f"--config-settings=build-dir={WORK}/all", "--config-settings=install.strip=true", *zlib(), ROOT,
        env=environment)  # fmt: skip
    (wheel,) = built.glob("*.whl")
    name = run(TOOLS / "wheel", "tags", "--remove", f"--platform-tag={PLATFORM}", wheel)
    OUT.mkdir(parents=True, exist_ok=True)
    return pathlib.Path(shutil.copy(built / name.strip(), OUT))


def try_wheel(wheel: pathlib.Path) -> None:
    """Install a wheel into the environment of its Python; import it and run programs."""
    tag = re.search(r"-cp3(\d+)-", wheel.name)
    if not tag:
        raise SystemExit(f"wheels: {wheel.name} is for no version of CPython")
    version = f"3.{tag[1]}"
    pip(version, "install", "--no-index", "--no-deps", "--force-reinstall", wheel)
    python = pythons.python_of(version)
    quiet = {**os.environ, "TARN_DRIVER": "sim"}
    for program in PROGRAMS:
        run(python, "-W", "error", ROOT / program, env=quiet)
    found = run(python, "-c", "import tarn; print(tarn.__version__, tarn.__file__)", env=quiet)
    information = run(python.with_name("tarn"), "info", env=quiet)
    assert "driver simulator" in information, information
    assert str(pythons.PYTHONS) in found, found
    print(f"wheels: {wheel.name}: imported and run by Python {version}")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--try", action="store_true", dest="only_try", help="build nothing")
    parser.add_argument("names", nargs="*", metavar="VERSION")
    given = parser.parse_args()
    if given.only_try:
        for name in given.names:
            try_wheel(pathlib.Path(name))
        return 0
    WORK.mkdir(parents=True, exist_ok=True)
    wheels = []
    for version in given.names or list(pythons.RELEASES):
        if not pythons.python_of(version).exists():
            print(f"wheels: Python {version}: not tried, tools/pythons.py has not unpacked it")
            continue
        wheels.append(build(version))
        try_wheel(wheels[-1])
    if not wheels:
        raise SystemExit("wheels: no Python below .pythons/: see tools/pythons.py")
    return subprocess.run([TOOLS / "python", ROOT / "tools/audit.py", *wheels]).returncode


if __name__ == "__main__":
    sys.exit(main())
