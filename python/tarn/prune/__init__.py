"""Reference counts that cancel out, removed from compiled code.

Numba counts the references of arrays, lists and strings in the code that it compiles, and
removes the pairs of counts that change nothing with a pass of llvmlite's. That pass can
remove one too many; Tarn's does not (docs/prune.md has the evidence). In a stock Numba:

    import tarn.prune
    tarn.prune.install()      # functions compiled from here on are pruned by Tarn

or, without touching the program, `python -m tarn.prune program.py`. `prune()` works on IR,
from whatever compiler. `tarn prune` is the same as a command.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tarn.prune import _library
from tarn.prune._library import ALL_SHAPES, MARKS, SHAPES, Kept, Place, Pruned, Report, llvm_version

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
    """The sum of the names' bits; 0, which is all of them, for None."""
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
    marks: Iterable[str] | None = None,
    subgraph_limit: int = 1000,
    explain: bool = False,
    name: str = "<ir>",
) -> Pruned:
    """Prune a module: text comes back as text, bitcode as bitcode.

    `mode="llvmlite"` gives the result of llvmlite's pass, its mistakes included;
    `subgraph_limit` belongs to it. `shapes` are those of "per_block", "diamond", "fanout"
    and "fanout_raise" that are looked for; None is all of them. `marks` says how blocks are
    marked that raise: "store" (a store to excinfo), "ret" (a ret, before Numba 0.57); None is
    both, with `mode="llvmlite"` the store. With `explain` the result has each incref that
    stayed beside a decref of the same value, with the reason.

    LLVM's reader can end the process on bytes that are not IR at all: this is for modules
    of a compiler that you trust, `tarn prune` for others.
    """
    kept: list[Kept] = []
    options = _library.make_options(
        mode,
        _bits("shapes", SHAPES, shapes) or ALL_SHAPES,
        "given",
        subgraph_limit,
        kept if explain else None,
        _bits("marks", MARKS, marks),
    )
    data = ir.encode() if isinstance(ir, str) else bytes(ir)
    out, report = _library.prune_bytes(data, name, options)
    return Pruned(out.decode() if isinstance(ir, str) else out, report, kept)


def old_text(ir: str) -> tuple[str, int]:
    """IR text after Numba's pass before 0.52, and how many operations that pass removed.

    It looks at one block at a time and at names alone: see docs/prune.md before use.
    """
    out, removed = _library.old_text(ir.encode())
    return out.decode(), removed


def install(mode: str = "sound") -> None:
    """Let Tarn prune what Numba compiles from now on, instead of llvmlite's pass.

    Numba's own settings hold: NUMBA_LLVM_REFPRUNE_PASS=0 switches to the old pass, and
    NUMBA_LLVM_REFPRUNE_FLAGS says which shapes are looked for. Functions in Numba's cache on
    disk from another pruner, or from another version or mode of this one, are compiled anew. The
    same call again is no error; another mode replaces the first.
    """
    from tarn.prune import _numba

    _numba.install(mode)


def uninstall() -> None:
    """Return pruning to llvmlite; compiled functions stay unchanged."""
    from tarn.prune import _numba

    _numba.uninstall()


def statistics() -> Report:
    """The totals of all pruning in Numba in this process, since install()."""
    from tarn.prune import _numba

    return _numba.totals()


def explain(what: Any, mode: str = "sound") -> list[Kept]:
    """The reasons why increfs stayed in IR, or in every compiled version of a function."""
    if isinstance(what, (str, bytes)):
        return prune(what, mode=mode, explain=True).kept
    if not hasattr(what, "inspect_llvm"):
        raise TypeError(f"explain() takes IR or a compiled function, not {type(what)}")
    texts = what.inspect_llvm().values()
    return [kept for text in texts for kept in prune(text, mode=mode, explain=True).kept]
