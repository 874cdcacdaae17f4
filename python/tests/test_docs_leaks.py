"""docs/leaks.md: its programs and commands do what the page says."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cli_tool import TOOL

pytest.importorskip("numba")

PAGE = Path(__file__).parents[2] / "docs/leaks.md"


@pytest.fixture
def page(tmp_path):
    """Write the programs of the page to a folder; return a function that runs its commands."""
    text = PAGE.read_text()
    for code in re.findall(r"```python\n(.*?)```", text, re.S):
        (tmp_path / code.partition("\n")[0].removeprefix("# ")).write_text(code)
    commands = [line for block in re.findall(r"```sh\n(.*?)```", text, re.S)
                for line in block.splitlines()]  # fmt: skip

    def run(start):
        (command,) = [line for line in commands if line.startswith(start)]
        words = shlex.split(command)
        if words[:2] == ["tarn", "run"] and "sim" not in words:
            words[2:2] = ["--driver", "sim"]
        env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        env.pop("CUDA_VISIBLE_DEVICES", None)
        return subprocess.run(
            [TOOL, *words[1:]], cwd=tmp_path, env=env, capture_output=True, text=True
        )

    return run


@pytest.mark.parametrize("command", ["tarn run --log"])
def test_the_log_names_the_line_that_holds_the_memory(page, command):
    done = page(command)
    assert (done.returncode, done.stderr) == (0, "")
    done = page("tarn log")
    assert done.returncode == 0, done.stderr
    held = done.stdout.partition("held until exit\n")[2].partition("\n\n")[0]
    assert re.search(r"476\.8\d? MiB +500 .*leak\.py:10", held), done.stdout
    assert "mean" in held and "device_array_like" not in held, done.stdout


def test_the_test_of_the_page_fails_as_shown(page):
    done = page("tarn run pytest")
    output = done.stdout + done.stderr
    assert done.returncode == 1, output
    assert "1 failed, 1 passed" in done.stdout, output
    shown = re.search(r"\n    (limit_gpu_leaks: .*?)\n        File", PAGE.read_text(), re.S)[1]
    for line in shown.splitlines():
        assert line.strip() in done.stdout, output
    assert 'test_leak.py", line 16, in test_keeps_an_array' in done.stdout, output
