"""Plugins for a stock Numba that are written in Python: those of examples/numba/plugins.

Each passes the same exercises (plugin_exercises.py), in a process of its own, and so does
Tarn's own.
"""

import functools
import json
import os
import pathlib
import re

import numba_support
import pytest
from numba_support import rows, run

pytest.importorskip("numpy")
pytest.importorskip("numba")

import plugin_exercises  # noqa: E402

PLUGINS = pathlib.Path(__file__).parents[2] / "examples" / "numba" / "plugins"
MANAGERS = ["tarn.numba", "device_only", "whole", "nbep7_draft", "nbep7_final"]
NAMES = [exercise.__name__ for exercise in plugin_exercises.EXERCISES]


def with_plugins(arguments, **changes):
    return run(arguments, PYTHONPATH=str(PLUGINS), **changes)


@functools.cache
def outcomes(manager):
    """What went wrong in each exercise (None: nothing), and all that was printed."""
    done = with_plugins([plugin_exercises.__file__], NUMBA_CUDA_MEMORY_MANAGER=manager)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["exercise"]: line["trouble"] for line in lines}, done


@pytest.mark.parametrize("exercise", NAMES)
@pytest.mark.parametrize("manager", MANAGERS)
def test_a_manager_passes(manager, exercise):
    """A29-A66, B1-B18, C6-C16, as the exercise says."""
    found, done = outcomes(manager)
    assert exercise in found, f"exit code {done.returncode}: {done.stderr}"
    assert found[exercise] is None, found[exercise]


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_manager_ends_without_a_word(manager):
    """What finalizers say after the last exercise, and at exit."""
    done = outcomes(manager)[1]
    assert (done.returncode, done.stderr) == (0, "")
