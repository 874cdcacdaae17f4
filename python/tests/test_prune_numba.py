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


# A callback of ctypes replaces the field whose array the function uses. The function holds the
# array by its pair alone, and every pruner that trusts calls takes the pair.
CALLBACK = """
import ctypes
import numpy as np
import tarn.prune
from numba import njit, float64
from numba.experimental import jitclass

tarn.prune.install({mode!r})

@njit
def mk(x):
    a = np.empty(3)
    a[:] = x
    return a

@jitclass([("arr", float64[::1])])
class Box:
    def __init__(self, arr):
        self.arr = arr

@njit
def replace(b, new):
    b.arr = new

@njit
def make(x):
    return Box(mk(x))

box, new, filler = make(1.0), mk(2.0), []

@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
def callback(i):
    replace(box, new)
    filler.append(np.full(3, 7.0))
    return i

@njit
def f(b):
    x = b.arr
    callback(1)
    return x[0] + x[1] + x[2]

f.compile((box._numba_type_,))
print(f(box))
"""


def test_an_object_outlives_a_callback_that_replaces_it():
    assert run(["-c", CALLBACK.format(mode="sound")], NUMBA_DEBUG_NRT="0") == "3.0"


def test_the_callback_breaks_the_function_if_calls_are_assumed_to_keep_references():
    assert run(["-c", CALLBACK.format(mode="assume_calls_keep")]) != "3.0"


# --- processes that the program starts --------------------------------------------------------

WORKERS = """
import concurrent.futures
import multiprocessing
import sys
{before}

def pruned(i):
    import numpy as np
    from numba import njit

    @njit
    def f(n):
        l = [np.ones(3), np.ones(3)]
        x = l[0]
        return x[0] + n

    f(i)
    import tarn.prune

    tarns = sys.modules.get("tarn.prune._numba")
    return tarns._Settings.mode if tarns else None

if __name__ == "__main__":
    multiprocessing.set_start_method({method!r})
    with multiprocessing.Pool(1) as pool:
        print(*pool.map(pruned, range(1)))
    context = multiprocessing.get_context({method!r})
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        print(*pool.map(pruned, range(1)))
"""


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_worker_processes_prune_as_their_parent_does(method, tmp_path):
    path = tmp_path / "workers.py"
    path.write_text(WORKERS.format(before="", method=method))
    arguments = ["-m", "tarn.prune", "--mode", "assume_calls_keep", path]
    assert run(arguments).split() == ["assume_calls_keep"] * 2


def test_workers_do_not_prune_if_the_parent_says_so(tmp_path):
    main = "if __name__ == '__main__':\n    import tarn.prune; tarn.prune.install(children=False)"
    path = tmp_path / "workers.py"
    path.write_text(WORKERS.format(before=main, method="spawn"))
    assert run([path]).split() == ["None"] * 2


CHILD = """
import os, subprocess, sys, tarn.prune
child = [sys.executable, "-c", "import sys; assert 'numba' not in sys.modules; "
         "import numba.core.codegen, tarn.prune; print(tarn.prune._numba._Settings.mode)"]
tarn.prune.install()
print(subprocess.run(child, capture_output=True, text=True).stdout.strip())
tarn.prune.uninstall()
print("TARN_PRUNE" in os.environ)
"""


def test_a_process_inherits_the_pruner_until_it_is_uninstalled():
    assert run(["-c", CHILD]).split() == ["sound", "False"]


def test_a_process_that_inherits_the_pruner_can_install_it_first():
    code = """
import sys, tarn.prune
assert "numba" not in sys.modules
tarn.prune.{call}
print(tarn.prune._numba._Settings.mode)
"""
    for call, mode in [
        ("install('llvmlite')", "llvmlite"),
        ("statistics()", "sound"),
        ("uninstall()", "None"),
    ]:
        assert run(["-c", code.format(call=call)], TARN_PRUNE="sound") == mode


UNTRIED = """
import warnings, llvmlite.binding as ll, tarn.prune
from tarn.prune import _library
ll.llvm_version_info = ({theirs}, 1, 0)
_library.llvm_version = lambda: "{ours}.1.2"
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        tarn.prune.install()
    except tarn.NotSupportedError as error:
        print(error)
print(*(f"{{item.category.__name__}}: {{item.message}}" for item in caught))
"""


def test_an_llvm_that_was_not_tried_is_warned_of_and_another_one_is_refused():
    said = run(["-c", UNTRIED.format(theirs=23, ours=23)])
    assert said.startswith("RuntimeWarning: prune: LLVM 23.1.2 was not tried with Tarn"), said
    assert said.endswith("only the versions 14, 20, 21, 22"), said
    assert run(["-c", UNTRIED.format(theirs=22, ours=22)]) == ""
    assert "llvmlite has LLVM 22.1.0, libtarn_prune 23.1.2: bitcode cannot be exchanged" in run(
        ["-c", UNTRIED.format(theirs=22, ours=23)]
    )


def test_a_child_of_an_unknown_mode_says_so():
    done = subprocess.run(
        [sys.executable, "-c", "pass"],
        env={**os.environ, "TARN_PRUNE": "quick"},
        capture_output=True,
        text=True,
    )
    assert "TARN_PRUNE has to be 0 or one of sound, llvmlite, assume_calls_keep" in done.stderr


def test_a_child_without_the_library_warns_and_runs(tmp_path):
    code = "import numba; print(numba.njit(lambda x: x + 1)(1))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "TARN_PRUNE": "sound", "TARN_PRUNE_LIBRARY": str(tmp_path / "none.so")},
        capture_output=True,
        text=True,
    )
    assert done.stdout.strip() == "2", done.stderr
    assert "RuntimeWarning: tarn.prune: not installed" in done.stderr


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


PROFILED = """
import numpy as np
from numba import njit, typed

@njit
def replace(items, n):
    for i in range(n):
        items[(i + 1) % 4] = items[i % 4]
    return len(items)

@njit
def walk(items, n):
    total = 0.0
    for i in range(n):
        x = items[i % 4]
        total += x[0]
    return total

items = typed.List([np.ones(1) for _ in range(4)])
replace(items, 1000)
walk(items, 1000)
"""


def test_the_profile_counts_what_runs_by_rule(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROFILED)
    done = subprocess.run(
        [sys.executable, "-m", "tarn.prune", "--profile", str(program)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    lines = done.stderr.splitlines()
    assert lines[0].startswith("increfs executed: ")
    total = int(lines[0].rpartition(" ")[2])
    by_rule = [int(line.split()[0]) for line in lines[1:] if " %  " in line]
    assert total == sum(by_rule) >= 1000, done.stderr
    assert any("the function has no decref of the value" in line for line in lines), done.stderr
    assert not any("walk" in line for line in lines), done.stderr


@pytest.mark.parametrize("call", ["install('sound')", "install('llvmlite')", "statistics()"])
def test_a_child_may_use_the_pruner_before_it_imports_numba(call):
    program = (
        f"import tarn.prune; tarn.prune.{call}; from tarn.prune import _numba; "
        "print(_numba._Settings.mode)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "TARN_PRUNE": "sound"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == ("llvmlite" if "llvmlite" in call else "sound")
