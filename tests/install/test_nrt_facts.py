"""The facts of tests/nrt/facts.c: the defects exist on Numba's own core, and not on Tarn's."""

import os
import sys

from conftest import BUILD, PROJECT, run

FACTS = BUILD / "tests/nrt/libtarn_nrt_facts.so"
ASK = PROJECT / "tests/nrt/on_numba.py"


def test_numbas_own_core_has_the_defects_and_nothing_else():
    environment = {k: v for k, v in os.environ.items() if k != "TARN_NRT"}
    assert run(sys.executable, ASK, FACTS, "--own", env=environment)


def test_tarns_core_has_none_under_numba():
    assert run(sys.executable, "-m", "tarn.nrt", ASK, FACTS, "--tarn")
