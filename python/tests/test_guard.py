"""tarn.guard, TARN_POOL_DEBUG under the frameworks, and the page docs/guard.md.

Guard mode of a process cannot be switched off, so each test of it has a process of its own.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tarn
from tarn import mr

HERE = Path(__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "guard.md"
ALL = "guard,poison,quarantine"


def environment(**settings):
    """Return the environment of a process in which all libraries open Tarn's driver."""
    env = {**os.environ, **settings}
    if env.get("TARN_DRIVER") == "sim":
        folder = os.path.join(tarn.get_library_dir(), "tarn", "sim")
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, [folder, os.environ.get("LD_LIBRARY_PATH")]))
    return env


def run(code, debug=ALL, **settings):
    """Run a program in guard mode, which has to succeed. Return what it wrote to stderr."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(TARN_POOL_DEBUG=debug, **settings),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stderr


# The driver's own call is the wrong writer: the simulator runs no kernels.
WRITER = """
import ctypes
import tarn, tarn.guard
tarn.open_driver()
driver = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert driver.cuCtxSetCurrent(context) == 0
def write(address, count):
    assert driver.cuMemsetD8_v2(ctypes.c_uint64(address), 0x2A, ctypes.c_size_t(count)) == 0
"""


def test_an_adaptor_reports_a_write_behind_a_block(capfd):
    guard = mr.GuardResourceAdaptor(mr.PoolMemoryResource())
    buffer = tarn.DeviceBuffer(size=1000, mr=guard)
    assert guard.counts.guarded == 1 and buffer.size == 1000
    assert repr(guard).startswith("<tarn.mr.GuardResourceAdaptor over <")
    assert guard.check() == 0
    del buffer
    assert guard.check() == 0 and guard.counts.quarantined_blocks == 1
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("options", ["", "garde", "guard=1/0", "quarantine=1MB", "abort"])
def test_a_wrong_option_is_an_error(options):
    with pytest.raises(tarn.InvalidArgumentError):
        mr.GuardResourceAdaptor(mr.PoolMemoryResource(), options)
    with pytest.raises(tarn.InvalidArgumentError):
        tarn.guard.enable(options)


def test_a_wrong_variable_is_a_warning_that_names_the_item():
    text = run("import tarn", debug="guard,poisson")
    assert text.count("\n") == 1
    assert text.startswith(
        'tarn: warning: TARN_POOL_DEBUG=guard,poisson is ignored: guard: "poisson" is not an item;'
    )
    assert run("import tarn", debug="") == ""


def test_tarn_run_warns_of_a_wrong_variable_once():
    done = subprocess.run(
        [Path(sys.executable).parent / "tarn", "run", "-c", "import tarn"],
        env=environment(TARN_POOL_DEBUG="guard,poisson"),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    assert done.stderr.count("TARN_POOL_DEBUG=guard,poisson is ignored") == 1


@pytest.mark.parametrize("resource", ["pool", "cuda"])
def test_a_write_after_a_free_without_a_stream_is_found(resource):
    pytest.importorskip("numba")
    code = f"""
import tarn
tarn.use({resource!r}, frameworks="numba")
from numba import cuda
from numba.cuda.cudadrv.driver import device_memset
block, neighbour = (cuda.device_array(1000, dtype="u1") for _ in range(2))
address = block.device_ctypes_pointer.value
del block
class Memory:
    __cuda_array_interface__ = {{"shape": (4,), "typestr": "|u1", "data": (address + 16, False),
                                "version": 3, "strides": None, "stream": None}}
device_memset(cuda.as_cuda_array(Memory(), sync=False), 42, 4)
cuda.synchronize()
"""
    text = run(code)
    assert text.count("tarn: guard:") == 1
    assert "4 bytes of a freed block were written, offset 16 to 19, now 2a 2a 2a 2a" in text


def test_without_guard_mode_its_calls_fail():
    code = """
import pytest, tarn, tarn.guard
for call in (tarn.guard.check, tarn.guard.counts):
    with pytest.raises(tarn.TarnError, match="guard mode is off"):
        call()
tarn.guard.enable()
with pytest.raises(tarn.TarnError, match="on for the process already"):
    tarn.guard.enable()
assert tarn.guard.check() == 0
"""
    assert run(code, debug="") == ""


RESOURCES = ["cuda", "async", "managed", "pinned", "pool", "cuda-pool", "slab", "binning"]


@pytest.mark.parametrize("name", RESOURCES)
def test_the_variable_guards_each_resource(name):
    code = f"""
