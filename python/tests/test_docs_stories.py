"""docs/leaks.md, out-of-memory.md and libraries.md: the reports of their programs say what the pages say."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest
from cli_tool import TOOL
from report_logs import blocks

for module in ("numba_cuda", "cupy"):
    pytest.importorskip(module)

ROOT = pathlib.Path(__file__).parents[2]
GIB = 1 << 30
HAS_TORCH = "TARN_TORCH_CUDART" in os.environ and importlib.util.find_spec("torch") is not None


def load_pictures():
    """Return tools/pictures.py, which runs the programs of the pages."""
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "tools/pictures.py")
    sys.modules["pictures"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pictures = load_pictures()


@pytest.fixture
def story(tmp_path, monkeypatch):
    """Run the program of a page; return the data block of its report."""
    monkeypatch.setenv("TARN_DRIVER", "sim")
    monkeypatch.delenv("TARN_SIM", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if not HAS_TORCH:  # a PyTorch for GPUs alone must not be found: its runtime is no simulator
        (tmp_path / "torch.py").write_text("raise ImportError('PyTorch is hidden')")

    def run(program):
        (one,) = [each for each in pictures.STORIES if each.program == program]
        pictures.run(one, tmp_path, sys.executable)
        (block,) = blocks((tmp_path / program.replace(".py", ".html")).read_bytes())
        return block

    return run


def rules(block):
    return {one["rule"]: one for one in reversed(block["findings"])}


def test_the_report_names_the_function_that_grows_and_its_caller(story):
    found = rules(story("leak.py"))
    assert {"F1", "F2"} <= set(found)
    for rule in "F1", "F2":
        assert "leak.py:10 load" in found[rule]["sentence"]
        assert any("called from" in line and "leak.py:14 mean" in line
                   for line in found[rule]["evidence"])  # fmt: skip


def test_free_memory_in_pieces_is_the_cause(story, tmp_path):
    block = story("mosaic.py")
    found = rules(block)["F7"]
    assert "the pool is fragmented: 1" in found["sentence"] and not found["hint"]
    assert "and the device has 1" in found["sentence"]
    assert "mosaic.py:13 mosaic" in found["evidence"][0]
    assert "it failed 2 times, within a second of each other" in found["evidence"]
    fields = block["failures"][0]["fields"]
    assert fields["cached"] + fields["device_free"] > 30 * GIB > fields["requested"]
    done = subprocess.run(
        [TOOL, "run", "--driver", "sim", "vmm.py"], cwd=tmp_path, capture_output=True, text=True,
        env=pictures.environment("sim"),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not HAS_TORCH, reason="needs PyTorch and TARN_TORCH_CUDART")
def test_memory_of_another_allocator_is_the_cause(story, tmp_path):
    found = rules(story("search.py"))["F7"]
    assert (
        "other processes or allocators hold 28.0 GiB of the device's 40.0 GiB" in found["sentence"]
    )
    done = subprocess.run(
        [TOOL, "run", "--driver", "sim", sys.executable, "search.py"], cwd=tmp_path, text=True,
        capture_output=True, env=pictures.environment("sim"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_each_library_has_a_band(story):
    bands = {one["label"]: max(one["bytes"]) for one in story("pipeline.py")["bands"]["framework"]}
    wanted = {"numba_cuda", "cupy", "other"} | ({"torch"} if HAS_TORCH else set())
    assert set(bands) == wanted
    assert bands["cupy"] == 20 * 16_000_000 and bands["other"] == 0
    if HAS_TORCH:  # parameters, gradients, and both moments of Adam
        assert bands["torch"] >= 16 * 16_000_000
