"""`tarn nrt config`: the options with which a C program compiles and links against this Tarn."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

import tarn


def compiler_flags() -> list[str]:
    """Return the options for a C compiler."""
    return [f"-I{tarn.get_include()}"]


def linker_flags(static: bool = False) -> list[str]:
    """Return the options for a linker: the AOT support library, libtarn, and what they need.

    Parameters
    ----------
    static : bool
        Link libtarn.a. The program then needs no file of this package when it runs.
    """
    folder = tarn.get_library_dir()
    if static:
        libraries = [os.path.join(folder, "libtarn.a"), "-lpthread", "-ldl"]
    else:
        libraries = ["-ltarn", f"-Wl,-rpath,{folder}"]
    return [f"-L{folder}", "-ltarn_aot", *libraries, "-lm"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tarn nrt",
        description="Print options of compiler and linker for functions that "
        "tarn.nrt.aot.compile_ahead() compiled: cc main.c kernels.o $(tarn nrt config --cflags "
        "--libs)",
    )
    parser.add_argument("config", choices=["config"], help="the only command")
    parser.add_argument("--cflags", action="store_true", help="options of the compiler")
    parser.add_argument("--libs", action="store_true", help="options of the linker")
    parser.add_argument("--static", action="store_true", help="with --libs: link libtarn.a")
    parser.add_argument(
        "--pkgconfigdir", action="store_true", help="the folder for PKG_CONFIG_PATH"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.static and not given.libs:
        parser.error("--static is for --libs")
    if not (given.cflags or given.libs or given.pkgconfigdir):
        parser.error("which? --cflags, --libs or --pkgconfigdir")
    words = []
    if given.cflags:
        words += compiler_flags()
    if given.libs:
        words += linker_flags(given.static)
    if given.pkgconfigdir:
        words.append(os.path.join(tarn.get_library_dir(), "pkgconfig"))
    print(*words)
    return 0
