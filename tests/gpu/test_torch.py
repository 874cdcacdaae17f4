"""PyTorch's memory from Tarn: each program of torch_programs.py, in a process of its own.

On a machine with a GPU: `python -m pytest tests/gpu/test_torch.py`, with Tarn and PyTorch installed.
TARN_TORCH_JOBS processes run at once. Without a GPU the programs run on the driver simulator.
TARN_TORCH_CUDART names the library of python/tests/torch_cudart.c then, which stands for the CUDA runtime.
Programs that check the results of kernels are skipped there.
"""

import concurrent.futures
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
tarn = pytest.importorskip("tarn")

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CUDART = os.environ.get("TARN_TORCH_CUDART")
sys.path.insert(0, str(HERE))
import torch_programs  # noqa: E402


def environment():
    """Return the environment of a program."""
    if CUDART is None:
        return dict(os.environ)
    driver = os.environ["TARN_DRIVER"]
    return {
        **os.environ,
        "LD_PRELOAD": CUDART,
        "LD_LIBRARY_PATH": os.path.dirname(driver),
        "TARN_TORCH_ON_SIMULATOR": "1",
    }


def skip_reason(name):
    """Return why a program cannot run here, or None."""
    program = torch_programs.PROGRAMS[name]
    if CUDART is not None and getattr(program, "needs_gpu", False):
        return "it checks the results of kernels"
    if devices() < getattr(program, "devices", 1):
        return "it needs two devices"
    return None


@pytest.fixture(scope="module")
def outputs(request):
    """Start the programs of all selected tests; each test takes the result of its own."""
    items = [item for item in request.session.items if "outputs" in item.fixturenames]
    chosen = [item.callspec.params["name"] for item in items]
    jobs = int(os.environ.get("TARN_TORCH_JOBS", "2"))
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        yield {
            name: pool.submit(run, name) for name in dict.fromkeys(chosen) if not skip_reason(name)
        }


@functools.cache
def devices():
    return 2 if CUDART is not None else torch.cuda.device_count()


def execute(*arguments, **settings):
    """Run Python with these variables of the environment, and return the finished process."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**environment(), **settings},
        text=True,
        timeout=120,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def run(name):
    """Run a program, and return its output."""
    done = execute(str(HERE / "torch_programs.py"), name)
    assert done.returncode == 0 and "TEST PASSED" in done.stdout, (
        f"{name}: exit {done.returncode}\n{done.stdout[-4000:]}"
    )
    return done.stdout


def names(output, word):
    line = next(line for line in output.splitlines() if line.startswith(word + " "))
    return set(line.split()[1:])


@pytest.mark.parametrize("name", sorted(torch_programs.PROGRAMS))
def test_program(name, outputs):
    if skip_reason(name):
        pytest.skip(skip_reason(name))
    output = outputs[name].result()
    if name == "failing_frees_are_warnings":
        assert output.count("torch: a free failed") == 3, output
    if name == "statistics_have_pytorchs_keys":
        native = run("native_keys")
        for word in ("KEYS", "SEGMENT", "SNAPSHOT"):
            missing = names(native, word) - names(output, word)
            assert not missing, missing


def test_programs_of_the_page():
    page = (ROOT / "docs" / "torch.md").read_text()
    programs = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(programs) == 2
    for program in programs:
        done = execute("-c", program)
        assert done.returncode == 0, f"{program}\n{done.stdout}"


@pytest.mark.parametrize("marks", ["learn", "detect"])
def test_nine_sizes_of_a_network_are_planned(marks):
    """ResNet-50 with nine sizes of images: each step but those of the smallest sizes has a plan."""
    settings = {} if CUDART is None else {"PYTHONPATH": str(ROOT / "tools/without_kernels")}
    options = ["--few-shapes", "9", "--steps", "140", "--warm-up", "100"]
    program = str(ROOT / "bench/torch/compare.py")
    done = execute(program, "--one", "resnet50", f"tarn:plan={marks}", *options, **settings)
    assert done.returncode == 0, done.stdout[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["plan_state"] == "followed", found
    assert found["plans_made"] >= 8, found
    assert found["plans_worse"] == 0, found
