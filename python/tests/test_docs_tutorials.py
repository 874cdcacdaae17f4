"""docs/tutorials: the programs and commands of each page do what the page shows.

A block of code that begins with a comment of a file name is that file. The commands of a page run in
their order. Each line of a `text` block is in the output of the commands before it; `…` stands
for anything. With TARN_TUTORIALS_GPU the commands are those for a GPU (tests/gpu/tutorials.sh).
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest
import tarn
from cli_tool import TOOL

ROOT = pathlib.Path(__file__).parents[2]
TUTORIALS = ROOT / "docs/tutorials"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
NAME = re.compile(r"(?:# |/\* |// )([\w.]+\.\w+)(?: \*/)?\n")
ON_GPU = "TARN_TUTORIALS_GPU" in os.environ
HAS_TORCH = "TARN_TORCH_CUDART" in os.environ or ON_GPU
# What a page needs beside Tarn.
NEEDS = {
    "c": (),
    "cpp": (),
    "cupy": ("cupy", "numba_cuda"),
    "numba": ("numba_cuda",),
    "plugin": ("numba_cuda",),
    "pytorch": (),
    "rmm": ("rmm",),
}


def blocks(page):
    """Return the files of a page, and its commands with the lines that they have to print."""
    files, steps = {}, []
    for language, text in BLOCK.findall(page):
        if language == "sh":
            steps.append((text, []))
        elif language == "text":
            assert not steps[-1][1], f"a second output of {steps[-1][0]}"
            steps[-1][1].extend(text.splitlines())
        elif named := NAME.match(text):
            files[named[1]] = text
    return files, steps


def missing(lines, output):
    """Return the lines of a page that the output lacks, in this order."""
    lacking, rest = [], "\n".join(" ".join(line.split()) for line in output.splitlines())
    for line in lines:
        parts = [re.escape(part.strip()) for part in " ".join(line.split()).split("…")]
        found = re.search(r"[^\n]*".join(parts), rest)
        if found:
            rest = rest[found.end() :]
        else:
            lacking.append(line)
    return lacking


def environment(page):
    """Return the variables of the commands, on the simulator those of a machine without a GPU."""
    changed = {
        **os.environ,
        "PATH": f"{pathlib.Path(TOOL).parent}:{os.environ['PATH']}",
        "TARN_DRIVER": "sim",
        "TARN_CACHE_DIR": str(ROOT / "build/cache"),
        "TARN_CHECKOUT": str(ROOT),
    }
    for name in ("CUDA_VISIBLE_DEVICES", "TARN_SIM", "TARN_LOG", "TARN_IPC_DIR", "PYTEST_ADDOPTS"):
        changed.pop(name, None)
    if ON_GPU:
        del changed["TARN_DRIVER"]
    elif page == "pytorch":
        changed["LD_PRELOAD"] = changed["TARN_TORCH_CUDART"]
        changed["LD_LIBRARY_PATH"] = f"{tarn.get_library_dir()}/tarn/sim"
    return changed


def runnable(command):
    """Return the commands for this Python, without those that install Tarn or make an environment."""
    if ON_GPU:
        command = command.replace("tarn sim -- ", "python ").replace(" --driver sim", "")
        command = re.sub("export TARN_DRIVER=sim.*", "", command)
    lines = [
        line
        for line in command.splitlines()
        if not line.startswith(("pip install", "python3 -m venv"))
    ]
    if any(line.startswith("export ") for line in lines):
        lines.append("env -0 > .environment")
    return re.sub(r"\bpython (?=\S+\.py)", f"{sys.executable} ", "\n".join(lines))


def test_each_page_is_tested_and_short():
    assert {path.stem for path in TUTORIALS.glob("*.md")} == set(NEEDS)
    for path in TUTORIALS.glob("*.md"):
        assert len(path.read_text().split()) <= 1000, path.name


@pytest.mark.parametrize("page", NEEDS)
def test_the_commands_of_a_page_print_what_it_shows(page, tmp_path):
    for module in NEEDS[page]:
        pytest.importorskip(module)
    if page == "pytorch" and not HAS_TORCH:
        pytest.skip("needs PyTorch and TARN_TORCH_CUDART: the step `together`")
    files, steps = blocks((TUTORIALS / f"{page}.md").read_text())
    assert files and steps
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    settings, shown = environment(page), 0
    for command, lines in steps:
        command = runnable(command)
        done = subprocess.run(
            ["sh", "-ec", command], cwd=tmp_path, env=settings, text=True, timeout=300,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        assert missing(lines, done.stdout) == [], f"{command}\n{done.stdout}"
        shown += len(lines)
        if (exported := tmp_path / ".environment").exists():
            pairs = exported.read_text().split("\0")
            settings.update(pair.split("=", 1) for pair in pairs if "=" in pair)
            exported.unlink()
    assert shown


def test_a_block_without_a_name_is_in_an_example():
    examples = "".join(
        path.read_text()
        for path in ROOT.glob("examples/**/*")
        if path.suffix in (".py", ".cpp", ".c")
    )
    unnamed = [
        text
        for path in TUTORIALS.glob("*.md")
        for language, text in BLOCK.findall(path.read_text())
        if language in ("python", "c", "cpp") and not NAME.match(text)
    ]
    assert len(unnamed) >= 2
    for text in unnamed:
        assert text in examples, text


def test_a_line_that_is_not_printed_is_seen():
    output = "a   1\n  b: 2.5 ms\nc\n"
    assert missing(["a 1", "b: … ms", "c"], output) == []
    assert missing(["c", "a 1"], output) == ["a 1"]
    assert missing(["b: … us"], output) == ["b: … us"]
