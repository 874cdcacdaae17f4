"""Counting without atomics while one thread at a time runs compiled code: threads="single".

Compiled code tests one flag of the process before it counts. While the flag is clear, it adds
without an atomic operation. That is right as long as each thread that runs compiled code holds
the GIL. The flag is set for good, by a thread with the GIL, before anything exists that runs
without it. So no thread is between the load and the store of a count at that time:

    the trigger                          is set by
    -----------------------------------  ------------------------------------------------------
    nogil, parallel                      the dispatcher's options, when it is made; the flags of
                                         a compilation
    vectorize, guvectorize               the making of their dispatcher
    cfunc                                the making of it
    ahead-of-time compilation            the making of its compiler
    NRT_get_api                          its lowering
    any of these, in the cache on disk   symbols in the object code that is loaded

A dispatcher is made before anything is compiled for it or loaded from the cache. A function in
the cache can contain others, whose dispatchers the process has not made: their object code
names functions of the triggers.

Python without a GIL starts with the flag set. Code compiled ahead of time always uses atomics.

The modules of Numba are changed when they are imported, by a finder before all others.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.abc
import sys
import sysconfig
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tarn import _loaders

MODES = ("any", "single")
SYMBOL = "tarn_nrt_threads"  # in compiled code: the flag, one byte

# Names in object code of functions that run without the GIL, or that give others the means.
_SIGNS = (b"NRT_get_api", b"PyEval_SaveThread", b"numba_parallel_for", b"numba_gil_ensure")

_flag = ctypes.c_uint8(0)


class _State:
    """Whether the mode is `single`."""

    single = False


def mode() -> str:
    """Return the mode of this process."""
    return MODES[_State.single]


def flag_is_set() -> bool:
    """Return True if compiled code counts with atomics."""
    return not _State.single or bool(_flag.value)


def set_flag() -> None:
    """Let all compiled code count with atomics from now on. The caller has the GIL."""
    _flag.value = 1


def _has_gil() -> bool:
    """Return False for a Python that was built to run without a GIL."""
    return not sysconfig.get_config_var("Py_GIL_DISABLED")


# --- the changes, by module of Numba ---------------------------------------------------------


_Trigger = Callable[[tuple[Any, ...], dict[str, Any]], bool]  # of a call's arguments


def _before(owner: Any, name: str, is_trigger: _Trigger) -> None:
    """Set the flag before a call of this method whose arguments are a trigger."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def replacement(*arguments: Any, **options: Any) -> Any:
        if is_trigger(arguments, options):
            set_flag()
        return original(*arguments, **options)

    setattr(owner, name, replacement)


