"""tarn.warp with Warp itself, on the driver simulator, which runs no kernel.

./check --full makes the environment .venv-warp, a download of 149 MB. Each program runs in a
process of its own. Warp reports calls that the simulator lacks on stderr, so that is not checked.
"""

import os
import subprocess

import pytest
from conftest import PROJECT

PYTHON = PROJECT / ".venv-warp/bin/python"
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="./check --full makes its environment")

BEGIN = """
import gc
import tarn
tarn.open_driver("sim")
"""
WARP = """
import warp as wp
wp.config.quiet = True
pool = tarn.mr.PoolMemoryResource(device=0)
live = lambda: pool.statistics().live_requested

def array(bytes, device="cuda:0"):
    return wp.empty(bytes, dtype=wp.uint8, device=device)

def fails(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError("no error")
"""


def run(code, devices=1):
    """Run a program that has to succeed; return its last line."""
    environment = {**os.environ, "TARN_DRIVER": "sim", "TARN_SIM": f"devices={devices}"}
    folder = next((PROJECT / ".venv-warp").glob("lib/python3*/site-packages/tarn/lib/tarn/sim"))
    environment["LD_LIBRARY_PATH"] = str(folder)
    done = subprocess.run(
        [PYTHON, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().rpartition("\n")[2]


def test_warps_arrays_come_from_the_current_resources_of_their_devices():
    code = """
assert tarn.use()["warp"] == "pending"
import warp as wp
assert tarn.use()["warp"] == "active" and wp._src.context.runtime is None
wp.config.quiet = True
arrays = [wp.empty(1000, dtype=float, device=f"cuda:{i}") for i in range(2)]
pools = [tarn.mr.get_per_device_resource(i) for i in range(2)]
print([pool.statistics().live_requested for pool in pools])
del arrays
gc.collect()
assert [pool.statistics().live_requested for pool in pools] == [0, 0]
"""
    assert run(BEGIN + code, devices=2) == "[4000, 4000]"


def test_a_warp_that_is_initialised_is_served_too():
    code = """
wp.init()
assert tarn.use(pool, frameworks="warp") == {"warp": "active"}
one = array(1000)
assert live() == 1000
"""
    run(BEGIN + WARP + code)


def test_another_allocator_of_the_program_stays():
    code = """
class Own:
    def allocate(self, size): return 0
    def deallocate(self, ptr, size): pass
own = Own()
wp.set_cuda_allocator(own)
assert "Warp has another allocator" in tarn.use()["warp"]
fails(RuntimeError, lambda: tarn.use(frameworks="warp"))
assert wp.get_device_allocator("cuda:0") is own
"""
    run(BEGIN + WARP + code)


def test_one_block_of_a_program_has_a_resource_of_its_own():
    code = """
with wp.ScopedAllocator("cuda:0", tarn.warp.Allocator(pool)):
    one = array(1000)
    assert live() == 1000
del one
gc.collect()
assert live() == 0
"""
    run(BEGIN + WARP + "import tarn.warp\n" + code)


def test_memory_is_allocated_and_freed_on_the_devices_stream():
    code = """
wp.set_cuda_allocator(tarn.warp.Allocator(pool))
stream = wp.get_device("cuda:0").stream
one = array(1 << 20)
address = one.ptr
del one
gc.collect()
own = tarn.DeviceBuffer(size=1 << 20, stream=stream, mr=pool)
assert own.ptr == address and pool.statistics().same_stream == 1
"""
    run(BEGIN + WARP + "import tarn.warp\n" + code)


def test_several_streams_have_memory_freed_behind_the_work_of_all():
    code = """
wp.set_cuda_allocator(tarn.warp.Allocator(pool))
device = wp.get_device("cuda:0")
one = array(1 << 20)
address = one.ptr
other = wp.Stream(device)
del one
gc.collect()
own = tarn.DeviceBuffer(size=1 << 20, stream=device.stream, mr=pool)
assert own.ptr != address or pool.statistics().same_stream == 0
assert pool.statistics().live == 1 << 20
"""
    made_first = (
        WARP.replace("pool =", "wp.init()\nother = wp.Stream('cuda:0')\npool =")
        + """
import tarn.warp
wp.set_cuda_allocator(tarn.warp.Allocator(pool))
one = array(1 << 20)
del one
gc.collect()
own = tarn.DeviceBuffer(size=1 << 20, stream=wp.get_device("cuda:0").stream, mr=pool)
assert pool.statistics().same_stream == 0
"""
    )
    run(BEGIN + WARP + "import tarn.warp\n" + code)
    run(BEGIN + made_first)


def test_failures_are_runtime_errors_and_leak_nothing():
    code = """
limited = tarn.mr.LimitingResourceAdaptor(pool, 1 << 20)
allocator = tarn.warp.Allocator(limited)
wp.set_cuda_allocator(allocator)
error = fails(RuntimeError, lambda: array(1 << 21))
assert isinstance(error, tarn.OutOfMemoryError), error
wp.set_cuda_allocator(tarn.warp.Allocator(pool))
error = fails(RuntimeError, lambda: array(10, "cuda:1"))
assert "the resource is of device 0, and the array is on device 1" in str(error)
one = array(1000)
for pointer, size in (one.ptr, 999), (one.ptr + 256, 1000), (0, 1):
    fails(RuntimeError, lambda: allocator.deallocate(pointer, size))
assert live() == 1000
fails(TypeError, lambda: tarn.warp.Allocator(5))
"""
    run(BEGIN + WARP + "import tarn.warp\n" + code, devices=2)


def test_warp_that_is_too_old_is_refused():
    code = """
import warp
warp.config.version = "1.10.1"
print(tarn.use()["warp"])
"""
    wanted = "skipped: tarn.use: Warp 1.10.1 is too old: version 1.19 or later is needed"
    assert run(BEGIN + code) == wanted


def test_the_file_in_the_package_does_not_shadow_warp():
    folder = next((PROJECT / ".venv-warp").glob("lib/python3*/site-packages/tarn"))
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import warp; print(warp.__file__)"
    assert run(code).endswith(os.path.join("site-packages", "warp", "__init__.py"))
