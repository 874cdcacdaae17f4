"""The resource that serves a device under a framework: set by name, by object, or for a while.

Most frameworks set their allocator once. The resource under it can be changed at any time: each
block is freed to the resource that it came from.
"""

from __future__ import annotations

import contextlib
import functools
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
_used: set[int] = set()  # devices for which choose() has run
_chosen: set[int] = set()  # those for which it need not run again
_made: dict[int, Any] = {}  # device -> its current resource, set by name


def _binning(device: int) -> Any:
    """Create bins of 2**8 to 2**20 bytes over a pool."""
    from . import mr

    return mr.BinningMemoryResource(mr.PoolMemoryResource(device=device), 8, 20)


def _cuda_pool(device: int, **options: Any) -> Any:
    """Create a pool over memory of cuMemAlloc."""
    from . import mr

    return mr.PoolMemoryResource(mr.CudaMemoryResource(device=device), device=device, **options)


def _exportable(device: int, **options: Any) -> Any:
    """Create a pool over memory that other processes may open."""
    from . import mr

    return mr.PoolMemoryResource(
        mr.ExportableMemoryResource(device=device), device=device, **options
    )


def _async_exportable(device: int) -> Any:
    """Create a pool of the driver that other processes may open."""
    from . import mr

    return mr.CudaAsyncMemoryResource(enable_ipc=True, device=device)


def _classes() -> dict[str, Any]:
    """Return the functions that create the resources for a device, by name."""
    from . import mr

    return {
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


POOLS = ("pool", "cuda-pool", "exportable")  # names that take options of a pool
POOL_OPTIONS = (
    "initial_pool_size", "maximum_pool_size", "growth", "release_threshold", "no_stream",
    "no_stream_limit", "policy", "moves",
)  # fmt: skip


def _options_of(text: str, name: str, words: str) -> dict[str, str]:
    """Return the options of a pool in `words`, the part of `text` behind the name."""
    if name not in POOLS:
        raise ValueError(f"tarn: {text!r}: only {', '.join(POOLS)} take options, not {name}")
    options: dict[str, str] = {}
    for word in words.split(","):
        option, _, value = word.partition("=")
        if option not in POOL_OPTIONS or not value or option in options:
            known = "=…, ".join(POOL_OPTIONS)
            raise ValueError(f"tarn: {text!r}: {word!r} is no option; the options are {known}=…")
        options[option] = value
    return options


def _class_of(text: str) -> Any:
    """Return the function that creates the resource of this name, NAME or NAME:OPTION=VALUE,…"""
    name, colon, words = text.partition(":")
    classes = _classes()
    if name not in classes:
        raise ValueError(f"tarn: unknown resource {name!r}; the names are {', '.join(classes)}")
    if not colon:
        return classes[name]
    return functools.partial(classes[name], **_options_of(text, name, words))


def _put_in_charge(name: str, device: int) -> None:
    """Create a resource by name and make it the current one of a device."""
    from . import mr

    _made[device] = _class_of(name)(device=device)
    mr.set_per_device_resource(device, _made[device])


def choose(device: int, default: str | None = None) -> None:
    """Make a resource current before the first use of a device.

    It is the resource that was requested by name, or `default`. A resource that the program set
    itself stays, also where that is Tarn's own default.
    """
    name = _asked or os.environ.get("TARN_RESOURCE") or default
    _used.add(device)
    if device in _chosen or not name:
        return
    from . import mr

    present = mr.get_per_device_resource(device)
    is_default = type(present) is mr.CudaMemoryResource and not _tarn._resource_was_set(device)
    if is_default or present is _made.get(device):
        _put_in_charge(name, device)
    _chosen.add(device)


def current(device: int) -> Any:
    """Return the current resource of a device; the first use makes the default one current."""
    if device not in _chosen:
        choose(device, DEFAULT)
    return _tarn.get_per_device_resource(device)


def used_devices() -> list[int]:
    """Return the devices from which a framework has allocated through this module."""
    return sorted(_used)


def is_named() -> bool:
    """Return True if the environment sets Tarn as Numba's memory manager."""
    return os.environ.get("NUMBA_CUDA_MEMORY_MANAGER") in MODULES


def was_asked_for() -> bool:
    """Return True if a call or the environment requested a resource for Numba."""
    return _asked_for_one or bool(_asked or os.environ.get("TARN_RESOURCE"))


def begin_anew(device: int) -> None:
    """Drop the resource that this module created for a device; its next use creates it again.

    The device's context may be about to end, and a pool of Tarn's ends with it. But the physical
    memory that the pool has mapped would stay reserved until the pool is destroyed.
    """
    from . import mr

    made = _made.pop(device, None)
    _chosen.discard(device)
    if made is not None and mr.get_per_device_resource(device) is made:
        mr.set_per_device_resource(device, None)
        _made[device] = mr.get_per_device_resource(device)  # so that choose() replaces it


def check(component: str, resource: Any, more: str = "") -> None:
    """Raise TypeError unless `resource` is a resource of tarn.mr."""
    from . import mr

    if not isinstance(resource, mr.DeviceMemoryResource):
        raise TypeError(f"{component}: {resource!r} is not a resource of tarn.mr{more}")


def serve_from(resource: Any) -> None:
    """Make a resource current on its device, or one of this name on every device.

    A name applies at once to the devices that were used, and to the others at their first use.
    """
    from . import mr

    global _asked, _asked_for_one
    if isinstance(resource, str):
        _class_of(resource)
        for device in _used:
            _put_in_charge(resource, device)
        _asked = resource
        return
    check("tarn", resource, ", and not a name")
    _asked_for_one = True
    if resource.device is None:  # its class is written in Python
        mr.set_current_device_resource(resource)
    else:
        mr.set_per_device_resource(resource.device, resource)


@contextlib.contextmanager
def using_resource(resource: Any, device: int | None = None) -> Iterator[Any]:
    """Allocate new memory of a device from a resource inside a with statement.

    ::

        with tarn.numba.using_resource("pool") as pool:
            array = cuda.device_array(1000)

    It may be used before and after Numba's first use of CUDA, with Tarn's manager or without. It
    nests. Memory is freed to the resource that it came from, inside the block and after it.

    Parameters
    ----------
    resource : DeviceMemoryResource or str
        A resource of ``tarn.mr``, or the name of one (``"pool"``).
    device : int, optional
        The device to change. None: the resource's own, or the current one.

    Yields
    ------
    DeviceMemoryResource
        The resource, which is current on the device until the end of the block.

    Raises
    ------
    ValueError
        The name is unknown.
    TypeError
        `resource` is neither a resource of ``tarn.mr`` nor a name.

    Notes
    -----
    A device has one current resource for all threads: memory that another thread allocates
    meanwhile comes from it too. The end of a block restores the earlier resource. So two threads
    that change the resource of one device have to agree on an order.
    """
    from . import mr

    if device is None:
        device = None if isinstance(resource, str) else getattr(resource, "device", None)
    if device is None:
        device = _tarn.current_device()
    if isinstance(resource, str):
        resource = _class_of(resource)(device=device)
    check("tarn", resource, ", and not a name")
    # Otherwise the first use in the block would find this resource and set no default.
    choose(device, DEFAULT if is_for_numba or is_named() else None)
    before = mr.set_per_device_resource(device, resource)
    was_made = before is _made.get(device)
    try:
        yield resource
    finally:
        mr.set_per_device_resource(device, before)
        if was_made and before is not _made.get(device):  # begin_anew() has dropped it meanwhile
            _made[device] = before
            begin_anew(device)
