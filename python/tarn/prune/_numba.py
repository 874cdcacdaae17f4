"""Replaces the pass of llvmlite with Tarn's pruner in a stock Numba.

Numba runs llvmlite's pass three times. The first is on each function by itself. The second is on
the library's module, after a first cheap round of optimization has inlined what it calls. The
third is after the full round.

Where llvmlite and libtarn_prune share one libLLVM, as in Debian, Tarn does the same in place. The
wheel of llvmlite hides its LLVM. There modules are passed as bitcode, which costs as much as
several passes. So that is done after each round for the module as a whole, and not for single
functions: pairs not pruned in a single function are pruned after the first round.

These are replaced, and restored by uninstall():

    CPUCodegen._module_pass_manager     leaves llvmlite's pass out, and prunes at the end
    CPUCodegen._function_pass_manager   leaves llvmlite's pass out, and prunes in place
    CPUCodeLibrary._optimize_final_module   tells those two which library they work for
    JITCPUCodegen.magic_tuple           part of the key of Numba's cache on disk
    newpassmanagers.dump_refprune_stats from which Numba takes the `prune_stats` of a function

Older Numbas, Debian's 0.56 among them, keep two pass managers instead of making new ones for
each library, and their statistics are in `passmanagers`.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import llvmlite
import llvmlite.binding as ll
from numba.core import codegen, config

import tarn
from tarn.prune import _library, _profile
from tarn.prune._library import Report


class _Settings:
    """The state of the installation, and the totals."""

    mode: str | None = None  # None: not installed
    profile = False  # count the increfs that run
    in_place = False
    replaced: list[tuple[Any, str, Any]] = []  # object, name, the original
    totals = Report()


_lock = threading.Lock()  # over the totals


def _renew_lock() -> None:
    """Make a new lock in a forked child: another thread of the parent may hold the old one."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)
_working = threading.local()  # .library: whose module this thread optimizes


def totals() -> Report:
    """Return the sum of all reports since install()."""
    return _Settings.totals


def _add(report: Report) -> None:
    """Add a report to the totals."""
    with _lock:
        sums = (a + b for a, b in zip(_Settings.totals, report, strict=True))
        peak = max(_Settings.totals.peak_bytes, report.peak_bytes)
        _Settings.totals = Report(*sums)._replace(peak_bytes=peak)


def _options(final: bool) -> Any | None:
    """Return the options from Numba's settings; None: no pruning. `final`: the code will run."""
    shapes = int(codegen._parse_refprune_flags())
    if shapes == 0 or _Settings.mode is None:
        return None
    if shapes == _library.LLVMLITE_SHAPES:
        shapes = _library.ALL_SHAPES  # Numba's "all" knows no shape of Tarn's own
    options = _library.make_options(
        _Settings.mode, shapes, "bitcode", 1000, None, _raise_metadata(_Settings.mode)
    )
    options.trusted = True  # LLVM wrote it a moment ago
    if _Settings.profile and final:
        options.counter = _profile.counter
    return options


def _prune_in_place(what: str, reference: Any, final: bool) -> None:
    """Prune a module or a function of llvmlite's own LLVM."""
    options = _options(final)
    if options is not None:
        with ll.ffi.lib._lock:  # all modules of llvmlite are in one LLVM context
            report = _library.prune_in_place(what, reference._ptr, options)
        _add(report)


def _pruned(module: Any, final: bool) -> Any:
    """Return the module after pruning: itself if it counts no references, else a new one."""
    options = _options(final)
    if options is None:
        return module
    bitcode, report = _library.prune_bytes(module.as_bitcode(), module.name, options)
    _add(report)
    if report.increfs + report.decrefs == 0:
        return module
    pruned = ll.parse_bitcode(bitcode)
    pruned.name = module.name
    return pruned


def _raise_metadata(mode: str) -> int:
    """Return the mark that llvmlite uses, for mode llvmlite: before 0.40 the one at the ret."""
    old = tuple(map(int, llvmlite.__version__.split(".")[:2])) < (0, 40)
    return _library.RAISE_METADATA["ret"] if old and mode == "llvmlite" else 0


