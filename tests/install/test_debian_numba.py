"""tarn.prune in Debian 12's Numba, 0.56.4, on LLVM 14: modules are pruned in place.

./check unpacks that Numba (.debian-numba); without it these tests fail. Each program runs in a
process of its own.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
DEBIAN = PROJECT / ".debian-numba" / "python"


def is_debian_12():
    release = platform.freedesktop_os_release()
    return (release["ID"], release.get("VERSION_ID")) == ("debian", "12")


pytestmark = pytest.mark.skipif(
    not is_debian_12() or sys.version_info[:2] != (3, 11),
    reason="the packages are those of Debian 12, for its Python 3.11",
)


def run(arguments, **environment):
    environment = {**os.environ, "PYTHONMALLOC": "debug", **environment}
    done = subprocess.run(
        [DEBIAN, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


# test_prune_numba.py describes the error under llvmlite's rules. Numba 0.56 does not have it: its
# pass never removed fan-out regions with raises.
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

@njit
def rows(n):
    l = [np.ones(3), np.zeros(2)]
    for i in range(n):
        l.append(l[i] + 1.0)
        if l[i].size == 7:
            raise ValueError("seven")
    return l[-1][0]

def refops(function):
    function(4, False) if function is early else function(4)
    text = "".join(function.inspect_llvm().values())
    return text.count("call void @NRT_incref(") + text.count("call void @NRT_decref(")

def stats(function):
    return tuple(function.overloads[function.signatures[0]].metadata["prune_stats"])

{after}
"""


def program(before="", options="", after="print(early(4, False))"):
    return EARLY.format(before=before, options=options, after=after)


def install(mode):
    return f"import tarn.prune; tarn.prune.install({mode!r})"


NO_TRIPS = """
from tarn.prune import _library
def trip(*arguments):
    raise AssertionError("a trip")
_library.prune_bytes = trip
"""


def test_it_is_debians_numba_and_its_modules_stay_where_they_are():
    after = """
import numba
print(early(4, False), numba.__version__, tarn.prune.llvm_version().partition(".")[0],
      _library.library_path().rpartition("/")[2])
"""
    code = program(install("sound") + NO_TRIPS, after=after)
    assert run(["-c", code]) == "5.0 0.56.4 14 libtarn_prune-14.so.0.2"


def test_numbers_are_those_of_the_pass_of_then_and_sound_mode_loses_nothing():
    after = "print(refops(early), refops(rows), *stats(early), *stats(rows))"
    stock = run(["-c", program(after=after)])
    assert run(["-c", program(install("llvmlite"), after=after)]) == stock
    sound = run(["-c", program(install("sound"), after=after)]).split()
    assert int(sound[0]) <= int(stock.split()[0])
    assert int(sound[1]) < int(stock.split()[1])


def test_what_was_compiled_before_stays_and_the_rest_is_tarns():
    after = """
mk(1.0)
import tarn.prune
tarn.prune.install()
print(early(4, False), tarn.prune.statistics().removed > 0)
tarn.prune.uninstall()
before = tarn.prune.statistics()
print(rows(3), tarn.prune.statistics() == before)
"""
    assert run(["-c", program(after=after)]) == "5.0 True\n3.0 True"


def test_numbas_switches_hold():
    after = "early(4, False); print(*tarn.prune.statistics()[:4])"
    code = program(install("sound"), after=after)
    assert run(["-c", code], NUMBA_LLVM_REFPRUNE_PASS="0") == "0 0 0 0"
    per_block = run(["-c", code], NUMBA_LLVM_REFPRUNE_FLAGS="per_bb").split()
    assert int(per_block[0]) > 0 and per_block[1:] == ["0", "0", "0"]


def test_what_the_stock_pruner_left_in_the_cache_is_compiled_anew(tmp_path):
    path = tmp_path / "early.py"
    after = "print(early(4, False), sum(early.stats.cache_hits.values()))"
    path.write_text(program(options="(cache=True)", after=after))
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert run([path], **cache) == "5.0 0"
    assert run(["-m", "tarn.prune", path], **cache) == "5.0 0"
    assert run(["-m", "tarn.prune", path], **cache) == "5.0 1"


def test_explain_reads_what_numba_compiled(tmp_path):
    path = tmp_path / "early.py"
    after = "early(4, False); print(*tarn.prune.explain(early), sep='\\n')"
    path.write_text(program(install("sound"), options="(debug=True)", after=after))
    assert "early.py:" in run([path])


def test_threads_compile_while_others_use_llvmlite():
    after = """
import threading
import llvmlite.binding as ll
done = threading.Event()

def parse():
    while not done.is_set():
        str(ll.parse_assembly("declare void @f(i8*)"))

def compile_some():
    for _ in range(3):
        assert njit(rows.py_func)(3) == 3.0

parser = threading.Thread(target=parse)
parser.start()
workers = [threading.Thread(target=compile_some) for _ in range(3)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
done.set()
parser.join()
print(tarn.prune.statistics().removed > 0)
"""
    assert run(["-c", program(install("sound"), after=after)]) == "True"


NUMBAS = """
import unittest
tests = unittest.defaultTestLoader.loadTestsFromNames([
    "numba.tests.test_nrt_refct",
    "numba.tests.test_refop_pruning.TestRefOpPruning",
    "numba.tests.test_refop_pruning.TestRefPruneFlags"])
result = unittest.TextTestRunner(verbosity=0).run(tests)
print(result.testsRun > 10, result.wasSuccessful())
"""


def test_some_of_numbas_own_tests_pass(tmp_path):
    path = tmp_path / "numbas.py"
    path.write_text(NUMBAS)
    assert run(["-m", "tarn.prune", path], PYTHONMALLOC="default") == "True True"


def test_the_tool_reads_and_writes_for_it_when_asked():
    tool = PROJECT / ".venv-bare" / "bin" / "tarn"
    text = "declare void @NRT_incref(i8*)\ndefine void @f(i8* %a) {\n  ret void\n}\n"
    done = subprocess.run([tool, "prune", "--llvm=14"], input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "define void @f(i8* %a) {" in done.stdout
    newer = subprocess.run([tool, "prune", "--emit=bc"], input=text.encode(), capture_output=True)
    assert newer.returncode == 0 and newer.stdout.startswith(b"BC")
    done = subprocess.run([tool, "prune", "--llvm=14"], input=newer.stdout, capture_output=True)
    assert done.returncode == 1 and done.stdout == b""
    assert b"LLVM 14" in done.stderr and done.stderr.count(b"\n") == 1


def test_random_functions_come_out_as_from_llvmlites_pass_of_then():
    compare = PROJECT / "tools" / "prune_compare.py"
    assert "0 modules of 250 differ" in run(["-B", compare, "random", "--count", "2000"])
    assert "0 differ" in run(["-B", compare, "old", "--count", "1000"])
