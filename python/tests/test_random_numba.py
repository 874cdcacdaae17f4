"""Random Numba programs beside a model: numba_programs.py, in a process that they may close and fork.

TARN_TEST_PROGRAMS is the number of programs; then they are others in each run.
"""

import os
import pathlib
import subprocess
import sys

import numba_support
import pytest
import tarn

PROGRAMS = os.environ.get("TARN_TEST_PROGRAMS")
FOLDER = pathlib.Path(__file__).parent

pytestmark = pytest.mark.skipif(
    not tarn.driver_info().is_simulator, reason="the programs configure the simulator"
)


def test_random_programs_of_numba_agree_with_a_model():
    arguments = [str(int(PROGRAMS) // 10 or 1), "random"] if PROGRAMS else ["40"]
    done = subprocess.run(
        [sys.executable, FOLDER / "numba_programs.py", *arguments],
        env=numba_support.environment(TARN_TEST_PROGRAMS="0"),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == [arguments[0], "programs"]
