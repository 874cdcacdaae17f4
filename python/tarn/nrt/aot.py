"""Functions compiled ahead of time by a stock Numba, for programs without Python.

`compile_ahead("kernels", {"norm": (norm, "float64(float64[::1])")})` writes kernels.o and
kernels.h. A C program includes the header and links with libtarn_aot.a, the AOT support
library, and with libtarn:

    cc main.c kernels.o -ltarn_aot -ltarn -lm

All functions of a program go through one call: two object files would define the same names.
A function whose object needs the interpreter is rejected, with the names that it needs. Mostly
it raises an exception whose arguments are known only at run time.
"""

from __future__ import annotations

import os
import re
import struct
import warnings
from collections.abc import Callable, Mapping
from typing import Any

# The functions of libtarn_aot.a under Numba's names.
HELPERS = frozenset(
    f"numba_{name}"
    for name in [
        "sdiv",
        "srem",
        "udiv",
        "urem",
        "fptoui",
        "fptouif",
        "frexp",
        "frexpf",
        "ldexp",
        "ldexpf",
        "gamma",
        "gammaf",
        "lgamma",
        "lgammaf",
        "erf",
        "erff",
        "erfc",
        "erfcf",
        "nextafter",
        "nextafterf",
        "cpow",
        "cpowf",
        "attempt_nocopy_reshape",
        "get_py_random_state",
        "get_np_random_state",
        "get_internal_random_state",
        "rnd_init",
        "rnd_shuffle",
        "poisson_ptrs",
        "gdb_breakpoint",
    ]
) | frozenset(
    f"NRT_{name}"
    for name in [
        "MemInfo_alloc",
        "MemInfo_alloc_safe",
        "MemInfo_alloc_aligned",
        "MemInfo_alloc_safe_aligned",
        "MemInfo_alloc_safe_aligned_external",
        "MemInfo_alloc_dtor",
        "MemInfo_alloc_dtor_safe",
        "MemInfo_new_varsize",
        "MemInfo_new_varsize_dtor",
        "MemInfo_varsize_alloc",
        "MemInfo_varsize_realloc",
        "MemInfo_varsize_free",
        "MemInfo_call_dtor",
        "MemInfo_acquire",
        "MemInfo_release",
        "MemInfo_data",
        "Allocate",
        "Free",
        "get_api",
    ]
)

_C_NAMES = {
    "int8": "int8_t", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
    "float32": "float", "float64": "double", "bool": "uint8_t", "boolean": "uint8_t",
    "none": "void *", "void": "void *",
}  # fmt: skip


class NeedsPythonError(TypeError):
    """An error for a function whose object calls names that need the interpreter.

    Attributes
    ----------
    needs : dict of str to list of str
        The names, by function.
    """

    def __init__(self, needs: Mapping[str, list[str]]) -> None:
        super().__init__(
            "; ".join(f"{name} needs {', '.join(names)}" for name, names in needs.items())
        )
        self.needs = dict(needs)


def compile_ahead(
    name: str,
    functions: Mapping[str, tuple[Callable[..., Any], Any]],
    folder: str | os.PathLike[str] = ".",
    cpu: str | None = None,
) -> tuple[str, str]:
    """Compile functions with their signatures into an object file and a header.

    Parameters
    ----------
    name : str
        Name of both files, without `.o` and `.h`.
    functions : mapping of str to (callable, signature)
        The functions by their names in C. A signature is one of Numba's, with the type of the
        result.
    folder : str or path
        Folder of both files.
    cpu : str, optional
        A name that LLVM knows; "host" for this machine's. None: any CPU of its kind.

    Returns
    -------
    tuple of (str, str)
        The paths of the object file and of the header.

    Raises
    ------
    NeedsPythonError
        A function needs the interpreter. No file is written.
    TypeError
        A type has no C declaration, or a signature has no type for the result.
    """
    signatures = {symbol: _signature(wanted) for symbol, (_, wanted) in functions.items()}
    header = _header(name, signatures)
    entries = [(symbol, signatures[symbol], functions[symbol][0]) for symbol in functions]
    code = _object_of(name, entries, cpu)
    if _missing(code):
        alone = {entry[0]: _missing(_object_of(name, [entry], cpu)) for entry in entries}
        needs = {symbol: names for symbol, names in alone.items() if names}
        raise NeedsPythonError(needs or {name: _missing(code)})
    paths = tuple(os.path.join(folder, name + ending) for ending in (".o", ".h"))
    with open(paths[0], "wb") as file:
        file.write(code)
    with open(paths[1], "w") as file:
        file.write(header)
    return paths[0], paths[1]


