"""threads="single": compiled code counts without atomics until something runs without the GIL."""

import pytest
from nrt_process import python

SINGLE = ("-m", "tarn.nrt", "--threads=single")

HEAD = """
import numpy as np, tarn.nrt
from numba import njit, types
from numba.extending import intrinsic

@njit
def plain(n):
    items = [np.ones(3) for _ in range(10)]
    total = 0.0
    for i in range(n):
        x = items[i % 10]
        items[(i + 1) % 10] = x
        total += x[0]
    return total

assert plain(1000) == 1000.0
assert not tarn.nrt.counts_atomically(), "before"
"""

TRIGGERS = {
    "nogil": "njit(nogil=True)(lambda a: a)",
    "parallel": "njit(parallel=True)(lambda a: a)",
    "vectorize": "from numba import vectorize; vectorize(lambda a: a)",
    "vectorize of a type": "from numba import vectorize; vectorize(['f8(f8)'])(lambda a: a)",
    "guvectorize": """
from numba import guvectorize
@guvectorize(["void(f8[:], f8[:])"], "(n)->(n)")
def double(a, out):
    out[0] = 2 * a[0]
""",
    "cfunc": "from numba import cfunc; cfunc('f8(f8)')(lambda a: a)",
    "ahead of time": """
import warnings; warnings.simplefilter("ignore")
from numba.pycc.compiler import ModuleCompiler
ModuleCompiler([], "nothing")
""",
    "the flags of a compilation": """
from numba.core import compiler, typing, cpu, registry
flags = compiler.Flags(); flags.release_gil = True; flags.nrt = True
compiler.compile_extra(registry.cpu_target.typing_context, registry.cpu_target.target_context,
                       lambda a: a, (types.float64,), None, flags, {})
""",
    "NRT_get_api": """
from numba.core.unsafe.nrt import NRT_get_api
njit(lambda: NRT_get_api())()
""",
}


@pytest.mark.parametrize("name", TRIGGERS)
def test_the_flag_is_set_by(name):
    program = HEAD + TRIGGERS[name] + "\nassert tarn.nrt.counts_atomically(), 'behind'\n"
    program += "assert plain(1000) == 1000.0\nprint('good')"
    assert python(*SINGLE, "-c", program) == "good"


CACHED = """
import sys, threading, numpy as np, tarn.nrt
from numba import njit
from numba.core.unsafe.nrt import NRT_get_api
import inner

@njit(cache=True)
def outer(a):
    return inner.WHAT(a)

before = tarn.nrt.counts_atomically()
outer(1.0)
hits = sum(outer.stats.cache_hits.values())
print(before, tarn.nrt.counts_atomically(), hits)
"""

INNER = {
    "NRT_get_api": """
from numba import njit
from numba.core.unsafe.nrt import NRT_get_api
@njit
def WHAT(a):
    NRT_get_api()
    return a
""",
    "nogil": """
from numba import njit
@njit(nogil=True, cache=True)
def WHAT(a):
    return a
""",
}


@pytest.mark.parametrize("name", INNER)
def test_the_flag_is_set_by_code_from_the_cache(name, tmp_path):
    (tmp_path / "inner.py").write_text(INNER[name])
    (tmp_path / "program.py").write_text(CACHED)
    early = str(name == "nogil")  # the module that is imported makes the dispatcher
    for hits in "01":
        out = python(*SINGLE, tmp_path / "program.py", NUMBA_CACHE_DIR=str(tmp_path / "cache"))
        assert out == f"{early} True {hits}"


def test_the_mode_is_in_the_key_of_the_cache(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np\nfrom numba import njit\n@njit(cache=True)\ndef f(n):\n"
        "    return [np.ones(3) for _ in range(n)][0][0]\nf(3)\nprint(sum(f.stats.cache_hits.values()))\n"
    )
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    modes = [SINGLE, SINGLE, ("-m", "tarn.nrt"), ("-m", "tarn.nrt"), (), SINGLE]
    assert [python(*mode, program, **cache) for mode in modes] == ["0", "1", "0", "1", "1", "1"]