class _ThenPrune:
    """A pass manager of a module that prunes the library's module at its end."""

    def __init__(self, manager: Any, library: Any, final: bool):
        self._manager = manager
        self._library = library
        self._final = final

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def run(self, module: Any, *arguments: Any) -> Any:
        """Run the passes, then prune; return whether the passes changed the module."""
        changed = self._manager.run(module, *arguments)
        if _Settings.in_place:
            _prune_in_place("module", module, self._final)
        else:
            self._library._final_module = _pruned(module, self._final)
        return changed


class _ThenPruneFunction:
    """A pass manager of functions that prunes each in place at its end."""

    def __init__(self, manager: Any):
        self._manager = manager

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def __enter__(self) -> _ThenPruneFunction:
        self._manager.__enter__()
        return self

    def __exit__(self, *exception: Any) -> Any:
        return self._manager.__exit__(*exception)

    def run(self, function: Any, *arguments: Any) -> Any:
        """Run the passes, then prune; return whether the passes changed the function."""
        changed = self._manager.run(function, *arguments)
        _prune_in_place("function", function, False)
        return changed


def _without_llvmlites_pass(make: Any, *arguments: Any, **options: Any) -> Any:
    """Call the function that creates a pass manager with pruning turned off."""
    before = config.LLVM_REFPRUNE_PASS
    config.LLVM_REFPRUNE_PASS = 0
    try:
        return make(*arguments, **options)
    finally:
        config.LLVM_REFPRUNE_PASS = before


def _module_pass_manager(original: Any) -> Any:
    """Replace CPUCodegen._module_pass_manager."""

    def replacement(self: Any, **options: Any) -> Any:
        library = getattr(_working, "library", None)
        if not config.LLVM_REFPRUNE_PASS or library is None:
            return original(self, **options)
        manager, *rest = _without_llvmlites_pass(original, self, **options)
        return (_ThenPrune(manager, library, options.get("cost") != "cheap"), *rest)

    return replacement


def _function_pass_manager(original: Any) -> Any:
    """Replace CPUCodegen._function_pass_manager."""

    def replacement(self: Any, *module: Any, **options: Any) -> Any:
        made = _without_llvmlites_pass(original, self, *module, **options)
        if not _Settings.in_place or not config.LLVM_REFPRUNE_PASS:
            return made
        if isinstance(made, tuple):
            return (_ThenPruneFunction(made[0]), *made[1:])
        return _ThenPruneFunction(made)

    return replacement


def _managers_to_keep(generator: Any) -> tuple[Any, Any]:
    """Return two pass managers without llvmlite's pass, for a Numba that keeps its own.

    They are created as CPUCodegen._init() does.
    """
    if not hasattr(generator, "_tarn_managers"):
        cheap = {
            "loop_vectorize": getattr(generator, "_loopvect", False),
            "slp_vectorize": False,
            "opt": getattr(generator, "_opt_level", 0),
            "cost": "cheap",
        }
        make = generator._module_pass_manager
        generator._tarn_managers = (
            _without_llvmlites_pass(make, **cheap),
            _without_llvmlites_pass(make),
        )
    managers: tuple[Any, Any] = generator._tarn_managers
    return managers


@contextlib.contextmanager
def _kept_managers_for(library: Any) -> Iterator[None]:
    """Replace the kept pass managers of a library's code generator for a while."""
    generator = library._codegen
    outer = generator._mpm_cheap, generator._mpm_full
    cheap, full = _managers_to_keep(generator)
    generator._mpm_cheap = _ThenPrune(cheap, library, False)
    generator._mpm_full = _ThenPrune(full, library, True)
    try:
        yield
    finally:
        generator._mpm_cheap, generator._mpm_full = outer


@contextlib.contextmanager
def _new_managers_for(library: Any) -> Iterator[None]:
    """Set the library for which this thread creates pass managers."""
    outer = getattr(_working, "library", None)
    _working.library = library
    try:
        yield
    finally:
        _working.library = outer


