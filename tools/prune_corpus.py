#!/usr/bin/env python3
"""prune_corpus.py -- collects the modules that Numba prunes, as they are before it does.

    prune_corpus.py FOLDER TESTS...     e.g. numba.tests.test_nrt numba.tests.test_lists

Runs Numba's tests with llvmlite's pass taken out of Numba's pass managers and run by itself,
behind them: the code that Numba compiles is the same, and what goes into the pass can be
written to FOLDER, as bitcode, one file a module, named by a hash. Modules that count no
references are left out. tools/prune_compare.py takes the folder from there.

Some tests start processes of their own, so the change is made by a `sitecustomize` that all
of them inherit. Modules come from three places: `function` (a library's own functions,
before it is linked), `linked` (with what it calls, inlined) and `optimized`. The first
letter of a file's name says which.
"""

from __future__ import annotations

import hashlib
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
prune_corpus.install(prune_corpus.Recorder({folder!r}))
"""


def main() -> int:
    if len(sys.argv) < 3 or sys.argv[1].startswith("-"):
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    folder = os.path.abspath(sys.argv[1])
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as hook:
        with open(os.path.join(hook, "sitecustomize.py"), "w") as file:
            tools = os.path.dirname(os.path.abspath(__file__))
            file.write(HOOK.format(tools=tools, folder=folder))
        path = os.pathsep.join(filter(None, [hook, os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "numba.runtests", *sys.argv[2:]]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path})
    print(f"{len(os.listdir(folder))} different modules that count references in {folder}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
