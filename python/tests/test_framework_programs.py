"""bench/frameworks: its programs on the host, and what its runner reports.

CuPy's programs run with numpy, Numba's under Numba's own simulator of kernels. So their results are
checked without a GPU. tests/gpu/frameworks-bench.sh runs them on a GPU.
"""

import argparse
import importlib.util
import json
import pathlib
import random
import re
import sys

import numba_support
import pytest
import tarn

FOLDER = pathlib.Path(__file__).parents[2] / "bench/frameworks"
sys.path.insert(0, str(FOLDER))
np = pytest.importorskip("numpy")

import cupy_programs  # noqa: E402

ADD_FOLDER = f"import sys; sys.path.insert(0, {str(FOLDER)!r})\n"


# --- CuPy's programs --------------------------------------------------------------------


def ran(kind, xp=np, steps=3):
    program = kind(xp, kind.smallest_scale, random.Random(1), lambda: None)
    for _ in range(steps):
        program.step()
    return program


@pytest.mark.parametrize("name", cupy_programs.PROGRAMS)
def test_a_program_of_cupy_is_right_and_repeats_its_checksum(name):
    kind = cupy_programs.PROGRAMS[name]
    first = ran(kind)
    first.check()
    assert first.checksum() == ran(kind).checksum() != 0


class WrongTransform:
    """numpy with an inverse transform that is wrong by a percent."""

    def __getattr__(self, name):
        return getattr(np, name)

    class fft:
        rfftn, fftfreq, rfftfreq = np.fft.rfftn, np.fft.fftfreq, np.fft.rfftfreq

        @staticmethod
        def irfftn(*arguments, **keywords):
            return np.fft.irfftn(*arguments, **keywords) * np.float32(1.01)


def test_a_wrong_solution_of_poissons_equation_is_found():
    with pytest.raises(AssertionError, match="the solution is wrong by"):
        ran(cupy_programs.Poisson, WrongTransform()).check()


def test_wrong_centres_are_found():
    program = ran(cupy_programs.Kmeans)
    program.centres[7, 3] += 1
    with pytest.raises(AssertionError, match="the centres are wrong by"):
        program.check()


