"""The samples of guides run: the Python of a page as one program, and its commands."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_tool import TOOL

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS.parent / "examples"


def samples(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


@pytest.mark.parametrize(
    "page, needs, output",
    [
        ("pool.md", None, "104857600 bytes, aligned to 256"),
        ("tracking.md", None, "1000"),
        ("writing-a-resource.md", None, "the largest request had 5000 bytes"),
        ("nrt-numba.md", "numba", "2 blocks 24000 bytes"),
        ("nrt-device.md", "numba_cuda", ""),
        pytest.param("prune.md", "numba", "5.0\n", marks=pytest.mark.pruner),
    ],
)
def test_the_samples_of_a_page_run_one_after_the_other(sim_process, tmp_path, page, needs, output):
    if needs:
        pytest.importorskip(needs)
    program = tmp_path / "program.py"  # a file: debug information has its name
    program.write_text("\n".join(samples(page, "python")))
    assert output in sim_process(f"import runpy; runpy.run_path({str(program)!r})")


def shell(commands, folder):
    """Run commands with the scripts of this Python, on the simulator; return their output."""
    scripts = f"{Path(TOOL).parent}:{Path(sys.executable).parent}"
    settings = {**os.environ, "PATH": f"{scripts}:{os.environ['PATH']}", "TARN_DRIVER": "sim"}
    settings.pop("CUDA_VISIBLE_DEVICES", None)
    done = subprocess.run(
        ["sh", "-ec", commands], cwd=folder, env=settings, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_commands_of_the_readme_make_a_page(tmp_path):
    shutil.copy(EXAMPLES / "python/report.py", tmp_path / "program.py")
    (commands,) = [block for block in samples("../README.md", "sh") if "tarn run" in block]
    shell(commands, tmp_path)
    assert "program.py" in (tmp_path / "report.html").read_text()


def test_the_commands_of_the_page_about_reports_make_a_page(tmp_path):
    shutil.copy(EXAMPLES / "python/report.py", tmp_path)
    (commands,) = samples("report.md", "sh")
    shell(commands, tmp_path)
    assert "report.py" in (tmp_path / "report.html").read_text()


def test_the_commands_of_the_page_about_the_simulator_run_a_program(tmp_path):
    code = "import tarn; tarn.DeviceBuffer(size=9); print(tarn.driver_info().device_count)"
    (tmp_path / "program.py").write_text(code)
    first, variables = samples("sim.md", "sh")
    printed = [word for word in shell(first, tmp_path).split() if word.isdigit()]
    assert printed == ["2", "1", "2"]
    (tmp_path / "program").write_text("#!/bin/sh\nexec python program.py\n")
    (tmp_path / "program").chmod(0o755)
    folder = shell("python -c 'import tarn; print(tarn.get_library_dir())'", tmp_path).strip()
    variables = variables.replace("PREFIX/lib", folder)
    assert shell(variables, tmp_path).split() == ["2", "2"]


PAIR = """
declare void @NRT_incref(ptr)
declare void @NRT_decref(ptr)

define i32 @f(ptr %x) {
  call void @NRT_incref(ptr %x)
  call void @NRT_decref(ptr %x)
  ret i32 0
}
"""


@pytest.mark.pruner
def test_the_commands_of_the_page_about_the_pruner_run(tmp_path):
    pytest.importorskip("numba")
    code = "from numba import njit; print(njit(lambda x: x + 1)(1))"
    (tmp_path / "program.py").write_text(code)
    (tmp_path / "in.ll").write_text(PAIR)
    outputs = [shell(commands, tmp_path) for commands in samples("prune.md", "sh")]
    assert outputs[0].split()[0] == "2" and "increfs executed: " in outputs[1]
    assert "NRT_incref(ptr %x)" not in (tmp_path / "out.ll").read_text()


def test_the_commands_of_the_page_about_the_runtime_run(tmp_path):
    pytest.importorskip("numba")
    (tmp_path / "program.py").write_text("import tarn.nrt; print(tarn.nrt.installed())")
    commands = "".join(samples("nrt-numba.md", "sh")).replace("ARGS...", "")
    assert shell(commands, tmp_path).split() == ["True", "True"]
