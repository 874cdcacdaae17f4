"""Exercises that any memory manager for Numba has to pass, in a process under that manager.

python plugin_exercises.py

NUMBA_CUDA_MEMORY_MANAGER names the manager. Each exercise is a function, with one line of JSON on
stdout as its result.
"""

import concurrent.futures
import contextlib
import ctypes
import gc
import json
import multiprocessing
import os
import pickle
import sys
import traceback

import numpy as np
import tarn

tarn.open_driver()  # before Numba looks for one, in spawned children too

from numba import cuda  # noqa: E402
from numba.cuda.cudadrv import driver  # noqa: E402


def round_trip():
    """Device memory comes from the manager, and values survive."""
    host = np.arange(1000.0)
    np.testing.assert_array_equal(cuda.to_device(host).copy_to_host(), host)
    assert type(cuda.current_context().memory_manager) is driver._memory_manager


def views():
    """Views keep an owner alive, which is freed after the last one."""
    host = np.arange(100.0)
    array = cuda.to_device(host)
    part = array[10:90][5:10]
    del array
    again = cuda.to_device(np.zeros(100))
    np.testing.assert_array_equal(part.copy_to_host(), host[15:20])
    del again


def arrays_have_all_their_bytes():
    """A block has at least the requested bytes, so that no array overlaps another."""
    arrays = [cuda.to_device(np.full(1024, float(i))) for i in range(8)]
    for i, array in enumerate(arrays):
        assert array.gpu_data.size >= array.nbytes
        np.testing.assert_array_equal(array.copy_to_host(), np.full(1024, float(i)))


def pinned_memory():
    """Host memory is page-locked; empty lists of it as well."""
    array = cuda.pinned_array((10, 10))
    array[:] = 7
    np.testing.assert_array_equal(cuda.to_device(array).copy_to_host(), np.full((10, 10), 7))


def mapped_memory():
    """Mapped memory has one content under two addresses."""
    array = cuda.mapped_array(100)
    array[:] = np.arange(100)
    driver.device_memset(array, 0, 80)
    cuda.synchronize()
    assert array[:10].tolist() == [0] * 10 and array[99] == 99


def managed_memory():
    """Managed memory is outside the interface of NBEP 7, but Numba programs use it."""
    array = cuda.managed_array(100)
    array[:] = 5
    assert array.sum() == 500


def pinning():
    """Pages are unlocked at once, so the same can be locked again."""
    array = np.arange(1000.0)
    for _ in range(3):
        with cuda.pinned(array):
            pass
        with cuda.mapped(array) as window:
            np.testing.assert_array_equal(window.copy_to_host(), array)
        del window
        gc.collect()


def memory_info():
    """Memory info reports free and total bytes."""
    info = cuda.current_context().get_memory_info()
    assert 0 < info.free <= info.total


def many_initializes():
    """Repeated calls of initialize() lose no live memory."""
    array = cuda.to_device(np.ones(10))
    for _ in range(100):
        cuda.current_context().memory_manager.initialize()
    assert array.copy_to_host().sum() == 10


def reset_before_initialize():
    """A reset works before initialize(), and on an instance that has no context."""
    type(cuda.current_context().memory_manager)(context=None).reset()


