"""`tarn run` on a GPU: one log for the memory of Numba, CuPy, PyTorch and cuda.core.

    python -m pytest tests/gpu/test_gpu_run.py

The Python needs Tarn's wheel. A framework that is missing is left out of the program.
"""

import csv
import importlib.util
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

TOOL = str(Path(sys.executable).parent / "tarn")
FRAMEWORKS = {
    "numba": """
from numba import cuda
import numpy
@cuda.jit
def add(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] += 1
def of_numba():
    a = cuda.to_device(numpy.zeros(1_000_001, dtype="u1"))
    add[4000, 256](a)
    assert a.copy_to_host().all()
    return a
kept.append(of_numba())
""",
    "cupy": """
import cupy
def of_cupy():
    return cupy.ones(1_000_002, dtype="u1") * 2
kept.append(of_cupy())
assert int(kept[-1].sum()) == 2_000_004
""",
    "torch": """
import torch
def of_torch():
    return torch.ones(1_000_003, dtype=torch.uint8, device="cuda")
kept.append(of_torch())
weight = torch.ones(512, 512, device="cuda", requires_grad=True)
(weight @ weight).sum().backward()       # frees on a thread that Python does not know
torch.cuda.synchronize()
""",
}
BEGIN = "kept = []\n"


def run(tmp_path, *options):
    """Run a program with all installed frameworks; return the names and the finished process."""
    names = [name for name in FRAMEWORKS if importlib.util.find_spec(name)]
    program = tmp_path / "program.py"
    program.write_text(BEGIN + "".join(FRAMEWORKS[name] for name in names))
    done = subprocess.run(
        [TOOL, "run", *options, program], capture_output=True, text=True, cwd=tmp_path
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0, done.stderr
    return names, done


def test_each_block_of_each_framework_has_one_row(tmp_path):
    names, _ = run(tmp_path, "--log", "log.csv")
    live, sizes = {}, Counter()
    with (tmp_path / "log.csv").open() as file:
        for row in csv.DictReader(file):
            if row["Event Type"] == "Alloc":
                assert row["Address"] not in live, row
                live[row["Address"]] = row
                sizes[int(row["Size (bytes)"])] += 1
            else:
                del live[row["Address"]]
    for number, name in enumerate(FRAMEWORKS, 1):
        if name in names:
            found = [size for size in sizes if 1_000_000 + number <= size <= 1_000_000 + 512]
            assert found, (name, sizes)


def test_the_stacks_of_what_is_held_name_the_function(tmp_path):
    names, _ = run(tmp_path, "--log", "log", "--stacks", "16")
    done = subprocess.run([TOOL, "log", "--stacks", "log"], capture_output=True, text=True,
                          cwd=tmp_path)  # fmt: skip
    print(done.stdout)
    held = done.stdout.partition("held until exit\n")[2].partition("\n\nlargest")[0]
    for name in names:
        assert re.search(rf"\bof_{name}\b", held), (name, held)


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_a_limit_on_a_test_counts_tensors(tmp_path):
    (tmp_path / "test_it.py").write_text("""
import pytest
@pytest.mark.limit_gpu_memory("1 MiB")
def test_big():
    import torch
    torch.ones(2 << 20, dtype=torch.uint8, device="cuda")

@pytest.mark.limit_gpu_memory("1 MiB")
@pytest.mark.limit_gpu_leaks("0 B", warmups=1)
def test_small():
    import torch
    torch.ones(1 << 20, dtype=torch.uint8, device="cuda")
""")
    done = subprocess.run([TOOL, "run", "pytest", "-p", "no:cacheprovider", "test_it.py"],
                          capture_output=True, text=True, cwd=tmp_path)  # fmt: skip
    print(done.stdout, done.stderr)
    assert "1 failed, 1 passed" in done.stdout
    assert "used 2.00 MiB of GPU memory" in done.stdout
