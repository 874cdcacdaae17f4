"""Functions compiled ahead of time by a stock Numba, for programs without Python.

`compile_ahead("kernels", {"norm": (norm, "float64(float64[::1])")})` writes kernels.o and
kernels.h. A C program includes the header and links with libtarn_aot.a, the AOT support
library, and with libtarn. `tarn-nrt config --cflags --libs` prints the options for it:

    cc main.c kernels.o $(tarn nrt config --cflags --libs)

All functions of a program go through one call: two object files would define the same names.
A function whose object needs the interpreter is rejected, with the names that it needs.

Numba compiles functions that are called from others as it always does. Three things of its
output are for Python alone, and are replaced here before the object is written:

- A recursive function calls itself, or one that calls it, through a variable that Numba's
  runtime sets. Here the variable is a constant of the object.
- An exception with arguments of the run has a function that makes Python objects of them. Here
  it calls functions of the AOT support library instead.
- That function first checks a pointer that the interpreter sets. Here it is a constant, too.
"""

from __future__ import annotations

import os
import re
import struct
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

# The functions of libtarn_aot.a under Numba's names.
HELPERS = (
    frozenset(
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
            "dict_new_sized",
            "dict_set_method_table",
            "dict_free",
            "dict_length",
            "dict_lookup",
            "dict_insert",
            "dict_insert_ez",
            "dict_delitem",
            "dict_popitem",
            "dict_iter_sizeof",
            "dict_iter",
            "dict_iter_next",
            "dict_dump",
            "list_new",
            "list_set_method_table",
            "list_free",
            "list_base_ptr",
            "list_size_address",
            "list_length",
            "list_allocated",
            "list_is_mutable",
            "list_set_is_mutable",
            "list_setitem",
            "list_getitem",
            "list_append",
            "list_delitem",
            "list_delete_slice",
            "list_iter_sizeof",
            "list_iter",
            "list_iter_next",
            "set_new",
            "set_new_sized",
            "set_set_method_table",
            "set_free",
            "set_length",
            "set_add",
            "set_contains",
            "set_discard",
            "set_iter_sizeof",
            "set_iter",
            "set_iter_next",
            "set_dump",
        ]
    )
    | frozenset(
        f"_numba_hashsecret_{name}" for name in ["siphash_k0", "siphash_k1", "djbx33a_suffix"]
    )
    | frozenset(
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
)

# What makes Python objects of an exception's arguments, and the functions of libtarn_aot.a that
# make values without Python.
_ARGUMENTS = {
    "PyLong_FromLongLong": "tarn__argument_signed",
    "PyLong_FromUnsignedLongLong": "tarn__argument_unsigned",
    "PyFloat_FromDouble": "tarn__argument_float",
    "PyBool_FromLong": "tarn__argument_boolean",
    "PyUnicode_FromKindAndData": "tarn__argument_text",
    "PyObject_Hash": "tarn__argument_hash",
    "numba_unpickle": "tarn__argument_pickled",
    "PyTuple_New": "tarn__argument_tuple",
    "PyTuple_SetItem": "tarn__argument_set",
    "PyTuple_Pack": "tarn__argument_pack",
}

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
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target
    from numba.core.runtime import rtsys

    # The first context creates the runtime of the process. A context for objects cannot create
    # one for functions that are compiled later.
    rtsys.initialize(cpu_target.target_context)
    options = {} if cpu is None else {"cpu_name": cpu}
    with global_compiler_lock:
        context = cpu_target.target_context.with_aot_codegen(name, **options)
        library = context.codegen().create_library(name)
        _compile_into(library, context, entries)
        _define_variables(library, [function for _, _, function in entries])
        library.finalize()
        _finish(library, {symbol for symbol, _, _ in entries})
        return bytes(library.emit_native_object())


def _compile_into(library: Any, context: Any, entries: list[tuple[str, Any, Any]]) -> None:
    """Compile functions into a library of `context`, under their C names."""
    from numba.core.compiler import Flags, compile_extra
    from numba.core.registry import cpu_target
    from numba.core.runtime import nrtdynmod

    flags = Flags()
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.nrt = True
    library.add_ir_module(nrtdynmod.create_nrt_module(context)[0])
    for symbol, signature, function in entries:
        _compile_if_recursive(function, signature.args)
        compiled = compile_extra(
            cpu_target.typing_context, context, function, signature.args,
            signature.return_type, flags, locals={}, library=library,
        )  # fmt: skip
        for unwrap in _functions(library, "__excinfo_unwrap_args"):
            unwrap.linkage = "linkonce_odr"  # each library that raises so has a copy
        library.get_function(compiled.fndesc.llvm_func_name).name = symbol


# --- recursion ----------------------------------------------------------------------------


