#!/usr/bin/env python3
"""prune_corpus.py -- collects the modules that Numba prunes, as they are before it does.

    prune_corpus.py FOLDER TESTS...     e.g. numba.tests.test_nrt numba.tests.test_lists
    prune_corpus.py --totals TESTS...   what llvmlite's pass and Tarn take from them

Runs Numba's tests with llvmlite's pass taken out of Numba's pass managers and run by itself,
behind them: the code that Numba compiles is the same, and what goes into the pass can be
written to FOLDER, as bitcode, one file a module, named by a hash. Modules that count no
references are left out. tools/prune_compare.py takes the folder from there. With --totals
each module is pruned by all three instead, as often as it comes, and Numba goes on with what
llvmlite's pass has made of it.

Some tests start processes of their own, so the change is made by a `sitecustomize` that all
of them inherit. Modules come from three places: `function` (a library's own functions,
before it is linked), `linked` (with what it calls, inlined) and `optimized`. The first
letter of a file's name says which.
"""

from __future__ import annotations

import atexit
import glob
import hashlib
import json
import os
import subprocess
import sys
import tempfile

import llvmlite.binding as ll
from numba.core import codegen, config


class Recorder:
    def __init__(self, folder: str):
        self.folder = folder

    def note(self, module, place: str) -> None:
        bitcode = module.as_bitcode()
        if b"NRT_incref" not in bitcode and b"NRT_decref" not in bitcode:
            return
        name = f"{place[0]}{hashlib.sha256(bitcode).hexdigest()[:20]}.bc"
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(bitcode)


MODES = "llvmlite", "sound"
SHAPES = "per_block", "diamond", "fanout", "fanout_raise"


class Totals:
    """Prunes copies of the modules, and writes the sums to a file of its own at exit."""

    def __init__(self, folder: str):
        import tarn.prune

        self.prune = tarn.prune.prune
        self.sums = {mode: [0] * len(SHAPES) for mode in MODES}
        self.path = os.path.join(folder, f"{os.getpid()}.json")
        atexit.register(self.write)

    def note(self, module, place: str) -> None:
        bitcode = module.as_bitcode()
        for mode in MODES:
            report = self.prune(bitcode, mode=mode).report
            self.sums[mode] = [a + b for a, b in zip(self.sums[mode], report[:4], strict=True)]

    def write(self) -> None:
        stock = list(ll.newpassmanagers.dump_refprune_stats())
        with open(self.path, "w") as file:
            json.dump({"llvmlite's pass": stock, **self.sums}, file)


def print_totals(folder: str) -> None:
    sums: dict[str, list[int]] = {}
    for path in glob.glob(os.path.join(folder, "*.json")):
        with open(path) as file:
            for who, counts in json.load(file).items():
                before = sums.get(who, [0] * len(SHAPES))
                sums[who] = [a + b for a, b in zip(before, counts, strict=True)]
    print(f"{'':16}", *(f"{shape:>12}" for shape in (*SHAPES, "all")))
    for who, counts in sums.items():
        print(f"{who:16}", *(f"{count:12}" for count in (*counts, sum(counts))))


def without_pass(make, *arguments, **options):
    before = config.LLVM_REFPRUNE_PASS
    config.LLVM_REFPRUNE_PASS = 0
    try:
        return make(*arguments, **options)
    finally:
        config.LLVM_REFPRUNE_PASS = before


def run_llvmlites_pass(generator, module) -> None:
    manager = ll.create_new_module_pass_manager()
    manager.add_refprune_pass(codegen._parse_refprune_flags())
    manager.run(module, generator._pass_builder())


class ThenPrune:
    """A pass manager that notes the module when it is through, and prunes it then."""

    def __init__(self, manager, generator, recorder: Recorder, place: str):
        self.manager, self.generator = manager, generator
        self.recorder, self.place = recorder, place

    def run(self, module, builder):
        self.manager.run(module, builder)
        self.recorder.note(module, self.place)
        run_llvmlites_pass(self.generator, module)


def install(recorder: Recorder) -> None:
    module_passes = codegen.CPUCodegen._module_pass_manager
    function_passes = codegen.CPUCodegen._function_pass_manager
    optimize = codegen.CPUCodeLibrary._optimize_functions

    def module_pass_manager(self, **options):
        place = "linked" if options.get("cost") == "cheap" else "optimized"
        if not config.LLVM_REFPRUNE_PASS:
            return module_passes(self, **options)
        manager, builder = without_pass(module_passes, self, **options)
        return ThenPrune(manager, self, recorder, place), builder

    def function_pass_manager(self, **options):
        return without_pass(function_passes, self, **options)

    def optimize_functions(self, module):
        optimize(self, module)
        if config.LLVM_REFPRUNE_PASS:
            recorder.note(module, "function")
            run_llvmlites_pass(self._codegen, module)

    codegen.CPUCodegen._module_pass_manager = module_pass_manager
    codegen.CPUCodegen._function_pass_manager = function_pass_manager
    codegen.CPUCodeLibrary._optimize_functions = optimize_functions


HOOK = """\
import sys
sys.path.append({tools!r})
import prune_corpus
prune_corpus.install(prune_corpus.{what}({folder!r}))
"""


def run_tests(what: str, folder: str, tests: list[str]) -> int:
    """With modules going to a Recorder or Totals in every process."""
    with tempfile.TemporaryDirectory() as hook:
        with open(os.path.join(hook, "sitecustomize.py"), "w") as file:
            tools = os.path.dirname(os.path.abspath(__file__))
            file.write(HOOK.format(tools=tools, what=what, folder=folder))
        path = os.pathsep.join(filter(None, [hook, os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "numba.runtests", *tests]
        return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}).returncode


def main() -> int:
    if len(sys.argv) < 3 or (sys.argv[1].startswith("-") and sys.argv[1] != "--totals"):
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    if sys.argv[1] == "--totals":
        with tempfile.TemporaryDirectory() as folder:
            code = run_tests("Totals", folder, sys.argv[2:])
            print_totals(folder)
        return code
    folder = os.path.abspath(sys.argv[1])
    os.makedirs(folder, exist_ok=True)
    code = run_tests("Recorder", folder, sys.argv[2:])
    print(f"{len(os.listdir(folder))} different modules that count references in {folder}")
    return code


if __name__ == "__main__":
    sys.exit(main())