def freed_memory_is_free():
    """Freed memory is available again: a gigabyte in pieces of a quarter each, twenty times."""
    total = cuda.current_context().get_memory_info().total
    for _ in range(20):
        cuda.device_array(total // 4, dtype="u1")
        gc.collect()


def defer_cleanup():
    """Deferred cleanup nests, and host memory is available again after it. Numba's base class
    defers its own meanwhile, if a plugin enters the parent's."""
    manager, base = cuda.current_context().memory_manager, cuda.HostOnlyCUDAMemoryManager
    with cuda.defer_cleanup(), cuda.defer_cleanup():
        for _ in range(30):
            cuda.to_device(np.ones(100))
            cuda.mapped_array(100)
            cuda.pinned_array(100)
        gc.collect()
        if type(manager).memhostalloc is base.memhostalloc:
            assert len(manager.deallocations) >= 60
    assert cuda.to_device(np.ones(5)).copy_to_host().sum() == 5


def out_of_memory_is_an_error_and_nothing_is_lost():
    total = cuda.current_context().get_memory_info().total
    for _ in range(3):
        with contextlib.suppress(MemoryError, driver.CudaAPIError):
            cuda.device_array(4 * total, dtype="u1")
            raise AssertionError("four times the device's memory was handed out")
    assert cuda.to_device(np.ones(5)).copy_to_host().sum() == 5


def read(handle, count):
    array = handle.open_array(cuda.current_context(), shape=count, dtype=np.dtype("f8"))
    values = array.copy_to_host()
    del array
    handle.close()
    return values.tolist()


def read_parts(words, count, *rest):
    """As read(), for a handle that came in parts."""
    handle = driver.binding.CUipcMemHandle()
    ctypes.memmove(handle.getPtr(), words, len(words))
    return read(cuda.IpcHandle(None, handle, *rest), count)


def parts_of(handle):
    words = ctypes.string_at(handle.handle.getPtr(), 64)
    return words, handle.size, handle.source_info, handle.offset


def handles_for_other_processes():
    """IPC handles of whole arrays and parts have the right offset."""
    host = np.arange(1000.0)
    array = cuda.to_device(host)
    cuda.synchronize()
    context = cuda.current_context()
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        for part, expected in ((array, host), (array[500:], host[500:])):
            handle = context.get_ipc_handle(part.gpu_data)
            expected = expected.tolist()
            if type(handle) is cuda.IpcHandle:
                words, *rest = parts_of(handle)
                sent = pool.submit(read_parts, words, len(expected), *rest)
                assert sent.result(60) == expected
            if can_be_pickled(handle):
                assert pool.submit(read, handle, len(expected)).result(60) == expected
            del handle


def can_be_pickled(handle):
    """Return whether a handle can be pickled. cuda-bindings 13.4 removed a name by which
    numba-cuda's own handles are pickled. Only that error is accepted, and their parts are sent all
    the same."""
    try:
        pickle.dumps(handle)
    except AttributeError as error:
        if hasattr(driver.binding.CUipcMemHandle(), "reserved"):
            raise
        assert "reserved" in str(error) and type(handle) is cuda.IpcHandle, error
        return False
    return True


def closing_and_using_again():
    """A reset has no context current, and older arrays may be freed after it."""
    old, old_mapped = cuda.to_device(np.ones(10)), cuda.mapped_array(10)
    cuda.close()
    new = cuda.to_device(np.arange(10.0))
    del old, old_mapped
    gc.collect()
    np.testing.assert_array_equal(new.copy_to_host(), np.arange(10.0))


def resetting_with_arrays_out():
    """The finalizers of older arrays do not free the blocks of newer ones."""
    context = cuda.current_context()
    old = cuda.device_array(100)
    context.reset()
    new = cuda.to_device(np.arange(100.0))
    del old
    gc.collect()
    other = cuda.to_device(np.zeros(100))
    np.testing.assert_array_equal(new.copy_to_host(), np.arange(100.0))
    del other


def nothing_is_left():
    """All memory of the exercises returned to the device. The check is skipped if other programs
    use the device as well."""
    gc.collect()
    context = cuda.current_context()
    context.reset()
    context.deallocations.clear()
    info = tarn.device_info(context.device.id)
    assert info.free_bytes == info.total_bytes or not tarn.driver_info().is_simulator


EXERCISES = [
    round_trip,
    views,
    arrays_have_all_their_bytes,
    pinned_memory,
    mapped_memory,
    managed_memory,
    pinning,
    memory_info,
    many_initializes,
    reset_before_initialize,
    freed_memory_is_free,
    defer_cleanup,
    out_of_memory_is_an_error_and_nothing_is_lost,
    handles_for_other_processes,
    closing_and_using_again,
    resetting_with_arrays_out,
    nothing_is_left,
]


def main():
    """Run the exercises, print a line for each, and return 1 if one of them failed."""
    failed = False
    for exercise in EXERCISES:
        try:
            exercise()
            trouble = None
        except BaseException:
            trouble = traceback.format_exc()
            failed = True
        print(json.dumps({"exercise": exercise.__name__, "trouble": trouble}), flush=True)
    return int(failed)


if __name__ == "__main__":
    assert os.environ["NUMBA_CUDA_MEMORY_MANAGER"]
    sys.exit(main())
