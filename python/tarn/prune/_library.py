"""libtarn_prune, called through ctypes.

The pruner's library needs LLVM, which is large, and most programs that use Tarn do not need it.
So no module links it: it is opened at the first pruning, and a Tarn that was built without it
reports that then. A Tarn may have it for several LLVMs (libtarn_prune-14 beside libtarn_prune).
A program that has llvmlite gets the one for llvmlite's LLVM.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from typing import Any, NamedTuple

import tarn

MODES = {"sound": 0, "llvmlite": 1, "assume_calls_keep": 2}
SHAPES = {"per_block": 1, "diamond": 2, "fanout": 4, "fanout_raise": 8, "carried": 16}
ALL_SHAPES = 31
LLVMLITE_SHAPES = 15  # all of those that llvmlite's pass has
FORMS = {"given": 0, "text": 1, "bitcode": 2}
RAISE_METADATA = {"store": 1, "ret": 2}


class Place(NamedTuple):
    """A place in the IR, and in the source if there is debug info.

    Attributes
    ----------
    block : str
        Name of the block as IR prints it.
    instruction : str
        Instruction as IR prints it; "" for a whole block.
    file : str
        Source file; "" without debug info.
    line, column : int
        Line and column of the source, from 1; 0 without debug info.
    """

    block: str
    instruction: str
    file: str
    line: int
    column: int

    def __str__(self) -> str:
        if self.line:
            return f"{self.file}:{self.line}"
        if self.instruction:
            return f"{self.block}: {self.instruction.strip()}"
        return self.block


def _plain(function: str) -> str:
    """Return a mangled name of Numba's as in the source: _ZN8__main__1fB2v1... is __main__.f."""
    parts, rest = [], function.removeprefix("_ZN")
    while rest != function and rest[:1].isdigit():
        digits = len(rest) - len(rest.lstrip("0123456789"))
        end = digits + int(rest[:digits])
        parts.append(rest[digits:end])
        rest = rest[end:]
    return ".".join(parts) or function


class Kept(NamedTuple):
    """An incref that stayed although its function has a decref of the same value.

    Attributes
    ----------
    rule : int
        Number of the rule that kept it, a `tarn_prune_rule`.
    message : str
        Message of the rule.
    function : str
        Name of the function in the IR.
    value : str
        The reference as IR prints it.
    incref : Place
        The place of the incref.
    at : Place
        The place that breaks the rule; "" and 0 if there is none.
    """

    rule: int
    message: str
    function: str
    value: str
    incref: Place
    at: Place

    def __str__(self) -> str:
        where = f" ({self.at})" if self.at.block or self.at.line else ""
        name = self.value.partition(" = ")[0].strip()  # without what defines it
        return f"{_plain(self.function)}: {name}, {self.incref}: {self.message}{where}"


class Report(NamedTuple):
    """The counts of one call, or the totals of a process.

    The pruner counts them. The first four count removed operations: a pair is two.

    Attributes
    ----------
    per_block : int
        Operations removed within a block.
    diamond : int
        Operations removed by diamonds.
    fanout : int
        Operations removed by fan-outs.
    fanout_raise : int
        Operations removed by fan-outs with raise.
    functions : int
        Functions with a body.
    functions_changed : int
        Functions from which something was removed.
    increfs, decrefs : int
        Operations found before anything was removed.
    kept : int
        Increfs that stayed although a decref of the value exists.
    gave_up : int
        Searches that ended at a limit.
    peak_bytes : int
        The most host memory of the pruner's own at any time, in bytes.
    carried : int
        Operations removed because several values' cancel out together, or across phis.
    """

    per_block: int = 0
    diamond: int = 0
    fanout: int = 0
    fanout_raise: int = 0
    functions: int = 0
    functions_changed: int = 0
    increfs: int = 0
    decrefs: int = 0
    kept: int = 0
    gave_up: int = 0
    peak_bytes: int = 0
    carried: int = 0

    @property
    def removed(self) -> int:
        """Operations removed in all shapes; a pair is two."""
        return self.per_block + self.diamond + self.fanout + self.fanout_raise + self.carried


