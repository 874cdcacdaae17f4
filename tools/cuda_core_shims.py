"""cuda_core_shims.py -- a plugin of pytest for cuda.core's own tests on the simulator.

It replaces what the tests need beside the driver, and nothing of the driver:

- four functions of the CUDA runtime that cuda.core calls, by calls of the driver,
- the number of devices and the versions of NVML, by the driver's,
- the kernels of the tests that wait or sleep, by host functions of libc,
- CuPy, which needs the whole CUDA runtime: it is not found,
- private names of cuda.core that are in another module in this release.

tools/cuda_core_suite.py puts the folders of the tests into CUDA_CORE_SUITE_PATH.
"""

import ctypes
import os
import sys

from cuda.bindings import driver, nvml, runtime

WAIT_S = 60


def call(function, *arguments):
    """Return the outputs of a call of the driver; raise an error if it fails."""
    error, *outputs = function(*arguments)
    if int(error):
        raise RuntimeError(f"{function.__name__}: {error.name}")
    return outputs[0] if len(outputs) == 1 else outputs


def as_runtime(function):
    """Return a function of the runtime: it returns a cudaError_t instead of a CUresult."""

    def replacement(*arguments):
        driver.cuInit(0)
        error, *outputs = function(*arguments)
        return (runtime.cudaError_t(int(error)), *outputs)

    return replacement


def bus_id(length, device):
    error, name = driver.cuDeviceGetPCIBusId(length, device)
    return error, name


def replace_runtime():
    runtime.cudaGetDeviceCount = as_runtime(driver.cuDeviceGetCount)
    runtime.cudaDeviceSynchronize = as_runtime(driver.cuCtxSynchronize)
    runtime.cudaDeviceGetPCIBusId = as_runtime(bus_id)
    runtime.cudaGetErrorString = lambda error: (runtime.cudaError_t(0), error.name.encode())


def replace_nvml():
    def device_count():
        call(driver.cuInit, 0)
        return call(driver.cuDeviceGetCount)

    def is_missing():
        # Its constructor calls NVML.
        raise nvml.NotSupportedError.__new__(nvml.NotSupportedError, 3)

    nvml.init_v2 = lambda: None
    nvml.shutdown = lambda: None
    nvml.system_get_driver_branch = is_missing
    nvml.device_get_count_v2 = device_count
    nvml.system_get_cuda_driver_version = lambda: call(driver.cuDriverGetVersion)
    nvml.system_get_driver_version = lambda: "580.159.03"


libc = ctypes.CDLL(None)
libcuda = ctypes.CDLL("libcuda.so.1")


def queue(stream, function, data):
    """Queue a function of libc. cuda.bindings would call it with the GIL held."""
    pointer = ctypes.cast(function, ctypes.c_void_p)
    handle = ctypes.c_void_p(int(stream.handle))
    if error := libcuda.cuLaunchHostFunc(handle, pointer, ctypes.c_void_p(data)):
        raise RuntimeError(f"cuLaunchHostFunc: {error}")


class Latch:
    """What the tests' LatchKernel does: the stream waits until release()."""

    def __init__(self, device, timeout_sec=WAIT_S):
        self.semaphore = ctypes.create_string_buffer(64)
        libc.sem_init(self.semaphore, 0, 0)
        self.busy_wait_flag = [0]

    def launch(self, stream):
        queue(stream, libc.sem_wait, ctypes.addressof(self.semaphore))

    def release(self):
        self.busy_wait_flag[0] = 1
        libc.sem_post(self.semaphore)


class Sleep:
    """What the tests' NanosleepKernel does: the stream waits for some milliseconds."""

    def __init__(self, device, sleep_duration_ms=20):
        self.microseconds = sleep_duration_ms * 1000

    def launch(self, stream):
        queue(stream, libc.usleep, self.microseconds)


def replace_kernels():
    import helpers.latch
    import helpers.nanosleep_kernel

    helpers.latch.LatchKernel = Latch
    helpers.nanosleep_kernel.NanosleepKernel = Sleep


def replace_names():
    """Offer the names where tests of July 2026 import them."""
    import cuda.core._memory as memory
    from cuda.core._memory import _ipc

    for name in ("IPCAllocationHandle", "IPCBufferDescriptor"):
        if not hasattr(memory, name) and hasattr(_ipc, name):
            setattr(memory, name, getattr(_ipc, name))


sys.modules["cupy"] = None
sys.path[:0] = os.environ["CUDA_CORE_SUITE_PATH"].split(os.pathsep)
replace_runtime()
replace_nvml()
replace_kernels()
replace_names()
