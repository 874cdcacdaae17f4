"""Run a program in this process as Python would: it is `__main__`, with its own traceback."""

from __future__ import annotations

import builtins
import os
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any


def _main_module(path: str) -> ModuleType:
    """Return an empty `__main__`, as Python creates it for a program in a file."""
    module = sys.modules["__main__"]
    annotations: Any = {"__annotations__": {}} if "__annotations__" in vars(module) else {}
    module.__dict__.clear()
    module.__dict__.update(
        annotations,
        __name__="__main__",
        __builtins__=builtins,
        __cached__=None,
        __doc__=None,
        __file__=os.path.abspath(path),
        __loader__=SourceFileLoader("__main__", path),
        __package__=None,
        __spec__=None,
    )
    return module


def run_file(path: str, command: str) -> None:
    """Run a program in a file as Python would; `command` is the name in an error message."""
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"{command}: can't open {path!r}: {error.strerror}", file=sys.stderr)
        raise SystemExit(2) from None
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    run_source(source, os.path.abspath(path), _main_module(path))


def run_source(source: bytes | str, name: str, module: ModuleType) -> None:
    """Run `source` in `module`; a traceback begins with the program's own frames."""
    try:
        exec(compile(source, name, "exec"), module.__dict__)
    except Exception as error:
        trace = error.__traceback__
        sys.last_type, sys.last_value = type(error), error
        sys.last_traceback = trace = trace.tb_next if trace else None
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        raise SystemExit(1) from None