class Pruned(NamedTuple):
    """A module without the pairs that cancelled out.

    Attributes
    ----------
    ir : str or bytes
        The module in the format of the input: text, or bitcode.
    report : Report
        The counts.
    kept : list of Kept
        The increfs that stayed; empty unless requested.
    """

    ir: str | bytes
    report: Report
    kept: list[Kept]


class _CPlace(ctypes.Structure):
    """tarn_prune_place in C."""

    _fields_ = [
        ("block", ctypes.c_char_p),
        ("instruction", ctypes.c_char_p),
        ("file", ctypes.c_char_p),
        ("line", ctypes.c_uint),
        ("column", ctypes.c_uint),
    ]


class _CKept(ctypes.Structure):
    """tarn_prune_kept in C."""

    _fields_ = [
        ("rule", ctypes.c_int),
        ("message", ctypes.c_char_p),
        ("function", ctypes.c_char_p),
        ("value", ctypes.c_char_p),
        ("incref", _CPlace),
        ("at", _CPlace),
    ]


_Explain = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(_CKept))
Counter = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(_CKept))


class _COptions(ctypes.Structure):
    """tarn_prune_options in C."""

    _fields_ = [
        ("mode", ctypes.c_int),
        ("shapes", ctypes.c_uint),
        ("raise_metadata", ctypes.c_uint),
        ("format", ctypes.c_int),
        ("trusted", ctypes.c_bool),
        ("subgraph_limit", ctypes.c_size_t),
        ("explain", _Explain),
        ("explain_data", ctypes.c_void_p),
        ("counter", Counter),
    ]


class _CReport(ctypes.Structure):
    """tarn_prune_report in C."""

    _fields_ = [(name, ctypes.c_uint64) for name in Report._fields]


class _CError(ctypes.Structure):
    """tarn_error in C."""

    _fields_ = [
        ("status", ctypes.c_int),
        ("native", ctypes.c_int),
        ("message", ctypes.c_char * 480),
    ]


def library_path() -> str:
    """Return the path of libtarn_prune: $TARN_PRUNE_LIBRARY, or a file beside libtarn.

    If the program has imported llvmlite, it is the file for llvmlite's LLVM, where that exists.
    """
    named = os.environ.get("TARN_PRUNE_LIBRARY")
    if named:
        return named
    folder = tarn.get_library_dir()
    minor = ".".join(tarn.__version__.split(".")[:2])
    llvmlite = sys.modules.get("llvmlite.binding")
    if llvmlite:
        suffix = f"-{llvmlite.llvm_version_info[0]}.so.{minor}"
        path = os.path.join(folder, "libtarn_prune" + suffix)
        if os.path.exists(path):
            return path
    return os.path.join(folder, f"libtarn_prune.so.{minor}")


def library() -> Any:
    """Return the library, opened at the first call."""
    return _open(library_path())


@functools.cache
def _open(path: str) -> Any:
    """Open a library and declare its functions; NotSupportedError if that fails."""
    if not os.path.exists(path):
        raise tarn.NotSupportedError(
            f"prune: {path} does not exist: install the distribution tarn-gpu-prune"
        )
    try:
        opened = ctypes.CDLL(path)
    except OSError as error:
        raise tarn.NotSupportedError(f"prune: {error}") from None
    report, options = ctypes.POINTER(_CReport), ctypes.POINTER(_COptions)
    size, text = ctypes.c_size_t, ctypes.c_char_p
    out, out_bytes = ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(size)
    opened.tarn_prune_bytes.argtypes = [text, size, text, options, report, out, out_bytes]
    opened.tarn_prune_module.argtypes = [ctypes.c_void_p, options, report]
    opened.tarn_prune_function.argtypes = [ctypes.c_void_p, options, report]
    removed = ctypes.POINTER(ctypes.c_uint64)
    opened.tarn_prune_old_text.argtypes = [text, size, out, out_bytes, removed]
    opened.tarn_prune_free.argtypes = [ctypes.c_void_p]
    opened.tarn_prune_free.restype = None
    opened.tarn_prune_llvm_version.restype = text
    opened.tarn_error_last.restype = ctypes.POINTER(_CError)
    return opened


