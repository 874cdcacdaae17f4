"""tarn.torch on a replacement of PyTorch (stand_in_torch), which calls libtarn's functions.

tests/gpu/test_torch.py has the real one. An allocator of PyTorch cannot be changed, so each test
has a process of its own. Failing allocations throw C++ exceptions: tests/cpp/torch.cpp.
"""

import ast
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import tarn

HERE = Path(__file__).resolve().parent
PACKAGE = Path(tarn.__file__).resolve().parent
PAGE = HERE.parents[1] / "docs" / "torch.md"
MIB = 1 << 20

PREAMBLE = """
import gc
import sys
import pytest
import tarn
import tarn.torch
from tarn import mr
MIB = 1 << 20
"""


def run(text, path=HERE / "stand_in_torch", **settings):
    """Run a program, which has to succeed, and return its output."""
    code = PREAMBLE + textwrap.dedent(text) + "\nprint('PASSED')\n"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(path), **settings},
        text=True,
        timeout=120,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert done.returncode == 0 and "PASSED" in done.stdout, done.stdout
    return done.stdout


def test_importing_it_imports_no_pytorch():
    run("assert 'torch' not in sys.modules")


def test_without_pytorch_use_says_so():
    run("""
        sys.modules["torch"] = None  # as if it were not installed
        with pytest.raises(ModuleNotFoundError, match="torch"):
            tarn.torch.use()
    """)


def test_tensors_are_blocks_of_the_resource():
    run("""
        pool = mr.PoolMemoryResource(device=0)
        tarn.torch.use(pool)
        import torch
        x = torch.cuda.Tensor(1000)
        assert x.address and pool.statistics().live_requested == 1000
        assert torch.cuda.Tensor(0).address is None
        x.drop()
        assert pool.statistics().live_blocks == 0
        assert pool.statistics().reserved > 0
        torch.cuda.empty_cache()
        assert pool.statistics().reserved == 0
    """)


@pytest.mark.skipif(tarn.driver_info().device_count < 2, reason="needs two devices")
def test_a_device_without_a_resource_gets_a_pool_that_is_current():
    run("""
        tarn.torch.use()
        import torch
        x, y = torch.cuda.Tensor(1000), torch.cuda.Tensor(1000, device=1)
        for device in (0, 1):
            pool = mr.get_per_device_resource(device)
            assert type(pool) is mr.PoolMemoryResource and pool.device == device
            assert pool.statistics().live_blocks == 1
        x.drop()
        y.drop()
    """)


def test_a_device_keeps_the_resource_that_is_current_at_first():
    run("""
        pool = mr.LimitingResourceAdaptor(mr.PoolMemoryResource(device=0), 10 * MIB)
        mr.set_per_device_resource(0, pool)
        tarn.torch.use()
        import torch
        x = torch.cuda.Tensor(MIB)
        assert pool.get_allocated_bytes() == MIB
        mr.set_per_device_resource(0, mr.PoolMemoryResource(device=0))
        y = torch.cuda.Tensor(MIB)
        assert pool.get_allocated_bytes() == 2 * MIB
        assert torch._C._cuda_memoryStats(0)["reserved_bytes"]["all"]["current"] >= 2 * MIB
        x.drop()
        y.drop()
        assert pool.get_allocated_bytes() == 0
    """)


def test_the_name_of_a_resource_is_for_all_devices():
    run("""
        tarn.torch.use("managed")
        import torch
        x = torch.cuda.Tensor(1000)
        assert type(mr.get_per_device_resource(0)) is mr.ManagedMemoryResource
        assert torch._C._cuda_memoryStats(0)["reserved_bytes"]["all"]["current"] == 1024
        assert torch._C._cuda_memorySnapshot(None)["segments"] == []
        assert torch._C._cuda_getMemoryFraction(0) == 1.0
        x.drop()
    """)


def test_a_resource_in_python_serves_pytorch():
    run("""
        class Counting(mr.DeviceMemoryResource):
            def __init__(self):
                super().__init__()
                self.beneath, self.calls = mr.CudaMemoryResource(), []
            def allocate(self, nbytes, stream=0):
                self.calls.append(nbytes)
                return self.beneath.allocate(nbytes, stream)
            def deallocate(self, ptr, nbytes, stream=0):
                self.calls.append(-nbytes)
                self.beneath.deallocate(ptr, nbytes, stream)
        resource = Counting()
        tarn.torch.use(resource)
        import torch
        torch.cuda.Tensor(1000).drop()
        assert resource.calls == [1000, -1000]
    """)