def _compile_if_recursive(function: Any, arguments: Any) -> None:
    """Compile the dispatcher of a function that reaches itself.

    Numba notices a recursion only if the dispatcher that the functions call compiles it.
    """
    python = getattr(function, "py_func", function)
    for dispatcher in _dispatchers(function):
        if dispatcher.py_func is python and tuple(arguments) not in dispatcher.overloads:
            dispatcher.compile(tuple(arguments))


def _dispatchers(function: Any) -> list[Any]:
    """Return the dispatchers that a function refers to, directly or through others."""
    found: list[Any] = []
    waiting = [getattr(function, "py_func", function)]
    while waiting:
        for value in _referenced(waiting.pop()):
            if isinstance(getattr(value, "py_func", None), types.FunctionType):
                if not any(value is known for known in found):
                    found.append(value)
                    waiting.append(value.py_func)
    return found


def _referenced(function: types.FunctionType) -> Iterator[Any]:
    """Yield the values that the code of a function can name: globals, closures, attributes."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not set yet
            continue
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [value for value in code.co_consts if isinstance(value, types.CodeType)]
        for value in [function.__globals__.get(name) for name in code.co_names]:
            yield value
            if isinstance(value, types.ModuleType):
                yield from (vars(value).get(name) for name in code.co_names)


def _compiled_by(functions: list[Any], symbol: str) -> Any:
    """Return the library of the compiled function `symbol` that functions refer to."""
    for function in functions:
        for dispatcher in [function, *_dispatchers(function)]:
            for compiled in getattr(dispatcher, "overloads", {}).values():
                if compiled.fndesc.llvm_func_name == symbol:
                    return compiled.library
    return None


# --- what the interpreter would do ----------------------------------------------------------

_RECURSIVE = ".numba.unresolved$"  # before the name of a function: the variable with its address
_ENVIRONMENT = "_ZN08NumbaEnv"  # the beginning of the name of a variable for the interpreter


def _modules(library: Any) -> list[Any]:
    """Return the modules of which a library will consist."""
    return [library._final_module, *(other._final_module for other in library._linking_libraries)]


def _functions(library: Any, beginning: str) -> list[Any]:
    """Return the functions of a library whose name begins so."""
    return [f for f in library._final_module.functions if f.name.startswith(beginning)]


def _variables(library: Any, beginning: str) -> set[str]:
    """Return the names of the variables of a library to be, and of those linked to it."""
    return {
        variable.name
        for module in _modules(library)
        for variable in module.global_variables
        if variable.name.startswith(beginning)
    }


def _is_defined(library: Any, symbol: str) -> bool:
    """Return True if a library to be has the body of a function."""
    return any(
        function.name == symbol and not function.is_declaration
        for module in _modules(library)
        for function in module.functions
    )


def _define_variables(library: Any, functions: list[Any]) -> None:
    """Add constants for the variables that the runtime or the interpreter would set."""
    from llvmlite import ir
    from numba.core.cgutils import voidptr_t

    address = ir.IntType(64)
    module = library.create_ir_module("constants")
    done: set[str] = set()
    while waiting := _variables(library, _RECURSIVE) - done:
        done |= waiting
        for symbol in sorted(name.removeprefix(_RECURSIVE) for name in waiting):
            if not _is_defined(library, symbol):
                other = _compiled_by(functions, symbol)
                if other is None:
                    raise TypeError(f"tarn.nrt.aot: {symbol} is called, and not compiled")
                library.add_linking_library(other)
            variable = ir.GlobalVariable(module, voidptr_t, _RECURSIVE + symbol)
            called = ir.Function(module, ir.FunctionType(ir.VoidType(), ()), symbol)
            variable.initializer = called.bitcast(voidptr_t)
            variable.global_constant = True
    for name in sorted(_variables(library, _ENVIRONMENT)):
        variable = ir.GlobalVariable(module, voidptr_t, name)
        variable.initializer = ir.Constant(address, 1).inttoptr(voidptr_t)
        variable.global_constant = True
    library.add_ir_module(module)


def _finish(library: Any, exported: set[str]) -> None:
    """Replace calls of Python for arguments of exceptions; hide all but the exported names."""
    from llvmlite.binding import Linkage

    module = library._final_module
    for function in module.functions:
        function.name = _ARGUMENTS.get(function.name, function.name)
    for variable in module.global_variables:
        if variable.name.startswith((_RECURSIVE, _ENVIRONMENT)) and not variable.is_declaration:
            variable.linkage = Linkage.internal
    for function in module.functions:
        if function.is_declaration or function.name in exported:
            continue
        local = function.linkage in (Linkage.private, Linkage.internal)
        function.visibility = "default" if local else "hidden"


def _missing(code: bytes) -> list[str]:
    """Return the names that an object needs and a program without Python does not have."""
    return [
        name
        for name in undefined_names(code)
        if re.match(r"_?Py|_?numba_|_?NRT_|nrt_|\.numba", name) and name not in HELPERS
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