from tarn import _resources
resource = _resources._class_of({name!r})(device=0)
def make(count):
    return tarn.DeviceBuffer(size=count, mr=resource)
good = make(1000)
write(good.ptr, 1000)
behind, before, freed = make(1000), make(1000), make(1000)
write(behind.ptr + 1000, 3)
write(before.ptr - 1, 1)
address = freed.ptr
del freed
assert tarn.guard.check() == 2
write(address + 5, 1)
assert tarn.guard.check() == 3
assert tarn.guard.counts().guarded == 4
"""
    if name == "slab":  # its blocks have one size, in which there is no space for red zones
        code = code.replace("1000", "(1 << 20) - 2048")
    text = run(WRITER + code)
    assert "3 bytes behind a block were written" in text
    assert "1 byte before a block was written, offset -1 to -1, now 2a\n" in text
    assert "1 byte of a freed block was written, offset 5 to 5, now 2a\n" in text
    assert 'File "<string>", line ' in text and "in make" in text


def test_numbas_memory_is_guarded_by_the_variable_alone():
    pytest.importorskip("numba")
    code = """
import tarn
tarn.use("pool", frameworks="numba")
from numba import cuda
from numba.cuda.cudadrv.driver import device_memset
import tarn.guard

def make(count):
    return cuda.device_array(count, dtype="u1")

def wrong():
    array = make(1000)
    device_memset(array, 0x2A, 1004)

wrong()
assert tarn.guard.check() == 1
right = cuda.to_device(make(100).copy_to_host())
assert right.copy_to_host().nbytes == 100
"""
    text = run(code)
    assert text.count("tarn: guard:") == 1
    assert "4 bytes behind a block were written, offset 1000 to 1003, now 2a 2a 2a 2a\n" in text
    assert "in make\n" in text and "in wrong\n" in text


def test_cupys_memory_is_guarded_by_the_variable_alone():
    pytest.importorskip("cupy")
    code = (
        WRITER
        + """
import cupy
import tarn.cupy
pool = tarn.mr.PoolMemoryResource()
cupy.cuda.set_allocator(tarn.cupy.Allocator(pool, tarn.Stream()))
array = cupy.ndarray((1000,), "u1")
assert array.data.mem.size == 1000
write(array.data.ptr + 1000, 2)
del array
assert tarn.guard.check() == 1
"""
    )
    assert "2 bytes behind a block were written" in run(code)


def test_pytorchs_memory_is_guarded_by_the_variable_alone():
    code = (
        WRITER
        + """
import tarn.torch
import torch
tarn.torch.use()
tensor = torch.cuda.Tensor(1000)
write(tensor.address + 1000, 2)
tensor.drop()
assert tarn.guard.check() == 1
"""
    )
    text = run(code, PYTHONPATH=str(HERE / "stand_in_torch"))
    assert "2 bytes behind a block were written" in text


def test_a_log_has_the_programs_requests(tmp_path):
    log = tmp_path / "log.csv"
    code = """
import tarn
from tarn import mr
pool = mr.PoolMemoryResource()
for _ in range(3):
    tarn.DeviceBuffer(size=1000, mr=pool)
"""
    run("import tarn\n" + code, TARN_LOG=str(log), TARN_USE="all")
    rows = [line for line in log.read_text().splitlines() if ",1000," in line]
    assert len(rows) == 6, log.read_text()


# --- the page ---------------------------------------------------------------------------


def test_the_page_shows_the_output_of_its_program(tmp_path):
    pytest.importorskip("numba")
    text = PAGE.read_text()
    code = re.search(r"```python\n(# overrun\.py\n.*?)```", text, re.S)[1]
    (tmp_path / "overrun.py").write_text(code)
    done = subprocess.run(
        [Path(sys.executable).parent / "tarn", "run", "--driver", "sim", "overrun.py"],
        env={**os.environ, "TARN_POOL_DEBUG": ALL},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    shown = re.search(r"```text\n(tarn: guard: .*?)```", text, re.S)[1].splitlines()
    printed = re.sub(r"0x[0-9a-f]+", "0x…", done.stderr).replace(f"{tmp_path}/", "").splitlines()
    found = 0
    for line in shown:
        line = re.sub(r"0x[0-9a-f]+", "0x…", line)
        if "numba" in line:  # frames of another library, shortened on the page
            continue
        assert line in printed[found:], done.stderr
        found = printed.index(line, found) + 1
