"""The examples run, and the README shows nothing that is not in one of them."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

from conftest import BUILD, PROJECT, run

C_EXAMPLES = sorted(p.stem for p in PROJECT.glob("examples/c/*.c"))
PYTHON_EXAMPLES = sorted(PROJECT.glob("examples/python/*.py"))
NUMBA_EXAMPLES = sorted(PROJECT.glob("examples/numba/*.py"))
TARN = pathlib.Path(sys.executable).with_name("tarn")


def test_there_are_examples_of_each_kind():
    assert C_EXAMPLES and PYTHON_EXAMPLES and NUMBA_EXAMPLES


@pytest.mark.parametrize("name", C_EXAMPLES)
def test_c(name):
    assert run(BUILD / "bin" / f"example_{name}")


@pytest.mark.parametrize("path", PYTHON_EXAMPLES, ids=lambda p: p.stem)
def test_python(path):
    assert run(sys.executable, path)


@pytest.mark.parametrize("path", NUMBA_EXAMPLES, ids=lambda p: p.stem)
def test_numba(path, tmp_path):
    log = tmp_path / "log.csv"
    run(TARN, "run", "--driver", "sim", "--log", log, path)
    assert run(TARN, "log", "--check", log)


def code_blocks(language):
    text = (PROJECT / "README.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S)


@pytest.mark.parametrize("language, folder", [("c", "examples/c"), ("python", "examples/python")])
def test_what_the_readme_shows_is_in_an_example(language, folder):
    sources = [p.read_text() for p in (PROJECT / folder).iterdir()]
    blocks = code_blocks(language)
    assert blocks
    for block in blocks:
        assert any(block in source for source in sources), block
