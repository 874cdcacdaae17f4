"""tarn.rmm.allocators.torch: the functions that PyTorch calls, called without PyTorch."""

import ctypes
import importlib
import os
import sys
import types

import pytest
import tarn
import tarn.rmm.allocators.torch as allocator_module
from tarn import _build, _tarn

KIB = 1 << 10

# It calls the allocation as PyTorch does, and returns the text of the exception.
CALLER = r"""
#include <cstdio>
#include <exception>
typedef void *allocate(size_t bytes, int device, void *stream);
extern "C" __attribute__((visibility("default")))
void *call(allocate *function, size_t bytes, int device, char *text, size_t room)
{
    try {
        return function(bytes, device, nullptr);
    } catch (const std::exception &error) {
        std::snprintf(text, room, "%s", error.what());
        return nullptr;
    }
}
"""


@pytest.fixture
def functions():
    """The two functions, typed."""
    library = ctypes.CDLL(_tarn.__file__)
    allocate, free = library.tarn_rmm_torch_allocate, library.tarn_rmm_torch_deallocate
    allocate.restype = ctypes.c_void_p
    allocate.argtypes = [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    free.restype = None
    free.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
    return allocate, free


def test_blocks_come_from_the_current_resource(functions, counted):
    allocate, free = functions
    blocks = [allocate(KIB, 0, None) for _ in range(10)]
    assert None not in blocks and len(set(blocks)) == 10 and counted.live_bytes == 10 * KIB
    for block in blocks:
        free(block, KIB, 0, None)
    assert counted.live_bytes == 0 and counted.allocations == 10


def test_a_block_is_allocated_and_freed_on_its_stream(functions):
    allocate, free = functions
    seen = []

    class Noting(tarn.mr.UpstreamResourceAdaptor):
        def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
            seen.append(stream)
            return super().allocate(nbytes, stream)

        def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
            seen.append(stream)
            super().deallocate(ptr, nbytes, stream)

    stream = tarn.Stream()
    before = tarn.mr.set_current_device_resource(Noting(tarn.mr.CudaMemoryResource()))
    try:
        handle = stream.__cuda_stream__()[1]
        free(allocate(KIB, 0, handle), KIB, 0, handle)
    finally:
        tarn.mr.set_current_device_resource(before)
    assert [each.__cuda_stream__()[1] for each in seen] == [handle, handle]


def test_a_block_returns_to_the_resource_that_it_came_from(functions, counted):
    allocate, free = functions
    block = allocate(KIB, 0, None)
    other = tarn.mr.StatisticsResourceAdaptor(tarn.mr.CudaMemoryResource())
    tarn.mr.set_current_device_resource(other)
    free(block, KIB, 0, None)
    tarn.mr.set_current_device_resource(None)
    assert counted.live_bytes == 0 and other.allocation_counts.total_count == 0


def test_no_bytes_are_no_block(functions, counted):
    allocate, free = functions
    assert allocate(0, 0, None) is None
    free(None, 0, 0, None)
    assert counted.allocations == 0


@pytest.mark.parametrize(
    "bytes, device, words",
    [(1 << 50, 0, "CUDA out of memory. "), (KIB, 1000, "device")],
    ids=["out of memory", "no such device"],
)
def test_a_failed_allocation_is_a_cpp_exception(
    functions, tmp_path, monkeypatch, bytes, device, words
):
    monkeypatch.setenv("TARN_CACHE_DIR", str(tmp_path))
    source = tmp_path / "caller.cpp"
    source.write_text(CALLER)
    call = ctypes.CDLL(str(_build.build("caller", [source]))).call
    call.restype = ctypes.c_void_p
    text = ctypes.create_string_buffer(512)
    assert call(functions[0], ctypes.c_size_t(bytes), device, text, ctypes.c_size_t(512)) is None
    said = text.value.decode()
    assert said.startswith(words) or words in said
    assert said.startswith("CUDA out of memory. ") == (bytes > KIB)


def test_a_free_of_an_unknown_address_is_reported_and_changes_nothing(functions, counted, capfd):
    allocate, free = functions
    block = allocate(KIB, 0, None)
    free(block + 256, KIB, 0, None)
    assert counted.live_bytes == KIB
    free(block, KIB, 0, None)
    free(block, KIB, 0, None)
    assert capfd.readouterr().err.count("that were not allocated here") == 2


def test_a_forked_child_can_free_what_its_parent_allocated(functions):
    """The child frees in a process without a driver: the call returns, and nothing is freed."""
    allocate, free = functions
    block = allocate(KIB, 0, None)
    child = os.fork()
    if child == 0:
        free(block, KIB, 0, None)
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    free(block, KIB, 0, None)


def stand_in(monkeypatch, available):
    """Put a replacement of PyTorch in its place, and import the allocator anew."""
    memory = types.ModuleType("torch.cuda.memory")
    memory.CUDAPluggableAllocator = lambda path, allocate, free: (
        ctypes.CDLL(path)[allocate],
        ctypes.CDLL(path)[free],
    )
    cuda = types.ModuleType("torch.cuda")
    cuda.is_available = lambda: available
    torch = types.ModuleType("torch")
    torch.cuda, cuda.memory = cuda, memory
    for module in (torch, cuda, memory):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return importlib.reload(allocator_module).rmm_torch_allocator


def test_the_allocator_names_both_functions_to_pytorch(monkeypatch, counted):
    allocate, free = stand_in(monkeypatch, available=True)
    allocate.restype = ctypes.c_void_p
    block = ctypes.c_void_p(allocate(ctypes.c_size_t(KIB), 0, None))
    assert counted.live_bytes == KIB
    free(block, ctypes.c_size_t(KIB), 0, None)


def test_without_a_gpu_or_pytorch_there_is_no_allocator(monkeypatch):
    assert stand_in(monkeypatch, available=False) is None
    monkeypatch.setitem(sys.modules, "torch.cuda.memory", None)
    assert importlib.reload(allocator_module).rmm_torch_allocator is None
