"""Allocation sites: readable callers' addresses, and the difference of two lists."""

from __future__ import annotations

import bisect
import sys
import weakref
from typing import Any, NamedTuple

from tarn import _tarn

_LONGEST = 1 << 20  # bytes; the assumed maximum of a function compiled by Numba


class Site(NamedTuple):
    """One allocation site, and its live memory.

    Attributes
    ----------
    function : str
        The compiled function, or a symbol of the linker; "" if unknown.
    label : str
        The label that the allocating code set, or "".
    blocks : int
        Number of live blocks; in a difference, the growth.
    bytes : int
        Requested bytes of these blocks; in a difference, the growth.
    address : int
        The return address in the caller; 0: unknown.
    """

    function: str
    label: str
    blocks: int
    bytes: int
    address: int


def _compiled_functions() -> list[tuple[int, str]]:
    """Return address and name of every function that Numba's dispatchers have compiled, sorted."""
    numba: Any = sys.modules.get("numba.core.dispatcher")
    found = []
    for each in _dispatchers(numba.Dispatcher) if numba else ():
        for result in list(each.overloads.values()):
            code = each.py_func.__code__
            name = f"{each.py_func.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
            found += [(address, name) for address in _addresses(result)]
    return sorted(found)


def _dispatchers(kind: Any) -> list[Any]:
    """Return all dispatchers of a class and of its subclasses.

    Each one enters a weak reference to itself into the typing context of its target. The garbage
    collector does not list them all: gc.freeze() hides objects from it.
    """
    kinds, contexts = [kind], {}
    for each in kinds:
        kinds += each.__subclasses__()
        target = getattr(each, "targetdescr", None)
        if target is not None:
            contexts[id(target.typing_context)] = target.typing_context
    keys = [key for context in contexts.values() for key in list(context._globals)]
    values = [key() for key in keys if isinstance(key, weakref.ref)]
    return [value for value in values if issubclass(type(value), kind)]


def _addresses(result: Any) -> list[int]:
    """Return the start addresses of a compiled function and of its wrapper that Python calls."""
    names = (result.fndesc.llvm_func_name, result.fndesc.llvm_cpython_wrapper_name)
    library = result.library
    return [address for name in names if (address := library.get_pointer_to_function(name))]


def read() -> list[Site]:
    """Return the sites of all live memory, the most bytes first."""
    rows = _tarn.nrt_sites()
    compiled = _compiled_functions() if any(row[0] for row in rows) else []
    return [
        Site(_name(address, words, compiled), where, blocks, bytes, address)
        for address, where, words, blocks, bytes in rows
    ]


def _name(address: int, words: str, compiled: list[tuple[int, str]]) -> str:
    """Return the compiled function that contains an address; else the linker's symbol."""
    if not words.startswith("0x"):
        return words  # a symbol, or nothing
    place = bisect.bisect_right(compiled, (address, chr(0x10FFFF))) - 1
    if place >= 0 and address - compiled[place][0] < _LONGEST:
        return compiled[place][1]
    return words


def keep_names() -> None:
    """Keep the names for the report at exit, which is printed after Python has ended."""
    from tarn.nrt import debug_modes

    if "report" in debug_modes():
        _tarn.nrt_set_names(_compiled_functions())


def difference(before: list[Site], after: list[Site]) -> list[Site]:
    """Return the growth between two lists; a site that did not grow is left out."""
    known = {(site.address, site.label): site for site in before}
    found = []
    for site in after:
        old = known.get((site.address, site.label))
        blocks = site.blocks - (old.blocks if old else 0)
        bytes = site.bytes - (old.bytes if old else 0)
        if blocks > 0 or bytes > 0:
            found.append(site._replace(blocks=blocks, bytes=bytes))
    return sorted(found, key=lambda site: -site.bytes)