def test_a_second_use_keeps_the_allocator_and_rejects_another_resource():
    run("""
        pool = mr.PoolMemoryResource(device=0)
        tarn.torch.use(pool)
        import torch
        x = torch.cuda.Tensor(MIB)
        tarn.torch.use(pool)
        tarn.torch.use()
        with pytest.raises(RuntimeError, match="PyTorch uses a pool on device 0, which cannot change"):
            tarn.torch.use(mr.PoolMemoryResource(device=0))
        with pytest.raises(TypeError, match="not a resource"):
            tarn.torch.use(7)
        with pytest.raises(ValueError, match="unknown resource 'nothing'"):
            tarn.torch.use("nothing")
        x.drop()
    """)


@pytest.mark.parametrize(
    "change, kind, message",
    [
        ("torch.cuda.init()", RuntimeError, "too late: PyTorch has used CUDA already"),
        ("torch.__version__ = '2.10.1'", ImportError, "2.10.1 is too old: version 2.11 or later"),
        ("torch.version.cuda = None", RuntimeError, "has no CUDA"),
        ("torch.cuda._is_in_bad_fork = lambda: True", RuntimeError, "forked child"),
        ("torch._C.current = 1", RuntimeError, "another pluggable allocator"),
    ],
)
def test_a_pytorch_that_cannot_get_an_allocator_is_rejected(change, kind, message):
    run(f"""
        import torch
        before = torch._C._cuda_memoryStats
        {change}
        with pytest.raises({kind.__name__}, match={message!r}):
            tarn.torch.use()
        assert torch._C._cuda_memoryStats is before
        assert {message!r} in tarn.use(frameworks=None)["torch"]
    """)


def test_tarn_use_configures_pytorch_at_its_import():
    run("""
        assert tarn.use(frameworks="torch") == {"torch": "pending"}
        import torch
        assert torch._C.current is not None
        assert tarn.use(frameworks="torch") == {"torch": "active"}
        torch.cuda.Tensor(100).drop()
    """)


def test_statistics_are_those_of_pytorchs_blocks():
    run("""
        tarn.torch.use()
        import torch
        x, y = torch.cuda.Tensor(1000), torch.cuda.Tensor(3 * MIB)
        foreign = tarn.DeviceBuffer(size=5 * MIB)
        stats = torch._C._cuda_memoryStats(0)
        assert stats["allocated_bytes"]["all"]["current"] == 3 * MIB + 1024
        assert stats["requested_bytes"]["small_pool"]["current"] == 1000
        assert stats["allocation"]["large_pool"]["current"] == 1
        assert stats["reserved_bytes"]["all"]["current"] >= 8 * MIB
        assert stats["inactive_split_bytes"]["all"]["current"] >= 5 * MIB
        assert torch._C._accelerator_getDeviceStats(0) == stats
        y.drop()
        torch._C._cuda_resetPeakMemoryStats(0)
        stats = torch._C._cuda_memoryStats(0)
        assert stats["allocated_bytes"]["all"]["peak"] == 1024
        segments = torch._C._cuda_memorySnapshot((0, 0, True))["segments"]
        live = [b for s in segments for b in s["blocks"] if b["state"] == "active_allocated"]
        assert sorted(b["requested_size"] for b in live) == [1000, 5 * MIB]
        assert all(s["total_size"] == sum(b["size"] for b in s["blocks"]) for s in segments)
        assert torch._C._cuda_memorySnapshot((0, 3, True))["segments"] == []
        torch._C.current.calls["set_memory_fraction_fn"](0.25, 0)
        assert abs(torch._C._cuda_getMemoryFraction(0) - 0.25) < 1e-6
        x.drop()
    """)


def test_statistics_can_stay_pytorchs_own():
    run("""
        tarn.torch.use(statistics=False)
        import torch
        with pytest.raises(RuntimeError, match="does not yet support getDeviceStats"):
            torch._C._cuda_memoryStats(0)
    """)


def test_a_recorded_stream_and_a_pool_of_graphs_reach_libtarn():
    run("""
        tarn.torch.use()
        import torch
        from torch._C import _PoolId
        stream = tarn.Stream()
        x = torch.cuda.Tensor(1000)
        x.record_stream(stream.handle)
        x.drop()
        stats = torch._C._cuda_memoryStats(0)
        assert stats["allocation"]["all"]["current"] == 0
        stream.synchronize()
        torch.cuda.Tensor(1000).drop()
        assert torch._C._cuda_memoryStats(0)["active"]["all"]["current"] == 0
        calls = torch._C.current.calls
        calls["set_begin_allocate_to_pool"](0, _PoolId(0, 7), None)
        calls["set_end_allocate_to_pool_fn"](0, _PoolId(0, 7))
        calls["set_release_pool"](0, _PoolId(0, 7))
    """)


