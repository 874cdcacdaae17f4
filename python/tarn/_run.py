"""Run a Python program for `tarn run`, and report at the end if no memory came through Tarn.

`python -m tarn._run PROGRAM ARGS` does what `python PROGRAM ARGS` does: the program is
`__main__`, its folder is first on the path, and its traceback begins with its own frames. If a
requested log has no rows, the report names the reason. Examples: the program set a manager of its
own, runs on Numba's simulator, or never used CUDA.
"""

from __future__ import annotations

import atexit
import builtins
import glob
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

_DRIVERS = ("numba.cuda.cudadrv.driver", "numba_cuda_mlir.numba_cuda.cudadrv.driver")


def why_nothing_came() -> str | None:
    """Return why no memory of this process came through Tarn; None if some did."""
    plugin: Any = sys.modules.get("tarn.numba")
    if plugin is not None and plugin._tarn.log_counts()[0] > 0:
        return None
    used: Any = sys.modules.get("tarn._frameworks")
    if used is not None and any(
        state == "active" for name, state in used.states().items() if not name.startswith("numba")
    ):
        return None  # another framework allocates from Tarn, which keeps no log
    if plugin is not None and plugin._Settings.trouble:
        return str(plugin._Settings.trouble)
    if os.environ.get("NUMBA_ENABLE_CUDASIM", "0") not in ("", "0"):
        return "NUMBA_ENABLE_CUDASIM is set: Numba ran on its simulator"
    drivers = [sys.modules[name] for name in _DRIVERS if name in sys.modules]
    if not drivers:
        return "the program did not use numba.cuda"
    return _why_not_with(drivers[0])


def _why_not_with(driver: Any) -> str:
    """Return the reason that the state of Numba's driver module gives."""
    manager = driver._memory_manager
    if manager is None:
        return "Numba created no CUDA context"
    if getattr(manager, "__module__", "").startswith("tarn."):
        return "the program requested no memory from Numba"
    name = f"{manager.__module__}.{getattr(manager, '__qualname__', manager)}"
    if manager is driver.NumbaCUDAMemoryManager:
        return f"NUMBA_CUDA_MEMORY_MANAGER was changed: Numba's own manager ({name}) was used"
    return f"the program set another memory manager: {name}"


def _say_at_exit() -> None:
    """Print the reason on stderr, if there is one."""
    reason = why_nothing_came()
    if reason is None:
        return
    log = os.environ.get("TARN_LOG")
    children = sorted(glob.glob(glob.escape(log) + ".[0-9]*")) if log else []
    if children:
        reason += f"; the logs of its child processes are {', '.join(children)}"
    print(f"tarn run: Tarn allocated no memory: {reason}", file=sys.stderr)


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


def run_file(path: str, command: str = "tarn run") -> None:
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


def main() -> None:
    """Run the program that the command line names."""
    if len(sys.argv) < 2:
        print("usage: python -m tarn._run PROGRAM ARGS...", file=sys.stderr)
        raise SystemExit(2)
    del sys.argv[0]
    atexit.register(_say_at_exit)  # first, so it comes after the program's own
    path = sys.argv[0]
    if os.path.isdir(path):
        runpy.run_path(path, run_name="__main__")
    else:
        run_file(path)


if __name__ == "__main__":
    # By its own name: the globals of this module are about to become the program's.
    from tarn import _run

    _run.main()
