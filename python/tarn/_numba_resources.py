"""The resource that serves a device under Numba: set by name, by object, or for a while.

The manager of NBEP 7 cannot be changed once Numba has a context. The resource under it can be
changed at any time: each block is freed to the resource that it came from.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from . import _tarn

# Safe without a stream, much faster than the driver's calls, and its memory can be shared with
# programs that do not use Tarn.
DEFAULT = "cuda-pool"

# The plugin's names in NUMBA_CUDA_MEMORY_MANAGER: both have `_numba_memory_manager`.
MODULES = ("tarn", "tarn.numba")

is_for_numba = False  # a call has requested Tarn's manager
_asked: str | None = None  # name of the resource requested for devices with the default
_asked_for_one = False  # a resource object was requested
_chosen: set[int] = set()  # devices for which choose() has run
_made: dict[int, Any] = {}  # device -> its current resource, set by name


def _binning(device: int) -> Any:
    from . import mr

    return mr.BinningMemoryResource(mr.PoolMemoryResource(device=device), 8, 20)


def _exportable(device: int) -> Any:
    from . import mr

    return mr.PoolMemoryResource(mr.ExportableMemoryResource(device=device), device=device)


def _async_exportable(device: int) -> Any:
    from . import mr

    return mr.CudaAsyncMemoryResource(enable_ipc=True, device=device)


def _cuda_pool(device: int) -> Any:
    from . import mr

    return mr.PoolMemoryResource(mr.CudaMemoryResource(device=device), device=device)


def _class_of(name: str) -> Any:
    """The function that creates a resource of this name for a device."""
    from . import mr

    classes: dict[str, Any] = {
        "cuda": mr.CudaMemoryResource,
        "async": mr.CudaAsyncMemoryResource,
        "managed": mr.ManagedMemoryResource,
        "pinned": mr.PinnedHostMemoryResource,
        "pool": mr.PoolMemoryResource,
        "cuda-pool": _cuda_pool,
        "slab": mr.FixedSizeMemoryResource,
        "binning": _binning,
        "exportable": _exportable,
        "async-exportable": _async_exportable,
    }
    if name not in classes:
        known = ", ".join(classes)
        raise ValueError(f"tarn.numba: unknown resource {name!r}; the names are {known}")
    return classes[name]


def _put_in_charge(name: str, device: int) -> None:
    from . import mr

    _made[device] = _class_of(name)(device=device)
    mr.set_per_device_resource(device, _made[device])


def choose(device: int, default: str | None = None) -> None:
    """Before a device's first use: make the resource requested by name current, or `default`,
    unless the program has set one itself, be it Tarn's own default."""
    name = _asked or os.environ.get("TARN_RESOURCE") or default
    if device in _chosen or not name:
        return
    from . import mr

    present = mr.get_per_device_resource(device)
    is_default = type(present) is mr.CudaMemoryResource and not _tarn._resource_was_set(device)
    if is_default or present is _made.get(device):
        _put_in_charge(name, device)
    _chosen.add(device)


def is_named() -> bool:
    """Does the environment set Tarn as Numba's memory manager?"""
    return os.environ.get("NUMBA_CUDA_MEMORY_MANAGER") in MODULES


def was_asked_for() -> bool:
    """Was a resource for Numba requested, by a call or by the environment?"""
    return _asked_for_one or bool(_asked or os.environ.get("TARN_RESOURCE"))


def begin_anew(device: int) -> None:
    """The device's context may be about to end, and a pool of Tarn's ends with it. Create
    another at the next use, if this module created the pool."""
    _chosen.discard(device)


def _check(resource: Any) -> None:
    from . import mr

    if not isinstance(resource, mr.DeviceMemoryResource):
        raise TypeError(f"tarn.numba: {resource!r} is not a resource of tarn.mr, and not a name")


def serve_from(resource: Any, used: set[int]) -> None:
    """Apply a program's own request at once on the devices that are `used`. A name applies to
    the other devices at their first use."""
    from . import mr

    global _asked, _asked_for_one
    if isinstance(resource, str):
        _class_of(resource)
        for device in used:
            _put_in_charge(resource, device)
        _asked = resource
        return
    _check(resource)
    _asked_for_one = True
    if resource.device is None:  # its class is written in Python
        mr.set_current_device_resource(resource)
    else:
        mr.set_per_device_resource(resource.device, resource)


@contextlib.contextmanager
def using_resource(resource: Any, device: int | None = None) -> Iterator[Any]:
    """In this block, new memory of a device comes from `resource`::

        with tarn.numba.using_resource("pool") as pool:
            array = cuda.device_array(1000)

    It may be used before Numba's first use of CUDA and at any time after it, with Tarn's
    manager or without. Memory is freed to the resource that it came from, in the block and
    after it. It nests. A device has one current resource for all threads: memory that another
    thread allocates meanwhile comes from it too. Two threads that swap the same device's
    resource have to agree on an order, as the end of a block restores the earlier resource.

    :param resource: a resource of ``tarn.mr``, or the name of one (``"pool"``).
    :param device: the device to change; by default the resource's own, or the current one.
    """
    from . import mr

    if device is None:
        device = None if isinstance(resource, str) else getattr(resource, "device", None)
    if device is None:
        device = _tarn.current_device()
    if isinstance(resource, str):
        resource = _class_of(resource)(device=device)
    _check(resource)
    # Otherwise the first use in the block would find this resource and set no default.
    choose(device, DEFAULT if is_for_numba or is_named() else None)
    before = mr.set_per_device_resource(device, resource)
    try:
        yield resource
    finally:
        mr.set_per_device_resource(device, before)
