"""How a stock Numba comes to use Tarn's pruner.

Numba runs llvmlite's pass three times: on each function by itself, then on the library's
module after a first cheap round of optimization has inlined what it calls, then once more
after the full round. The wheel of llvmlite hides its LLVM, so Tarn cannot work on Numba's
modules in place. They travel as bitcode; a trip costs as much as several passes, so it is
made after each round for the module as a whole, and not for single functions: what is not
pruned in a function by itself is pruned after the first round.

What is replaced, and put back by uninstall():

    CPUCodegen._module_pass_manager     leaves llvmlite's pass out, and prunes at the end
    CPUCodegen._function_pass_manager   leaves llvmlite's pass out
    CPUCodeLibrary._optimize_final_module   tells those two which library they work for
    JITCPUCodegen.magic_tuple           part of the key of Numba's cache on disk
    newpassmanagers.dump_refprune_stats from which Numba takes the `prune_stats` of a function
"""

from __future__ import annotations

import threading
from typing import Any

import llvmlite.binding as ll
from llvmlite.binding import newpassmanagers
from numba.core import codegen, config

import tarn
from tarn.prune import _library
from tarn.prune._library import Report


class _Settings:
    mode: str | None = None  # None: not installed
    replaced: list[tuple[Any, str, Any]] = []  # object, name, what was there
    totals = Report()


_lock = threading.Lock()  # over the totals
_working = threading.local()  # .library: whose module this thread optimizes


def totals() -> Report:
    return _Settings.totals


def _add(report: Report) -> None:
    with _lock:
        sums = (a + b for a, b in zip(_Settings.totals, report, strict=True))
        peak = max(_Settings.totals.peak_bytes, report.peak_bytes)
        _Settings.totals = Report(*sums)._replace(peak_bytes=peak)


def _pruned(module: Any) -> Any:
    """The module after pruning: itself where it counts no references, else a new one."""
    shapes = int(codegen._parse_refprune_flags())
    if shapes == 0 or _Settings.mode is None:
        return module
    options = _library.make_options(_Settings.mode, shapes, "bitcode", 1000, None)
    options.trusted = True  # LLVM wrote it a moment ago
    bitcode, report = _library.prune_bytes(module.as_bitcode(), module.name, options)
    _add(report)
    if report.increfs + report.decrefs == 0:
        return module
    pruned = ll.parse_bitcode(bitcode)
    pruned.name = module.name
    return pruned


class _ThenPrune:
    """A pass manager of a module that prunes the library's module when it is through."""

    def __init__(self, manager: Any, library: Any):
        self._manager = manager
        self._library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def run(self, module: Any, *arguments: Any) -> Any:
        changed = self._manager.run(module, *arguments)
        self._library._final_module = _pruned(module)
        return changed


def _without_llvmlites_pass(make: Any, *arguments: Any, **options: Any) -> Any:
    """Call what makes a pass manager as if no pruning were wanted."""
    before = config.LLVM_REFPRUNE_PASS
    config.LLVM_REFPRUNE_PASS = 0
    try:
        return make(*arguments, **options)
    finally:
        config.LLVM_REFPRUNE_PASS = before


def _module_pass_manager(original: Any) -> Any:
    def replacement(self: Any, **options: Any) -> Any:
        library = getattr(_working, "library", None)
        if not config.LLVM_REFPRUNE_PASS or library is None:
            return original(self, **options)
        manager, *rest = _without_llvmlites_pass(original, self, **options)
        return (_ThenPrune(manager, library), *rest)

    return replacement


def _function_pass_manager(original: Any) -> Any:
    def replacement(self: Any, **options: Any) -> Any:
        return _without_llvmlites_pass(original, self, **options)

    return replacement


def _optimize_final_module(original: Any) -> Any:
    def replacement(self: Any) -> None:
        outer = getattr(_working, "library", None)
        _working.library = self
        try:
            original(self)
        finally:
            _working.library = outer

    return replacement


def _magic_tuple(original: Any) -> Any:
    def replacement(self: Any) -> tuple[Any, ...]:
        key: tuple[Any, ...] = original(self)
        return (*key, f"tarn.prune {tarn.__version__} {_Settings.mode}")

    return replacement


def _dump_refprune_stats(original: Any) -> Any:
    def replacement(printout: bool = False) -> Any:
        ours = newpassmanagers.PruneStats(*_Settings.totals[:4])
        return original(printout) + ours

    return replacement


def _check_versions() -> None:
    theirs = ".".join(map(str, ll.llvm_version_info))
    ours = _library.llvm_version()
    if theirs.partition(".")[0] != ours.partition(".")[0]:
        raise tarn.NotSupportedError(
            f"prune: llvmlite has LLVM {theirs}, libtarn_prune {ours}: "
            "bitcode cannot go both ways"
        )


def _replace(owner: Any, name: str, make: Any) -> None:
    before = getattr(owner, name)
    _Settings.replaced.append((owner, name, before))
    setattr(owner, name, make(before))


def install(mode: str) -> None:
    _library.make_options(mode, _library.ALL_SHAPES, "bitcode", 0, None)  # a mode?
    _check_versions()
    if _Settings.mode is None:
        _Settings.totals = Report()
        _replace(codegen.CPUCodegen, "_module_pass_manager", _module_pass_manager)
        _replace(codegen.CPUCodegen, "_function_pass_manager", _function_pass_manager)
        _replace(codegen.CPUCodeLibrary, "_optimize_final_module", _optimize_final_module)
        _replace(codegen.JITCPUCodegen, "magic_tuple", _magic_tuple)
        _replace(newpassmanagers, "dump_refprune_stats", _dump_refprune_stats)
    _Settings.mode = mode


def uninstall() -> None:
    while _Settings.replaced:
        owner, name, before = _Settings.replaced.pop()
        setattr(owner, name, before)
    _Settings.mode = None
