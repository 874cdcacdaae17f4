"""Reference counts that cancel out, removed from compiled code.

Numba counts the references of arrays, lists and strings in the code that it compiles. A pass of
llvmlite removes the pairs of counts that change nothing. That pass can remove one too many;
Tarn's does not (docs/design/prune.md has the evidence). In a stock Numba:

    import tarn.prune
    tarn.prune.install()      # functions compiled from here on are pruned by Tarn

or, without changing the program, `python -m tarn.prune program.py`. `prune()` works on IR of any
compiler. The command `tarn prune` does the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from tarn.prune import _finder, _library
from tarn.prune._library import (
    ALL_SHAPES,
    RAISE_METADATA,
    SHAPES,
    Kept,
    Place,
    Pruned,
    Report,
    llvm_version,
)

__all__ = [
    "Kept",
    "Place",
    "Pruned",
    "Report",
    "explain",
    "install",
    "llvm_version",
    "old_text",
    "prune",
    "statistics",
    "uninstall",
]


def _bits(what: str, known: dict[str, int], asked: Iterable[str] | None) -> int:
    """Return the sum of the names' bits; 0, which selects the default, for None."""
    if asked is None:
        return 0
    names = list(asked)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ValueError(f"prune: {what} are {', '.join(known)}, not {names!r}")
    return sum({known[name] for name in names})


def prune(
    ir: str | bytes,
    *,
    mode: str = "sound",
    shapes: Iterable[str] | None = None,
    raise_metadata: Iterable[str] | None = None,
    subgraph_limit: int = 1000,
    explain: bool = False,
    name: str = "<ir>",
) -> Pruned:
    """Prune a module: text is returned as text, bitcode as bitcode.

    Parameters
    ----------
    ir : str or bytes
        The module.
    mode : {"sound", "llvmlite", "assume_calls_keep"}
        "sound" never frees an object early. "llvmlite" gives the result of llvmlite's pass, its
        mistakes included. "assume_calls_keep" is "sound" if no call releases a reference of
        another owner.
    shapes : iterable of str, optional
        The shapes to look for: "per_block", "diamond", "fanout", "fanout_raise",
        "carried". None: all.
    raise_metadata : iterable of str, optional
        The raise metadata of blocks that raise: "store" (a store to excinfo), "ret" (a ret,
        before Numba 0.57). None: both, but with `mode="llvmlite"` the store.
    subgraph_limit : int
        With `mode="llvmlite"`: the most block visits of one fan-out search.
    explain : bool
        Fill `kept` of the result.
    name : str
        Name of the module in error messages.

    Returns
    -------
    Pruned
        The module, the counts, and the increfs that stayed.

    Raises
    ------
    ValueError
        A mode, a shape or a mark is unknown.
    NotSupportedError
        The pruner's library is not installed, or cannot be loaded.
    OutOfMemoryError
        Host memory is unavailable.
    TarnError
        LLVM cannot read the module, or its verifier rejects it.

    Notes
    -----
    LLVM's reader can end the process on bytes that are not IR at all. So use this function for
    modules of a compiler that you trust, and `tarn prune` for others.
    """
    kept: list[Kept] = []
    options = _library.make_options(
        mode,
        _bits("shapes", SHAPES, shapes) or ALL_SHAPES,
        "given",
        subgraph_limit,
        kept if explain else None,
        _bits("raise_metadata", RAISE_METADATA, raise_metadata),
    )
    data = ir.encode() if isinstance(ir, str) else bytes(ir)
    out, report = _library.prune_bytes(data, name, options)
    return Pruned(out.decode() if isinstance(ir, str) else out, report, kept)


def old_text(ir: str) -> tuple[str, int]:
    """Prune IR text as Numba's pass before 0.52 did.

    The pass looks at one block at a time and at names alone: see docs/design/prune.md before use.

    Parameters
    ----------
    ir : str
        The text of a module.

    Returns
    -------
    tuple of (str, int)
        The pruned text, and the number of operations that the pass removed.

    Raises
    ------
    NotSupportedError
        The pruner's library is not installed, or cannot be loaded.
    OutOfMemoryError
        Host memory is unavailable.
    """
    out, removed = _library.old_text(ir.encode())
    return out.decode(), removed


def _hooks() -> Any:
    """Return the module that changes Numba, which imports Numba.

    In a process that inherited TARN_PRUNE, that import installs the pruner, with this module. So
    Numba has to be there before it.
    """
    import numba.core.codegen  # noqa: F401

    from tarn.prune import _numba

    return _numba


def install(mode: str = "sound", children: bool = True) -> None:
    """Let Tarn prune the functions that Numba compiles from now on, instead of llvmlite's pass.

    Numba's own settings apply. NUMBA_LLVM_REFPRUNE_PASS=0 selects the old pass, and
    NUMBA_LLVM_REFPRUNE_FLAGS selects the shapes. Numba compiles functions again that its cache on
    disk has from another pruner, or from another version or mode of this one. The same call again
    is no error; another mode replaces the first.

    Parameters
    ----------
    mode : {"sound", "llvmlite", "assume_calls_keep"}
        As in prune().

    children : bool
        Python processes that this one starts prune too, through TARN_PRUNE in their environment.

    Raises
    ------
    ImportError
        Numba is not installed.
    ValueError
        The mode is unknown.
    NotSupportedError
        The pruner's library is not installed, or has another LLVM than llvmlite.
    """
    _numba = _hooks()
    _numba.install(mode)
    if children:
        os.environ[_finder.VARIABLE] = mode


def uninstall() -> None:
    """Return pruning to llvmlite; compiled functions stay unchanged.

    Python processes that start from now on do not prune either.

    Raises
    ------
    ImportError
        Numba is not installed.
    """
    _numba = _hooks()
    _numba.uninstall()
    os.environ.pop(_finder.VARIABLE, None)


def statistics() -> Report:
    """Return the totals of all pruning in Numba in this process, since install().

    Returns
    -------
    Report
        Sums, and the maximum of `peak_bytes`.

    Raises
    ------
    ImportError
        Numba is not installed.
    """
    totals: Report = _hooks().totals()
    return totals


def explain(what: Any, mode: str = "sound") -> list[Kept]:
    """Return the reasons why increfs stayed in IR, or in a compiled function.

    Parameters
    ----------
    what : str, bytes or compiled function
        IR, or a function with Numba's inspect_llvm(), of which every compiled version counts.
    mode : {"sound", "llvmlite", "assume_calls_keep"}
        As in prune().

    Returns
    -------
    list of Kept
        The increfs that stayed beside a decref of the same value.

    Raises
    ------
    TypeError
        `what` is neither IR nor a compiled function.
    NotSupportedError, OutOfMemoryError, TarnError, ValueError
        As in prune().
    """
    if isinstance(what, (str, bytes)):
        return prune(what, mode=mode, explain=True).kept
    if not hasattr(what, "inspect_llvm"):
        raise TypeError(f"explain() takes IR or a compiled function, not {type(what)}")
    texts = what.inspect_llvm().values()
    return [kept for text in texts for kept in prune(text, mode=mode, explain=True).kept]