# A thread compiles functions and runs them; meanwhile the trigger comes, and then four threads
# without the GIL count one object.
MEANWHILE = (
    HEAD
    + """
import ctypes, threading, sys
sys.setswitchinterval(1e-5)
shared, stop = np.ones(3), threading.Event()
names, failures = iter(range(10**9)), []

def compile_and_run():
    while not stop.is_set():
        text = f"def f{next(names)}(a):\\n    l = [a]\\n    for i in range(100):\\n        l.append(l[i // 2])\\n    return len(l)\\n"
        space = {}
        exec(text, space)
        function = njit(next(v for k, v in space.items() if k[0] == "f"))
        if function(shared) != 101:
            failures.append(text)

@njit
def hold(a):
    return [a]

@njit(no_cpython_wrapper=False)
def churn(items, n):
    total = 0.0
    for i in range(n):
        items.append(items[0])
        x = items.pop()
        total += x[0]
    return total

compiling = [threading.Thread(target=compile_and_run) for _ in range(2)]
[thread.start() for thread in compiling]
for _ in range(20):
    churn(hold(shared), 1000)
assert not tarn.nrt.counts_atomically()
before = sys.getrefcount(shared)
free = njit(nogil=True)(churn.py_func)
assert tarn.nrt.counts_atomically()
counting = [threading.Thread(target=free, args=(hold(shared), 200_000)) for _ in range(4)]
[thread.start() for thread in counting]
[thread.join() for thread in counting]
stop.set()
[thread.join() for thread in compiling]
assert not failures and shared[0] == 1.0
print("good")
"""
)


def test_the_flag_is_set_while_other_threads_compile():
    assert python(*SINGLE, "-c", MEANWHILE, TARN_NRT_DEBUG="quarantine,abort") == "good"


COUNTS = """
import numpy as np, threading, tarn.nrt
from numba import njit, types
from numba.core.unsafe.refcount import get_refcount

@njit
def churn(a, n):
    items = [a]
    for i in range(n):
        items.append(a)
        items.pop()
    return get_refcount(a)

@njit(nogil=True)
def free(owner, n):
    a = owner[0]
    total = 0
    for i in range(n):
        keep = (a, a)
        total += churn(keep[i & 1], 10)
    return total

@njit
def count(owner):
    return get_refcount(owner[0])

@njit
def make():
    return [np.ones(3)]

from numba import typed
owner = typed.List([np.ones(3)])
before = count(owner)
assert tarn.nrt.counts_atomically()
threads = [threading.Thread(target=free, args=(owner, 20_000)) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(count(owner) == before)
"""


def test_threads_without_the_gil_count_with_atomics():
    assert python(*SINGLE, "-c", COUNTS) == "True"


def test_without_the_mode_code_counts_with_atomics():
    code = "import tarn.nrt; tarn.nrt.install(); import numba; print(tarn.nrt.counts_atomically())"
    assert python("-c", code) == "True"


def test_python_without_a_gil_counts_with_atomics():
    code = (
        "from tarn.nrt import _threads; _threads._has_gil = lambda: False; import tarn.nrt; "
        "tarn.nrt.install(threads='single'); import numba; print(tarn.nrt.counts_atomically())"
    )
    assert python("-c", code) == "True"


def test_the_mode_has_to_be_chosen_before_numba_is_imported():
    code = "import tarn.nrt; tarn.nrt.install(); import numba; tarn.nrt.install(threads='single')"
    assert "RuntimeError: tarn.nrt: too late for threads='single'" in python("-c", code, code=1)


def test_an_unknown_mode_is_named():
    words = python("-c", "import tarn.nrt; tarn.nrt.install(threads='two')", code=1)
    assert "ValueError: tarn.nrt: threads has to be any or single, not 'two'" in words


def test_children_have_the_mode():
    code = "import subprocess, sys; print(subprocess.run([sys.executable, '-c', "
    code += "'import numba, tarn.nrt; print(tarn.nrt.counts_atomically())'], "
    code += "capture_output=True, text=True).stdout.strip())"
    assert python(*SINGLE, "-c", code) == "False"