def test_images_are_blurred_and_equalised():
    program = cupy_programs.Images(np, 1000, random.Random(1), lambda: None)
    flat = np.full((2, 3, 9, 16), 40, "f4")
    assert (program._blurred(flat, 2) == flat).all()
    point = np.zeros((1, 1, 9, 9), "f4")
    point[0, 0, 4, 4] = 1
    assert program._blurred(point, 3)[0, 0, 4].tolist() == [0, 0, *program.weights, 0, 0]
    grey = (np.arange(160) // 2).astype("u1").reshape(1, 10, 16)  # 0 to 79
    levels = program._equalised(grey)
    assert levels.max() == 255 and len(np.unique(levels)) == 80


# --- Numba's programs -------------------------------------------------------------------

BEGIN = """
import random
import numpy as np
from numba import cuda
import numba_kernels as kernels
import numba_programs as programs
kernels.THREADS = 16  # each is a thread of Python here

def make(kind, scale=None):
    return kind(scale or kind.smallest_scale, random.Random(1), lambda: None)
"""
PARTICLES = """
program = make(programs.Particles)
program.step()
at = program.particles.copy_to_host()[:, :3]
for _ in range(2):
    program.step()
program.check()

again = make(programs.Particles)
kernels.move = cuda.jit(lambda *arguments: None)  # so the particles stay where they begin
again.step()
count = again.particles.shape[0]
began = cuda.device_array((count, 6), "i4")
kernels.launch(kernels.grow, count, cuda.device_array((0, 6), "i4"), began, again.box)
at = began.copy_to_host()[:, :3].astype("i8")
apart = ((at[:, None] - at[None, :]) ** 2).sum(axis=2)
assert again.sum == int((apart < again.side**2).sum()) - count > 0
again.failures.copy_to_device(np.ones(1, "i4"))
try:
    again.check()
except AssertionError as error:
    assert "too short" in str(error)
else:
    raise SystemExit("a list that is too short was not found")
"""
SORT = """
values = np.arange(200, dtype="i4") % 7
offsets, total = kernels.scan(cuda.to_device(values))
assert total == values.sum()
assert (offsets.copy_to_host() == np.cumsum(values) - values).all()

programs.Sort.part = 32
program = make(programs.Sort)
program.step()
program.check()
whole = programs.Sort._pass
programs.Sort._pass = lambda self, keys, values, shift: (
    (keys, values) if shift == 16 else whole(self, keys, values, shift)
)
program.step()
try:
    program.check()
except AssertionError as error:
    assert "places are out of order" in str(error)
else:
    raise SystemExit("a missing pass was not found")
"""
RAYS = """
programs.Rays.marches, programs.Rays.far = 8, 2.0
program = make(programs.Rays)
program.rng = random.Random(3)
width = int(program.rng.randrange(program.scale // 4, program.scale) ** 0.5)
turn = program.rng.randrange(10)
program.rng = random.Random(3)
program.step()

def ball(x):
    x = x - np.floor(x) - np.float32(0.5)
    return np.sqrt((x * x).sum()) - 0.1

colours = 0
for i in range(width * width):
    u, v = (i % width) / width - 0.5, (i // width) / width - 0.5
    at = np.array([0.3, 0.2, turn * 0.1], "f4")
    way = np.array([u, v, (1 - u * u - v * v) ** 0.5], "f4")
    for march in range(8):
        length = ball(at)
        at = (at + way * max(length, 0.002)).astype("f4")
        if length < 0.002 or at[2] > 2:
            colours += 1 + march if length < 0.002 else 255
            break
assert program.sum == colours > 0, (program.sum, colours)
"""


@pytest.mark.skipif(not tarn.driver_info().is_simulator, reason="for machines without a GPU")
@pytest.mark.parametrize("code", [PARTICLES, SORT, RAYS], ids=["particles", "sort", "rays"])
def test_a_program_of_numba_is_right(code):
    pytest.importorskip("numba_cuda")
    done = numba_support.run(
        ["-W", "ignore", "-c", ADD_FOLDER + BEGIN + code], NUMBA_ENABLE_CUDASIM="1"
    )
    assert done.returncode == 0, done.stdout + done.stderr


# --- the runner -------------------------------------------------------------------------

STUB = """
import argparse, json, types
import tarn
tarn.open_driver()
import compare
from numba import cuda

class Stub:
    scale = steps = 3
    def __init__(self, note): self.note, self.checked = note, False
    def step(self):
        one, two = cuda.device_array(1 << 24, "u1"), cuda.device_array(1 << 25, "u1")
        self.note()
    def check(self): self.checked = True
    def checksum(self): return 5 if self.checked else 0

compare.make = lambda name, scale, note, is_dry: (Stub(note), cuda.synchronize)
arguments = argparse.Namespace(scale=None, steps=None, few_steps=None, warm_up=1, dry=False)
print(json.dumps(compare.run_one("sort", ALLOCATOR, arguments)))
"""


@pytest.mark.parametrize("allocator", ["own", "tarn", "tarn:no_stream_limit=1MiB"])
def test_a_run_reports_its_memory(allocator):
    pytest.importorskip("numba_cuda")
    code = ADD_FOLDER + STUB.replace("ALLOCATOR", repr(allocator))
    found = json.loads(numba_support.fork_code(code).splitlines()[-1])
    assert (found["program"], found["framework"], found["checksum"]) == ("sort", "numba", 5)
    assert found["used"] >= 48 << 20
    assert found["peak_live"] == (None if allocator == "own" else 48 << 20)
    if "limit" in allocator:
        assert found["used"] <= 50 << 20  # the frees of each step wait before the next one grows


DRY = """
import argparse, json
import tarn
tarn.open_driver()
import compare
arguments = argparse.Namespace(scale=None, steps=None, few_steps=None, warm_up=1, dry=True)
print(json.dumps(compare.run_one("NAME", ALLOCATOR, arguments)))
"""


@pytest.mark.skipif(not tarn.driver_info().is_simulator, reason="for machines without a GPU")
@pytest.mark.parametrize("name", ["particles", "sort", "rays"])
def test_a_program_of_numba_at_full_size_needs_little_more_than_its_live_bytes(name):
    pytest.importorskip("numba_cuda")
    code = ADD_FOLDER + DRY.replace("NAME", name)
    code = code.replace("ALLOCATOR", "compare.ALLOCATORS['numba'][2]")
    found = json.loads(numba_support.fork_code(code, TARN_SIM="memory=140GiB").splitlines()[-1])
    assert found["peak_live"] > 2 << 30
    assert 0.95 * found["peak_live"] < found["used"] < 1.02 * found["peak_live"]


@pytest.mark.skipif(not tarn.driver_info().is_simulator, reason="for machines without a GPU")
def test_a_loop_of_numba_is_learned():
    """Two steps in turn: both have plans behind the warm-up."""
    pytest.importorskip("numba_cuda")
    steps = "steps=48, few_steps=2, warm_up=36, dry=True"
    code = ADD_FOLDER + DRY.replace("NAME", "sort").replace("ALLOCATOR", "'tarn:plan=learn'")
    code = code.replace("steps=None, few_steps=None, warm_up=1, dry=True", steps)
    found = json.loads(numba_support.fork_code(code, TARN_SIM="memory=140GiB").splitlines()[-1])
    assert (found["plans_made"], found["plans_worse"]) == (2, 0)
    assert found["planned_share"] > 0.98
    assert found["recent_peak_reserved"] <= 1.02 * found["recent_peak_allocated"]


def run(allocator, seconds=1.0, used=4 << 30, checksum=7.0, peak=3 << 30):
    return {
        "program": "sort", "allocator": allocator, "seconds": seconds, "used": used,
        "checksum": checksum, "peak_live": None if allocator == "own" else peak,
    }  # fmt: skip


def failures(*runs):
    """Return what the runner says; other folders have a compare.py, too."""
    spec = importlib.util.spec_from_file_location("frameworks_compare", FOLDER / "compare.py")
    compare = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(compare)
    arguments = argparse.Namespace(
        programs=["sort"], allocators=["own", "tarn"], scale=None, dry=False
    )
    return compare.failures(list(runs), arguments)


def test_the_runner_compares_medians():
    slow = [run("tarn", seconds) for seconds in (1.01, 1.02, 9.0)]
    assert failures(*[run("own")] * 3, *slow) == []


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"seconds": 1.03}, "1.030 times the time of its own allocator, not 1.02"),
        ({"used": (4 << 30) + 1}, "times the memory of its own allocator"),
        ({"checksum": 7.1}, r"the checksums differ: \[7.0, 7.1\]"),
        ({"peak": 1 << 30}, "the peak of live bytes is below 2 GiB"),
    ],
)
def test_the_runner_names_what_does_not_hold(changes, words):
    (line,) = failures(run("own"), run("tarn", **changes))
    assert line.startswith("sort tarn: ")
    assert re.search(words, line)


def test_the_runner_names_a_program_that_did_not_run():
    assert failures(run("own")) == ["sort tarn: there is no run beside the own allocator"]
