"""Tarn without its optional packages, and without a driver."""

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


SUBINTERPRETER = """
import _xxsubinterpreters as interpreters
import tarn
try:
    interpreters.run_string(interpreters.create(), "import tarn")
except interpreters.RunFailedError as error:
    print(error)
tarn.DeviceBuffer(size=8)
"""


def test_a_subinterpreter_is_refused_in_words(sim_process):
    """Resources written in Python would be called in the wrong interpreter."""
    words = sim_process(SUBINTERPRETER)
    assert "ImportError" in words and "subinterpreter" in words
