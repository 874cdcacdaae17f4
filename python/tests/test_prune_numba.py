"""tarn.prune in a stock Numba. Each program runs in a process of its own.

PYTHONMALLOC=debug fills freed memory, so that a read of it is noticed.
"""

import os
import subprocess
import sys

import pytest

pytest.importorskip("numba")

# The element is popped while a local name still holds it: llvmlite's pass removes the name's own
# reference and reads freed memory.
EARLY = """
import sys
import numpy as np
from numba import njit
{before}

@njit
def mk(x):
    a = np.empty(3)
    a[:] = x
    return a

@njit{options}
def early(n, flag):
    l = [mk(1.0), mk(1.0)]
    x = l[0]
    if flag:
        n += 1
    l.pop(0)
    return x[0] + n

{after}
"""

RIGHT = "5.0"


def run(arguments, **environment):
    environment = {**os.environ, "PYTHONMALLOC": "debug", **environment}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


def program(before="", options="", after="print(early(4, False))"):
    return EARLY.format(before=before, options=options, after=after)


INSTALL = "import tarn.prune; tarn.prune.install()"


def test_llvmlites_pass_reads_freed_memory():
    """If this fails, llvmlite was fixed, and the tests beside it show nothing any more."""
    assert run(["-c", program()]) != RIGHT


def test_tarn_gives_the_right_answer():
    assert run(["-c", program(INSTALL)]) == RIGHT


def test_compatible_mode_is_as_wrong_as_llvmlite():
    before = "import tarn.prune; tarn.prune.install('llvmlite')"
    assert run(["-c", program(before)]) != RIGHT


def test_a_program_runs_under_it_unchanged(tmp_path):
    path = tmp_path / "early.py"
    path.write_text(program(after="print(early(4, False), sys.argv[1:], __name__)"))
    assert run(["-m", "tarn.prune", path, "a"]) == f"{RIGHT} ['a'] __main__"


CACHED = "print(early(4, False), sum(early.stats.cache_hits.values()))"


def test_what_another_pruner_left_in_the_cache_is_compiled_anew(tmp_path):
    path = tmp_path / "early.py"
    path.write_text(program(options="(cache=True)", after=CACHED))
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    stock = run([path], **cache)
    assert not stock.startswith(RIGHT)
    assert run([path], **cache).endswith(" 1")  # the stock pruner is found as well
    tarns = ["-m", "tarn.prune"]
    assert run([*tarns, path], **cache) == f"{RIGHT} 0"
    assert run([*tarns, path], **cache) == f"{RIGHT} 1"
    assert run([*tarns, "--mode", "llvmlite", path], **cache).endswith(" 0")


STATISTICS = """
stats = early.overloads[early.signatures[0]].metadata["prune_stats"]
total = tarn.prune.statistics()
print(stats.basicblock > 0, total.per_block >= stats.basicblock, total.functions > 0)
"""


def test_the_statistics_of_a_function_are_tarns():
    after = "early(4, False)" + STATISTICS
    assert run(["-c", program(INSTALL, after=after)]) == "True True True"


EXPLAIN = """
early(4, False)
kept = tarn.prune.explain(early)
print(*(f"{k} {k.incref.line}" for k in kept), sep="\\n")
"""


def test_explain_names_the_line_of_the_source(tmp_path):
    path = tmp_path / "early.py"
    path.write_text(program(INSTALL, options="(debug=True)", after=EXPLAIN))
    lines = run([path]).splitlines()
    assert lines and any("early.py:" in line for line in lines), lines


UNINSTALL = """
from llvmlite.binding import newpassmanagers
from numba.core import codegen

def places():
    return [codegen.CPUCodegen._module_pass_manager, codegen.CPUCodegen._function_pass_manager,
            codegen.CPUCodeLibrary._optimize_final_module, codegen.JITCPUCodegen.magic_tuple,
            newpassmanagers.dump_refprune_stats]

before = places()
tarn.prune.install()
tarn.prune.install()
tarn.prune.install("llvmlite")
changed = [a is not b for a, b in zip(before, places())]
tarn.prune.uninstall()
tarn.prune.uninstall()
print(all(changed), before == places())
"""


def test_uninstall_puts_everything_back():
    assert run(["-c", "import tarn.prune" + UNINSTALL]) == "True True"


def test_numbas_switches_hold():
    code = program(INSTALL, after="early(4, False); print(*tarn.prune.statistics()[:4])")
    assert run(["-c", code], NUMBA_LLVM_REFPRUNE_PASS="0") == "0 0 0 0"
    per_block = run(["-c", code], NUMBA_LLVM_REFPRUNE_FLAGS="per_bb").split()
    assert int(per_block[0]) > 0 and per_block[1:] == ["0", "0", "0"]


NUMBAS = """
import unittest
from numba.tests import test_refop_pruning, test_nrt
tests = unittest.defaultTestLoader.loadTestsFromNames([
    "numba.tests.test_nrt.TestNrtMemInfo", "numba.tests.test_nrt_refct",
    "numba.tests.test_listobject.TestExtend", "numba.tests.test_listobject.TestPop",
    "numba.tests.test_refop_pruning.TestRefPruneFlags"])
result = unittest.TextTestRunner(verbosity=0).run(tests)
print(result.testsRun > 20, result.wasSuccessful(), len(result.skipped))
"""


@pytest.mark.parametrize("mode", ["sound", pytest.param("llvmlite", marks=pytest.mark.full)])
def test_some_of_numbas_own_tests_pass(mode, tmp_path):
    path = tmp_path / "numbas.py"
    path.write_text(NUMBAS)
    arguments = ["-m", "tarn.prune", "--mode", mode, path]
    assert run(arguments, PYTHONMALLOC="default") == "True True 0"
