"""Who allocated: addresses of callers made readable, and the difference of two lists."""

from __future__ import annotations

import bisect
import gc
import sys
from typing import Any, NamedTuple

from tarn import _tarn

_LONGEST = 1 << 20  # bytes; no function that Numba compiled is taken to be longer


class Site(NamedTuple):
    """One place that allocated, and what of it is still out."""

    function: str  # the compiled function, or a symbol; "" where it is not known
    label: str  # words that the allocating code gave, or ""
    blocks: int
    bytes: int
    address: int  # in the caller: where the call returns to; 0: not known


def _compiled_functions() -> list[tuple[int, str]]:
    """Address and name of every function that Numba's dispatchers have compiled, sorted.

    Numba keeps no list of its dispatchers; the garbage collector knows them.
    """
    numba: Any = sys.modules.get("numba.core.dispatcher")
    found = []
    for each in gc.get_objects() if numba else ():
        if not issubclass(type(each), numba.Dispatcher):
            continue
        for result in list(each.overloads.values()):
            code = each.py_func.__code__
            name = f"{each.py_func.__qualname__} ({code.co_filename}:{code.co_firstlineno})"
            found += [(address, name) for address in _addresses(result)]
    return sorted(found)


def _addresses(result: Any) -> list[int]:
    """Where a compiled function, and its wrapper that Python calls, begin."""
    names = (result.fndesc.llvm_func_name, result.fndesc.llvm_cpython_wrapper_name)
    library = result.library
    return [address for name in names if (address := library.get_pointer_to_function(name))]


def read() -> list[Site]:
    """The sites of everything that is out, the most bytes first."""
    rows = _tarn.nrt_sites()
    compiled = _compiled_functions() if any(row[0] for row in rows) else []
    return [
        Site(_name(address, words, compiled), where, blocks, bytes, address)
        for address, where, words, blocks, bytes in rows
    ]


def _name(address: int, words: str, compiled: list[tuple[int, str]]) -> str:
    """The compiled function that an address lies in; else what the linker says."""
    if not words.startswith("0x"):
        return words  # a symbol, or nothing
    place = bisect.bisect_right(compiled, (address, chr(0x10FFFF))) - 1
    if place >= 0 and address - compiled[place][0] < _LONGEST:
        return compiled[place][1]
    return words


def keep_names() -> None:
    """For the report at exit, which is printed when Python is gone."""
    from tarn.nrt import debug_modes

    if "report" in debug_modes():
        _tarn.nrt_set_names(_compiled_functions())


def difference(before: list[Site], after: list[Site]) -> list[Site]:
    """What came between two lists; a site that has less than before is left out."""
    known = {(site.address, site.label): site for site in before}
    found = []
    for site in after:
        old = known.get((site.address, site.label))
        blocks = site.blocks - (old.blocks if old else 0)
        bytes = site.bytes - (old.bytes if old else 0)
        if blocks > 0 or bytes > 0:
            found.append(site._replace(blocks=blocks, bytes=bytes))
    return sorted(found, key=lambda site: -site.bytes)
