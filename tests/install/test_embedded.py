"""Tarn and a stock Numba in one C process: neither gets the other's calls."""

import os
import sys
import sysconfig

from conftest import PROJECT, run

SCRIPT = """
import numpy, numba
from numba.core.runtime import rtsys, _nrt_python
@numba.njit
def f(n):
    total = 0.0
    for i in range(n):
        total += numpy.ones(10).sum()
    return total
assert f(1) == 10
_nrt_python.memsys_enable_stats()
before = rtsys.get_allocation_stats()
assert f(1000) == 10000
after = rtsys.get_allocation_stats()
print(*[b - a for a, b in zip(before, after)], flush=True)
"""


def embed_flags():
    """Return the compiler's arguments for linking this interpreter's library."""
    value = sysconfig.get_config_var
    name = value("LDLIBRARY").removeprefix("lib").rsplit(".", 1)[0]
    folders = [value("LIBDIR"), value("LIBPL")]
    return [
        f"-I{sysconfig.get_path('include')}",
        *[f"-L{f}" for f in folders],
        *[f"-Wl,-rpath,{f}" for f in folders],
        f"-l{name}",
        "-rdynamic",
        *value("LIBS").split(),
        *value("SYSLIBS").split(),
    ]


def test_a_program_that_links_tarn_embeds_a_stock_numba(prefix, tmp_path):
    program = tmp_path / "embedded"
    lib = next(prefix.glob("lib*/**/libtarn.so")).parent
    run(
        "cc",
        "-o",
        program,
        PROJECT / "tests/install/embedded.c",
        f"-I{prefix}/include",
        f"-L{lib}",
        "-ltarn",
        f"-Wl,-rpath,{lib}",
        *embed_flags(),
    )
    environment = {**os.environ, "PYTHONMALLOC": "debug"}
    environment.pop("TARN_NRT", None)
    said = run(program, sys.executable, SCRIPT, env=environment)
    assert said.splitlines() == [
        "1000 1000 1000 1000",
        "1000 1000 1000 1000",
        "4000 4000 4000 2000 0",
    ]