def _always(arguments: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Return True: each call is a trigger."""
    return True


def _define_atomic_inc_dec(module: Any, op: str, ordering: str) -> Any:
    """Define a function that adds or subtracts 1 as the flag says, and returns the new value."""
    from llvmlite import ir
    from numba.core import config

    word, byte = ir.IntType(config.MACHINE_BITS), ir.IntType(8)
    function = ir.Function(
        module, ir.FunctionType(word, [word.as_pointer()]), name=f"nrt_atomic_{op}"
    )
    flag = module.globals.get(SYMBOL) or ir.GlobalVariable(module, byte, SYMBOL)
    builder = ir.IRBuilder(function.append_basic_block())
    (count,), one = function.args, ir.Constant(word, 1)
    shared = builder.icmp_unsigned(
        "!=", builder.load_atomic(flag, "monotonic", 1), ir.Constant(byte, 0)
    )
    with builder.if_then(shared, likely=False):
        old = builder.atomic_rmw(op, count, one, ordering=ordering)
        builder.ret(getattr(builder, op)(old, one))
    new = getattr(builder, op)(builder.load(count), one)
    builder.store(new, count)
    builder.ret(new)
    return function


def _change_nrtdynmod(module: Any) -> None:
    """Let the code of NRT_incref and NRT_decref test the flag, but for code ahead of time."""
    original, atomic = module.create_nrt_module, module._define_atomic_inc_dec

    def create_nrt_module(context: Any) -> Any:
        from numba.core import codegen

        jit = isinstance(context.codegen(), codegen.JITCPUCodegen)
        module._define_atomic_inc_dec = _define_atomic_inc_dec if jit else atomic
        return original(context)

    module.create_nrt_module = create_nrt_module


def _change_context(module: Any) -> None:
    """Take the lowering of NRT_get_api() for a trigger."""
    _before(module.NRTContext, "get_nrt_api", _always)


def _change_codegen(module: Any) -> None:
    """Name the mode in the cache's key, and look into object code from the cache."""
    import llvmlite.binding

    llvmlite.binding.add_symbol(SYMBOL, ctypes.addressof(_flag))
    magic_tuple = module.JITCPUCodegen.magic_tuple
    module.JITCPUCodegen.magic_tuple = lambda self: (*magic_tuple(self), "tarn.nrt single")
    _before(
        module.JITCPUCodegen,
        "unserialize_library",
        lambda arguments, options: _has_sign([*arguments, *options.values()][1]),
    )


def _has_sign(serialized: Any) -> bool:
    """Return True if a library from the cache names a function of the triggers."""
    _, _, data = serialized
    parts = data if isinstance(data, tuple) else (data,)
    return any(sign in part for part in parts for sign in _SIGNS)


def _change_compiler(module: Any) -> None:
    """Take the flags of a compilation for a trigger, whoever starts it."""

    def is_trigger(arguments: tuple[Any, ...], options: dict[str, Any]) -> bool:
        flags = options["flags"] if "flags" in options else arguments[6]
        return bool(flags.release_gil) or bool(flags.auto_parallel.enabled)

    _before(module.CompilerBase, "__init__", is_trigger)


def _change_dispatcher(module: Any) -> None:
    """Take the options nogil and parallel for a trigger."""

    def is_trigger(arguments: tuple[Any, ...], options: dict[str, Any]) -> bool:
        asked = options.get("targetoptions") or (arguments[3] if len(arguments) > 3 else {})
        return bool(asked.get("nogil")) or bool(asked.get("parallel"))

    _before(module.Dispatcher, "__init__", is_trigger)


def _change_ufuncbuilder(module: Any) -> None:
    """Take @vectorize and @guvectorize for triggers."""
    _before(module.UFuncDispatcher, "__init__", _always)


def _change_ccallback(module: Any) -> None:
    """Take @cfunc for a trigger."""
    _before(module.CFunc, "__init__", _always)


def _change_pycc(module: Any) -> None:
    """Take a compilation ahead of time for a trigger."""
    _before(module._ModuleCompiler, "__init__", _always)


_CHANGES: dict[str, Callable[[Any], None]] = {
    "numba.core.runtime.nrtdynmod": _change_nrtdynmod,
    "numba.core.runtime.context": _change_context,
    "numba.core.codegen": _change_codegen,
    "numba.core.compiler": _change_compiler,
    "numba.core.dispatcher": _change_dispatcher,
    "numba.np.ufunc.ufuncbuilder": _change_ufuncbuilder,
    "numba.core.ccallback": _change_ccallback,
    "numba.pycc.compiler": _change_pycc,
}


# --- when modules are imported ------------------------------------------------------------------


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the modules to change, each once."""

    def __init__(self) -> None:
        self._waiting = dict(_CHANGES)

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> Any:
        """Return the specification of a module with another loader; None for all others."""
        change = self._waiting.pop(name, None)
        return None if change is None else _loaders.spec_then(name, change)


def put_in_place(wanted: str) -> None:
    """Choose the mode; RuntimeError for another than before, or if Numba is imported."""
    if wanted not in MODES:
        raise ValueError(f"tarn.nrt: threads has to be any or single, not {wanted!r}")
    if wanted == mode():
        return
    if _State.single or any(name in sys.modules for name in _CHANGES):
        raise RuntimeError(
            f"tarn.nrt: too late for threads={wanted!r}: choose it before the first import of "
            "numba, once"
        )
    _State.single = True
    if not _has_gil():
        set_flag()
    sys.meta_path.insert(0, _Finder())
