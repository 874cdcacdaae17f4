"""Runs Python programs for the tests of tarn.nrt, and returns their output."""

import os
import subprocess
import sys


def python(*words, code=0, **environment):
    """Run `python WORDS` with only the given settings of Tarn and Numba."""
    plain = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TARN_NRT", "NUMBA_", "PYTHON"))
    }
    done = subprocess.run(
        [sys.executable, *(str(word) for word in words)], env={**plain, **environment},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == code, f"exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout.strip() if code == 0 else done.stderr.strip()


def on_tarn(program, **environment):
    """Run a program's text with Numba on Tarn's runtime."""
    return python("-m", "tarn.nrt", "-c", program, **environment)