def llvm_version() -> str:
    """Return the version of LLVM that the pruner uses, such as "22.1.8".

    Raises
    ------
    NotSupportedError
        The pruner's library is not installed, or cannot be loaded.
    """
    version: bytes = library().tarn_prune_llvm_version()
    return version.decode()


def check(status: int) -> None:
    """Raise the error of the last call, unless it succeeded."""
    if status == 0:
        return
    words = library().tarn_error_last().contents.message.decode(errors="replace")
    if status == 1:
        raise tarn.OutOfMemoryError(words)
    raise tarn.TarnError(words)


def _text(words: bytes | None) -> str:
    """Return a string of C as str."""
    return (words or b"").decode(errors="replace")


def _place(place: _CPlace) -> Place:
    """Return a place of C as a Place."""
    words = (_text(place.block), _text(place.instruction), _text(place.file))
    return Place(*words, place.line, place.column)


def _listener(kept: list[Kept]) -> Any:
    """Return a function for C that appends each incref that stayed to `kept`."""

    def listen(_: Any, pointer: Any) -> None:
        kept.append(kept_of(pointer))

    return _Explain(listen)


def kept_of(pointer: Any) -> Kept:
    """Return a tarn_prune_kept of C as a Kept."""
    row = pointer.contents
    words = (_text(row.message), _text(row.function), _text(row.value))
    return Kept(row.rule, *words, _place(row.incref), _place(row.at))


def make_options(
    mode: str,
    shapes: int,
    form: str,
    subgraph_limit: int,
    kept: list[Kept] | None,
    raise_metadata: int = 0,  # 0: those of the mode
) -> _COptions:
    """Return the options of C; ValueError for an unknown mode or set of shapes."""
    if mode not in MODES:
        raise ValueError(f"prune: mode has to be one of {', '.join(MODES)}, not {mode!r}")
    if not 0 < shapes <= ALL_SHAPES:
        raise ValueError(f"prune: shapes {shapes} is not a set of {SHAPES}")
    options = _COptions(
        mode=MODES[mode],
        shapes=shapes,
        raise_metadata=raise_metadata,
        format=FORMS[form],
        subgraph_limit=subgraph_limit,
    )
    if kept is not None:
        options.explain = _listener(kept)
    return options


def _take(out: ctypes.c_void_p, size: ctypes.c_size_t) -> bytes:
    """Copy the bytes that a call returned, and free its buffer."""
    try:
        return ctypes.string_at(out, size.value)
    finally:
        library().tarn_prune_free(out)


def _report(report: _CReport) -> Report:
    """Return a report of C as a Report."""
    return Report(*(getattr(report, field) for field in Report._fields))


def prune_bytes(data: bytes, name: str, options: _COptions) -> tuple[bytes, Report]:
    """Prune a module of bytes; return it with the counts."""
    out, size, report = ctypes.c_void_p(), ctypes.c_size_t(), _CReport()
    check(
        library().tarn_prune_bytes(
            data,
            len(data),
            name.encode(),
            ctypes.byref(options),
            ctypes.byref(report),
            ctypes.byref(out),
            ctypes.byref(size),
        )
    )
    return _take(out, size), _report(report)


def prune_in_place(what: str, pointer: Any, options: _COptions) -> Report:
    """Prune a "module" or a "function" of the library's own LLVM.

    The pointer is an LLVMModuleRef or an LLVMValueRef of LLVM-C.
    """
    report = _CReport()
    call = getattr(library(), f"tarn_prune_{what}")
    address = ctypes.cast(pointer, ctypes.c_void_p)
    check(call(address, ctypes.byref(options), ctypes.byref(report)))
    return _report(report)


def old_text(data: bytes) -> tuple[bytes, int]:
    """Prune text as Numba's pass before 0.52 did; return it with the number of operations."""
    out, size, removed = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_uint64()
    check(
        library().tarn_prune_old_text(
            data, len(data), ctypes.byref(out), ctypes.byref(size), ctypes.byref(removed)
        )
    )
    return _take(out, size), removed.value