def test_a_free_that_fails_is_a_warning():
    output = run("""
        tarn.torch.use()
        import torch
        x = torch.cuda.Tensor(1000)
        torch._C.current.free(x.address, 7, 0, None)
        x.drop()
    """)
    assert "torch: a free failed: pool: " in output and "freed with 7" in output


def test_without_a_runtime_of_cpp_use_says_so():
    """Tarn throws PyTorch's exceptions with the runtime that PyTorch loads."""
    run("""
        import ctypes
        load = ctypes.CDLL
        ctypes.CDLL = lambda name: "libstdc++" in name or load(name)
        import torch
        with pytest.raises(RuntimeError, match=r"no C\\+\\+ runtime"):
            tarn.torch.use()
        load("libstdc++.so.6")
        tarn.torch.use()
    """)


# --- MemPool ------------------------------------------------------------------------------------


def test_a_mem_pool_takes_segments_from_its_resource():
    run("""
        resource = mr.PoolMemoryResource(device=0)
        pool = tarn.torch.MemPool(resource)
        import torch
        assert isinstance(pool, torch.cuda.MemPool) and type(pool).__name__ == "MemPool"
        with pool.use():
            x = torch.cuda.Tensor(2 * MIB)
        assert resource.statistics().live_requested == 2 * MIB
        del pool
        gc.collect()
        x.drop()
        assert resource.statistics().live_blocks == 0
        assert x.allocator.allocate(MIB, 0, None) is None
    """)


@pytest.mark.skipif(tarn.driver_info().device_count < 2, reason="needs two devices")
def test_a_mem_pool_is_bound_to_the_device_of_its_resource():
    run("""
        pool = tarn.torch.MemPool(mr.PoolMemoryResource(device=1))
        import torch
        assert pool.device == pool.bound == 1
        with pytest.raises(ValueError, match="memory of device 1, not of 0"):
            with pool.use("cuda:0"):
                pass
        with pool.use(), pool.use(1):
            torch.cuda.Tensor(MIB, device=1).drop()
        assert tarn.torch.MemPool().device == 0
    """)


def test_a_segment_that_is_unavailable_is_null():
    run("""
        pool = tarn.torch.MemPool(mr.PoolMemoryResource(maximum_pool_size=4 * MIB, device=0))
        import torch
        with pool.use():
            assert torch.cuda.Tensor(20 * MIB).address is None
    """)


def test_mem_pools_are_suspended_by_their_tags():
    run("""
        weights = tarn.torch.MemPool(tags="weights")
        both = tarn.torch.MemPool(tags=("weights", "cache"))
        import torch
        with weights.use():
            x = torch.cuda.Tensor(2 * MIB)
        with both.use():
            y = torch.cuda.Tensor(2 * MIB)
        suspended = lambda pool: pool.resource.statistics().suspended > 0
        tarn.torch.suspend("cache", keep=False)
        assert suspended(both) and not suspended(weights)
        y.drop()
        tarn.torch.suspend()
        assert suspended(weights)
        tarn.torch.resume("weights")
        assert not suspended(weights) and not suspended(both)
        with pytest.raises(ValueError, match="no MemPool has the tag 'other'"):
            tarn.torch.suspend("other")
        x.drop()
    """)


def test_mem_pools_are_rejected_with_the_reason():
    run("""
        with pytest.raises(tarn.NotSupportedError, match="unsafe"):
            tarn.torch.MemPool(mr.CudaAsyncMemoryResource(device=0))
        with pytest.raises(TypeError, match="not a tarn.mr.DeviceMemoryResource"):
            tarn.torch.MemPool(7)
        cuda = tarn.torch.MemPool(mr.CudaMemoryResource(device=0))
        with pytest.raises(tarn.NotSupportedError, match="no pool"):
            cuda.suspend()
    """)


def test_a_whole_program_has_no_mem_pool():
    run("""
        tarn.torch.use()
        with pytest.raises(RuntimeError, match="no MemPool under a pluggable allocator"):
            tarn.torch.MemPool()
    """)


# --- the page -----------------------------------------------------------------------------------


def test_the_programs_of_the_page_are_short_and_compile():
    """They need PyTorch; tests/gpu/test_torch.py runs them."""
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert programs
    for program in programs:
        ast.parse(program)
        assert len(program.splitlines()) <= 14


def test_running_a_file_of_the_package_finds_no_torch_there():
    """A script's folder is the first of sys.path, and it has a torch.py."""
    done = subprocess.run(
        [sys.executable, str(PACKAGE / "torch.py")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
