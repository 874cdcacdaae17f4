"""Replaces numba-cuda's device runtime with Tarn's (device.cu).

numba-cuda has no hook for that. It keeps its source as one `CUSource`, NRT_LIBRARY, under that
name in three modules. This module replaces it there. The only other change is the key of the
cache on disk, which holds linked kernels: those of the two runtimes are kept apart.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import os
import re
import sys
from types import ModuleType
from typing import Any

NAME = "NRT_LIBRARY"
HOLDERS = (  # the modules with that name; the first one creates it
    "numba.cuda.memory_management.nrt",
    "numba.cuda.dispatcher",
    "numba.cuda.codegen",
)
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "device.cu")

# The layouts that device.cu shares with numba-cuda: fields of structs in headers, in order.
LAYOUTS = {
    ("nrt.cuh", "MemInfo"): ("refct", "dtor", "dtor_info", "data", "size"),
    ("memsys.cuh", "NRT_MemSys"): ("enabled", "alloc", "free", "mi_alloc", "mi_free"),
}


class _State:
    """The CUSource of this process."""

    library: Any = None  # ours, once it is in place


def use() -> None:
    """Link device.cu with every kernel that is compiled from now on."""
    modules = _holders()
    if getattr(modules[0], NAME) is _State.library:
        return
    _check_layouts(modules[0])
    linked = kernels_linked_with_theirs(modules)
    if linked:
        raise RuntimeError(
            f"tarn.nrt: too late, numba-cuda has linked {linked} function(s) "
            "with its own device runtime"
        )
    with open(PATH, encoding="utf-8") as file:
        _State.library = put_in_place(file.read(), "tarn/nrt/device.cu")


def in_use() -> bool:
    """Return True if kernels that are compiled now are linked with device.cu."""
    return _State.library is not None and getattr(_holders()[0], NAME) is _State.library


def put_in_place(source: str, name: str) -> Any:
    """Link this text in place of numba-cuda's runtime; return its CUSource."""
    from numba import cuda

    library = cuda.CUSource(source, name=name, nrt=True)
    modules = _holders()
    for module in modules:
        setattr(module, NAME, library)
    _mark_cache(modules[-1], hashlib.sha256(source.encode()).hexdigest())
    return library


def _holders() -> list[ModuleType]:
    """Return the modules that have the source; all have the same one."""
    try:
        modules = [importlib.import_module(name) for name in HOLDERS]
    except ImportError as error:
        raise RuntimeError(
            f"tarn.nrt: numba-cuda with a device runtime is not installed ({error})"
        ) from None
    held = [getattr(module, NAME, None) for module in modules]
    if held[0] is None or any(one is not held[0] for one in held):
        having = [name for name, one in zip(HOLDERS, held, strict=True) if one is not None]
        raise RuntimeError(
            f"tarn.nrt: {_version()} is not supported: {NAME} differs between "
            f"{', '.join(HOLDERS)} (found in {', '.join(having) or 'none'})"
        )
    return modules


def _check_layouts(runtime: ModuleType) -> None:
    """Raise RuntimeError unless numba-cuda's structs are those of device.cu."""
    for (header, struct), wanted in LAYOUTS.items():
        try:
            with open(os.path.join(runtime.get_include(), header), encoding="utf-8") as file:
                found = fields(file.read(), struct)
        except (AttributeError, OSError) as error:
            raise RuntimeError(f"tarn.nrt: {_version()} is not supported ({error})") from None
        if found != wanted:
            raise RuntimeError(
                f"tarn.nrt: {_version()} is not supported: {struct} in {header} has the fields "
                f"{', '.join(found) or 'none'}, not {', '.join(wanted)}"
            )


def fields(text: str, struct: str) -> tuple[str, ...]:
    """Return the names of a struct's fields, those of unnamed structs in it too."""
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.S)
    body = re.search(rf"\bstruct\s+{struct}\s*\{{(.*?)\}}\s*;", text, re.S)  # `} stats;` is inside
    return tuple(re.findall(r"(\w+)\s*;", re.sub(r"\}\s*\w+\s*;", "}", body[1]))) if body else ()


def kernels_linked_with_theirs(modules: list[ModuleType]) -> int:
    """Return the number of compiled functions that are linked with the library of the modules.

    Each has a set with the library. gc.freeze() hides sets from the garbage collector. Then the
    references to the library are compared with those to an object that has no other holders.
    """
    like = object()
    holders = [like] * len(modules)
    library = getattr(modules[0], NAME)
    linked = sum(isinstance(holder, set) for holder in gc.get_referrers(library))
    if linked == 0 and gc.get_freeze_count() > 0:
        linked = sys.getrefcount(library) - sys.getrefcount(like)
    del holders
    return linked


def _mark_cache(codegen: ModuleType, digest: str) -> None:
    """Make the runtime a part of the key under which compiled kernels are kept on disk."""
    kind = codegen.JITCUDACodegen
    original = getattr(kind.magic_tuple, "tarn_original", kind.magic_tuple)

    def magic_tuple(self: Any) -> tuple[Any, ...]:
        return (*original(self), "device runtime " + digest)

    magic_tuple.tarn_original = original  # type: ignore[attr-defined]
    kind.magic_tuple = magic_tuple


def _version() -> str:
    """Return the name and the version of numba-cuda."""
    import numba_cuda

    return f"numba-cuda {numba_cuda.__version__}"