def _signature(wanted: Any) -> Any:
    """Return a signature in Numba's form; TypeError without a type for the result."""
    from numba.core import sigutils

    arguments, result = sigutils.normalize_signature(wanted)
    if result is None:
        raise TypeError(f"tarn.nrt.aot: {wanted} has no return type")
    return result(*arguments)


def _object_of(name: str, entries: list[tuple[str, Any, Any]], cpu: str | None) -> bytes:
    """Return the object file of functions, as bytes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pycc is deprecated; this Numba has it
        from numba.core.registry import cpu_target
        from numba.core.runtime import rtsys
        from numba.pycc.compiler import ExportEntry, ModuleCompiler

    options = {} if cpu is None else {"cpu_name": cpu}
    # The first context creates the runtime of the process. A context for objects cannot create
    # one for functions that are compiled later.
    rtsys.initialize(cpu_target.target_context)
    compiler = ModuleCompiler(
        [ExportEntry(*entry) for entry in entries], name, use_nrt=True, **options
    )
    return bytes(compiler._cull_exports().emit_native_object())


def _missing(code: bytes) -> list[str]:
    """Return the names that an object needs and a program without Python does not have."""
    return [
        name
        for name in undefined_names(code)
        if re.match("_?Py|_?numba_|_?NRT_|nrt_", name) and name not in HELPERS
    ]


def undefined_names(code: bytes) -> list[str]:
    """Return the undefined names of an ELF object of this machine (64 bits).

    Raises
    ------
    ValueError
        The bytes are no such object.
    """
    if code[:5] != b"\x7fELF\x02":
        raise ValueError("tarn.nrt.aot: not a 64-bit ELF object")
    table, count = struct.unpack_from("<40xQ12xH", code)[0], struct.unpack_from("<60xH", code)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, table + 64 * i) for i in range(count)]
    names = set()
    for _, kind, _, _, offset, size, link, *_ in sections:
        if kind != 2:  # SHT_SYMTAB
            continue
        texts = sections[link][4]
        for at in range(offset, offset + size, 24):
            text, _, _, section = struct.unpack_from("<IBBH", code, at)
            if text and section == 0:
                end = code.index(b"\0", texts + text)
                names.add(code[texts + text : end].decode())
    return sorted(names)


# --- the header ---------------------------------------------------------------------------


def _is_array(kind: Any) -> bool:
    """Return True for an array of one or two dimensions."""
    from numba.core import types

    return isinstance(kind, types.Array) and kind.ndim in (1, 2)


def _c_name(kind: Any) -> str:
    """Return the C type of one of Numba's types; TypeError without one."""
    if _is_array(kind):
        return f"tarn_aot_array{kind.ndim}"
    name = _C_NAMES.get(str(kind))
    if name is None:
        raise TypeError(f"tarn.nrt.aot: {kind} has no C type")
    return name


def _parameter(number: int, kind: Any) -> str:
    """Return the C declaration of parameter number `number`."""
    if _is_array(kind):
        return f"TARN_AOT_ARRAY{kind.ndim}_PARAMETERS(a{number})"
    return f"{_c_name(kind)} a{number}"


def _prototype(symbol: str, signature: Any) -> str:
    """Return the C prototype of a function."""
    result = _c_name(signature.return_type).rstrip()
    parameters = [_parameter(i, kind) for i, kind in enumerate(signature.args)]
    return (
        f"/* {signature.return_type}({', '.join(str(kind) for kind in signature.args)}) */\n"
        f"int32_t {symbol}({result} *out, const tarn_aot_error **error"
        + "".join(f",\n    {parameter}" for parameter in parameters)
        + ");\n"
    )


def _header(name: str, signatures: Mapping[str, Any]) -> str:
    """Return the text of the header."""
    guard = re.sub(r"\W", "_", name).upper() + "_H"
    prototypes = "\n".join(_prototype(*item) for item in signatures.items())
    return (
        f"/* {name}.h -- functions that Numba compiled ahead of time; written by tarn.nrt.aot.\n"
        " *\n"
        " * Each returns a TARN_AOT_ status and, with TARN_AOT_OK, `*out`.\n"
        " */\n"
        f"#ifndef {guard}\n#define {guard}\n\n#include <tarn/aot.h>\n\n"
        f"TARN_BEGIN_DECLS\n\n{prototypes}\nTARN_END_DECLS\n#endif\n"
    )
