"""tarn.numba under each supported Numba, imported and used, from the wheel.

./check creates the environments: .venv with numba-cuda, and .debian-numba with the target that is
part of Numba (0.56, through ctypes). ./check --full also creates .venv-mlir with numba-cuda-mlir, a
download of 71 MB. Each program runs in a process of its own.
"""

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
ON_SIM = os.environ.get("TARN_DRIVER") == "sim"


def is_debian_12():
    release = platform.freedesktop_os_release()
    return (release["ID"], release.get("VERSION_ID")) == ("debian", "12")


NUMBAS = [
    pytest.param((".venv/bin/python", "numba.cuda"), id="numba-cuda"),
    pytest.param(
        (".debian-numba/python", "numba.cuda"),
        id="built-in",
        marks=pytest.mark.skipif(
            not is_debian_12() or sys.version_info[:2] != (3, 11),
            reason="the packages are those of Debian 12, for its Python 3.11",
        ),
    ),
    pytest.param(
        (".venv-mlir/bin/python", "numba_cuda_mlir.cuda"),
        id="numba-cuda-mlir",
        marks=pytest.mark.skipif(
            not (PROJECT / ".venv-mlir/bin/python").exists(),
            reason="./check --full makes its environment",
        ),
    ),
]
pytestmark = [
    pytest.mark.parametrize("numba", NUMBAS),
    pytest.mark.skipif(not ON_SIM, reason="Debian's Numba needs CUDA 12's names"),
]

# Debian's Numba uses the `_v2` of every name, and CUDA 13 has some that it does not know.
BEGIN = """
import gc, importlib, pickle, sys
sys.path.insert(0, TOOLS)
import numpy as np
cuda = importlib.import_module(MODULE)
driver = importlib.import_module(cuda.MemoryPointer.__module__)
if not hasattr(driver, "binding"):
    import numba_others
    numba_others.keep_from_newer_names()
import tarn.numba
"""


def run(numba, code, **environment):
    python, module = numba
    folder = subprocess.run(
        [PROJECT / python, "-c", "import tarn; print(tarn.get_library_dir())"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    folder = os.path.join(folder, "tarn", "sim")
    names = {"MODULE": repr(module), "TOOLS": repr(str(PROJECT / "tools"))}
    for name, value in names.items():
        code = code.replace(name, value)
    code = f"import ctypes\nctypes.CDLL({folder + '/libcuda.so.1'!r})\n" + code
    environment = {"NUMBA_CUDA_DRIVER": f"{folder}/libcuda.so.1", **environment}
    done = subprocess.run(
        [PROJECT / python, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


USE = """
host = np.arange(10.0)
array = cuda.to_device(host)
memory = array.gpu_data
assert isinstance(memory, (cuda.MemoryPointer, tarn._tarn.MemoryPointer)), memory
manager = cuda.current_context().memory_manager
assert type(manager).__name__ == "TarnNumbaManager", manager
assert manager._manager.live == 1
of_core = getattr(cuda.current_context().device, "_dev", None)  # which serves host arrays
kind = type(getattr(of_core, "memory_resource", None)).__name__
assert kind == ("TarnMemoryResource" if hasattr(driver, "binding") else "NoneType"), kind
address = memory.device_pointer_value
assert memory.device_ctypes_pointer.value == address
np.testing.assert_array_equal(array[2:7][1:3].copy_to_host(), host[3:5])
for make in (cuda.pinned_array, cuda.mapped_array, cuda.managed_array):
    shared = make(5)
    shared[:] = 3
    assert shared.sum() == 15
    del shared
with cuda.pinned(host), cuda.mapped(np.ones(4)) as window:
    np.testing.assert_array_equal(window.copy_to_host(), np.ones(4))
del window
handle = pickle.loads(pickle.dumps(array[5:].get_ipc_handle()))
assert (handle._ipc_handle.offset % 512, handle._ipc_handle.size) == (40, 40)
info = cuda.current_context().get_memory_info()
assert 0 < info.free <= info.total
try:
    cuda.device_array(1 << 50)
except driver.CudaAPIError as error:
    assert isinstance(error, MemoryError) and isinstance(error, tarn.OutOfMemoryError)
    assert int(error.code) == 2 and "CUDA_ERROR_OUT_OF_MEMORY" in str(error), error
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy)) == (type(error), str(error))
    del error, copy
with tarn.numba.using_resource("pool") as pool:
    inside = cuda.to_device(host)
    assert pool.statistics().live_blocks == 1
del inside
with cuda.defer_cleanup():
    del array, memory
    gc.collect()
    assert manager._manager.live == 0
assert manager._manager.live == 0
for _ in range(2):
    cuda.close()
    array = cuda.to_device(host)
    np.testing.assert_array_equal(array.copy_to_host(), host)
    del array
print("right", tarn._tarn.log_counts()[2])
"""


def test_a_call_puts_all_kinds_of_memory_under_tarn(numba):
    assert run(numba, BEGIN + "tarn.use_tarn_for_numba(cuda)" + USE) == "right 0"


def test_the_call_finds_the_numba_that_there_is(numba):
    code = """
tarn.use_tarn_for_numba()
cuda.device_array(1)
print(tarn._tarn.log_counts()[0])
"""
    assert run(numba, BEGIN + code) == "2"


def test_the_environment_names_the_module_for_each(numba):
    environment = {"NUMBA_CUDA_MEMORY_MANAGER": "tarn.numba"}
    assert run(numba, BEGIN + USE, **environment) == "right 0"


def test_a_call_that_comes_too_late_is_an_error(numba):
    code = """
cuda.device_array(1)
try:
    tarn.use_tarn_for_numba(cuda)
except RuntimeError as error:
    print(error)
"""
    assert "too late: Numba has a context on device 0" in run(numba, BEGIN + code)
