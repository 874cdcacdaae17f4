"""Tarn without its optional packages, and without a driver."""

from pathlib import Path

import subinterpreter
import tarn

FORBID = """
import importlib.abc, sys

class Forbid(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("numba", "numpy", "cupy", "torch", "cuda", "llvmlite"):
            raise ImportError(f"{name} is not there")

sys.meta_path.insert(0, Forbid())
"""

USE = """
import pickle
import tarn

buffer = tarn.DeviceBuffer.to_device(b"abc")
assert bytes(buffer) == b"abc"
assert type(buffer.copy_to_host()) is bytearray and buffer.copy_to_host() == b"abc"
assert bytes(pickle.loads(pickle.dumps(buffer))) == b"abc"
limiter = tarn.mr.LimitingResourceAdaptor(tarn.mr.CudaMemoryResource(), 1000)
try:
    limiter.allocate(2000)
except MemoryError:
    print("ok")
"""


def test_tarn_works_without_numba_and_numpy(sim_process):
    assert sim_process(FORBID + USE) == "ok"


def test_tarn_imports_neither_even_where_they_are(sim_process):
    code = "import sys, tarn; print({'numba', 'numpy', 'cuda'} & set(sys.modules))"
    assert sim_process(code) == "set()"


NO_DRIVER = """
import tarn
for call in (tarn.driver_info, tarn.Stream, tarn.mr.CudaMemoryResource, tarn.DeviceBuffer,
             tarn.mr.get_current_device_resource, tarn.current_device):
    try:
        call()
    except tarn.NoDriverError as error:
        assert "/nowhere/libcuda.so.1" in str(error), error
    else:
        raise SystemExit(f"{call} found a driver")
print("ok")
"""


def test_without_a_driver_everything_says_so(sim_process):
    assert sim_process(NO_DRIVER, TARN_DRIVER="/nowhere/libcuda.so.1") == "ok"


UNLOAD = """
import gc, sys
import tarn
for name in [n for n in sys.modules if n.partition(".")[0] == "tarn"]:
    del sys.modules[name]
first = tarn
del tarn
import tarn as second
assert second is not first and second._tarn is not first._tarn
assert second.DeviceBuffer is not first.DeviceBuffer
buffer = second.DeviceBuffer.to_device(b"abc")
first_buffer = first.DeviceBuffer.to_device(b"abc")
assert bytes(buffer) == bytes(first_buffer)
try:
    first.DeviceBuffer(size=8, mr=second.mr.CudaMemoryResource())
except TypeError:
    pass
del first, first_buffer
gc.collect()
assert bytes(buffer) == b"abc"
print("ok")
"""


def test_the_module_keeps_its_state_to_itself(sim_process):
    """Two instances of the extension in one process share only libtarn."""
    assert sim_process(UNLOAD) == "ok"


FORK = """
import os, signal, sys, warnings
import tarn
for name in [n for n in sys.modules if n.partition(".")[0] == "tarn"]:
    del sys.modules[name]
first = tarn
import tarn
assert tarn._tarn is not first._tarn
signal.alarm(60)
warnings.simplefilter("ignore")  # Python 3.12 warns of a fork beside threads
child = os.fork()
if child == 0:
    tarn._tarn.log_counts(), tarn._tarn._live_counts()
    os._exit(0)
print(os.waitpid(child, 0)[1], tarn._tarn._live_counts())
"""


def test_a_process_with_two_instances_of_the_module_can_fork(sim_process):
    """The locks that a fork holds are taken once."""
    assert sim_process(FORK) == "0 (0, 0, 0)"


SUBINTERPRETER = f"""{subinterpreter.RUN}
import tarn
print(run_in_subinterpreter("import tarn"))
tarn.DeviceBuffer(size=8)
"""


def test_a_subinterpreter_is_refused_in_words(sim_process):
    """Resources written in Python would be called in the wrong interpreter."""
    words = sim_process(SUBINTERPRETER)
    assert "ImportError" in words and "subinterpreter" in words


# The thread ends after dlclose(), and so do its caches.
CLOSED = """
import _ctypes, ctypes, os, sys, threading

path = os.environ["LIBTARN"]
assert "tarn" not in sys.modules
library = ctypes.CDLL(path, mode=os.RTLD_LOCAL)
pool, block = ctypes.c_void_p(), ctypes.c_ulonglong()
used, closed = threading.Event(), threading.Event()


def use():
    size, none = ctypes.c_size_t(1000), ctypes.c_void_p()
    for _ in range(10):
        assert library.tarn_resource_allocate(pool, size, none, none, ctypes.byref(block)) == 0
        assert library.tarn_resource_deallocate(pool, block, size, none, none) == 0
    used.set()
    closed.wait()


assert library.tarn_pool_create(0, None, None, ctypes.byref(pool)) == 0
thread = threading.Thread(target=use)
thread.start()
used.wait()
_ctypes.dlclose(library._handle)
closed.set()
thread.join()
again = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_NOW)
count = again.tarn_resource_live_blocks
count.restype = ctypes.c_size_t
print(count(pool), again.tarn_resource_release(pool))
"""


def test_the_library_stays_loaded_after_dlclose(sim_process):
    """Threads that end later, and compiled code, still call it."""
    library = next(Path(tarn.get_library_dir()).glob("libtarn.so.*"))
    assert sim_process(CLOSED, LIBTARN=str(library)) == "0 0"