def _optimize_final_module(original: Any) -> Any:
    """Replace CPUCodeLibrary._optimize_final_module."""

    def replacement(self: Any) -> Any:
        if not config.LLVM_REFPRUNE_PASS:
            return original(self)
        keeps = hasattr(self._codegen, "_mpm_cheap")
        with _kept_managers_for(self) if keeps else _new_managers_for(self):
            original(self)
        return None

    return replacement


def _magic_tuple(original: Any) -> Any:
    """Replace JITCPUCodegen.magic_tuple."""

    def replacement(self: Any) -> tuple[Any, ...]:
        key: tuple[Any, ...] = original(self)
        ours = f"tarn.prune {tarn.__version__} {_Settings.mode}"
        return (*key, ours, _profile.key) if _Settings.profile else (*key, ours)

    return replacement


def _dump_refprune_stats(original: Any) -> Any:
    """Replace dump_refprune_stats() of llvmlite."""

    def replacement(printout: bool = False) -> Any:
        theirs = original(printout)
        return theirs + type(theirs)(*_Settings.totals[:4])

    return replacement


def _statistics() -> list[Any]:
    """Return the modules of llvmlite with a dump_refprune_stats()."""
    modules = [getattr(ll, name, None) for name in ("newpassmanagers", "passmanagers")]
    return [module for module in modules if hasattr(module, "dump_refprune_stats")]


# Versions of LLVM with which the pruner's tests have run: docs/prune.md.
_TRIED = ("14", "20", "21", "22")


def _check_versions() -> None:
    """Raise NotSupportedError unless llvmlite and the pruner have the same major LLVM.

    Warn of an LLVM with which the pruner was not tried.
    """
    theirs = ".".join(map(str, ll.llvm_version_info))
    ours = _library.llvm_version()
    major = theirs.partition(".")[0]
    if major != ours.partition(".")[0]:
        raise tarn.NotSupportedError(
            f"prune: llvmlite has LLVM {theirs}, libtarn_prune {ours}: bitcode "
            f"cannot be exchanged; build Tarn with -DTARN_LLVM_ALSO={major} and LLVM {major}"
        )
    if major not in _TRIED:
        warnings.warn(
            f"prune: LLVM {ours} was not tried with Tarn {tarn.__version__}, only the versions "
            f"{', '.join(_TRIED)}",
            RuntimeWarning,
            stacklevel=3,
        )


def _shares_llvm() -> bool:
    """Return True if llvmlite and libtarn_prune use the same LLVM."""

    def address(library: Any) -> int | None:
        call = getattr(library, "LLVMGetModuleContext", None)  # llvmlite's wheel hides it
        return ctypes.cast(call, ctypes.c_void_p).value if call else None

    theirs = address(ctypes.CDLL(ll.ffi.lib._name))
    return theirs is not None and theirs == address(_library.library())


def _replace(owner: Any, name: str, make: Any) -> None:
    """Replace an attribute, and remember the original for uninstall()."""
    before = getattr(owner, name)
    _Settings.replaced.append((owner, name, before))
    setattr(owner, name, make(before))


def install(mode: str, profile: bool = False) -> None:
    """Replace llvmlite's pass, or change the mode."""
    _library.make_options(mode, _library.ALL_SHAPES, "bitcode", 0, None)  # a mode?
    _check_versions()
    if _Settings.mode is None:
        _Settings.totals = Report()
        _Settings.in_place = _shares_llvm()
        _replace(codegen.CPUCodegen, "_module_pass_manager", _module_pass_manager)
        _replace(codegen.CPUCodegen, "_function_pass_manager", _function_pass_manager)
        _replace(codegen.CPUCodeLibrary, "_optimize_final_module", _optimize_final_module)
        _replace(codegen.JITCPUCodegen, "magic_tuple", _magic_tuple)
        for module in _statistics():
            _replace(module, "dump_refprune_stats", _dump_refprune_stats)
    _Settings.mode = mode
    _Settings.profile = profile


def uninstall() -> None:
    """Restore all that install() replaced."""
    while _Settings.replaced:
        owner, name, before = _Settings.replaced.pop()
        setattr(owner, name, before)
    _Settings.mode = None
