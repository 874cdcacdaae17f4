"""Queries about the driver and its devices, as dask-cuda, cuDF and cuML make them.

Tarn answers what it knows. The rest needs the package cuda-bindings, which is imported at the
first such query.
"""

from __future__ import annotations

import importlib
from typing import Any

from tarn import _tarn

__all__ = [
    "CUDADriverError",
    "CUDARuntimeError",
    "deviceGetName",
    "driverGetVersion",
    "getDevice",
    "getDeviceAttribute",
    "getDeviceCount",
    "getDeviceProperties",
    "runtimeGetVersion",
    "setDevice",
]


def _bindings(name: str) -> Any:
    """Return the module `driver` or `runtime` of cuda-bindings."""
    return importlib.import_module(f"cuda.bindings.{name}")


def _text(answer: Any) -> str:
    """Return the text of an answer (status, bytes) of cuda-bindings."""
    text = answer[1]
    return text.decode() if isinstance(text, bytes) else str(text)


class _CallError(RuntimeError):
    """A call failed; `_names` and `_texts` are the functions of cuda-bindings that describe it."""

    _module: str
    _names: str
    _texts: str

    def __init__(self, status: Any) -> None:
        self.status = status
        bindings = _bindings(self._module)
        name = _text(getattr(bindings, self._names)(status))
        super().__init__(f"{name}: {_text(getattr(bindings, self._texts)(status))}")

    def __reduce__(self) -> tuple[type[_CallError], tuple[Any]]:
        return (type(self), (self.status,))


class CUDARuntimeError(_CallError):
    """A call of the CUDA runtime failed.

    Parameters
    ----------
    status : cudaError_t
        The result of the call.
    """

    _module, _names, _texts = "runtime", "cudaGetErrorName", "cudaGetErrorString"


class CUDADriverError(_CallError):
    """A call of the CUDA driver failed.

    Parameters
    ----------
    status : CUresult
        The result of the call.
    """

    _module, _names, _texts = "driver", "cuGetErrorName", "cuGetErrorString"


def _driver(call: str, *args: Any) -> Any:
    """Return the result of a driver call by name, or raise CUDADriverError."""
    _tarn.driver_info()  # the driver that Tarn uses is the one that cuda-bindings finds
    driver = _bindings("driver")
    status, *results = getattr(driver, call)(*args)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise CUDADriverError(status)
    return results[0] if results else None


def driverGetVersion() -> int:
    """Return the CUDA version of the driver: 1000 * major + 10 * minor."""
    return _tarn.driver_info().version


def runtimeGetVersion() -> int:
    """Return the CUDA version of cuda-bindings' runtime, or that of the driver without it."""
    try:
        status, version = _bindings("runtime").getLocalRuntimeVersion()
    except (ImportError, RuntimeError):
        return driverGetVersion()
    return int(version) if int(status) == 0 else driverGetVersion()


def getDevice() -> int:
    """Return the number of the current device."""
    return _tarn.current_device()


def setDevice(device: int) -> None:
    """Make the primary context of a device current in this thread.

    Parameters
    ----------
    device : int
        Number of the device.

    Raises
    ------
    CUDADriverError
        There is no such device.
    """
    handle = _driver("cuDeviceGet", device)
    _driver("cuCtxSetCurrent", _driver("cuDevicePrimaryCtxRetain", handle))


def getDeviceCount() -> int:
    """Return the number of devices."""
    return _tarn.driver_info().device_count


def getDeviceAttribute(attr: Any, device: int) -> int:
    """Return an attribute of a device.

    Parameters
    ----------
    attr : cudaDeviceAttr, CUdevice_attribute or int
        The attribute; both types have the same numbers.
    device : int
        Number of the device.

    Raises
    ------
    CUDADriverError
        There is no such device or attribute.
    """
    attribute = _bindings("driver").CUdevice_attribute(int(attr))
    return int(_driver("cuDeviceGetAttribute", attribute, _driver("cuDeviceGet", device)))


def getDeviceProperties(device: int) -> Any:
    """Return the cudaDeviceProp of a device, which the CUDA runtime fills.

    Parameters
    ----------
    device : int
        Number of the device.

    Raises
    ------
    CUDARuntimeError
        There is no such device.
    """
    runtime = _bindings("runtime")
    status, properties = runtime.cudaGetDeviceProperties(device)
    if status != runtime.cudaError_t.cudaSuccess:
        raise CUDARuntimeError(status)
    return properties


def deviceGetName(device: int) -> str:
    """Return the name of a device.

    Parameters
    ----------
    device : int
        Number of the device.

    Raises
    ------
    InvalidArgumentError
        There is no such device.
    """
    return _tarn.device_info(device).name
