"""tarn.torch.MemPool: a pool of PyTorch that takes its segments from a resource of Tarn."""

from __future__ import annotations

import contextlib
import functools
import importlib
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from tarn import _tarn, mr

_pools: weakref.WeakSet[Any] = weakref.WeakSet()


class _MemPoolMembers:
    """The members of MemPool; pool_class() puts them on top of torch.cuda.MemPool.

    PyTorch's allocator divides the segments, so statistics, snapshots, histories and out of memory
    are PyTorch's own. A pool serves the device of its resource.

    Parameters
    ----------
    resource : DeviceMemoryResource, optional
        The source of the segments; it has to be safe without a stream, as pools are. None: a new
        PoolMemoryResource of PyTorch's current device.
    tags : iterable of str
        Names by which suspend() and resume() find the pool.
    use_on_oom : bool
        Let other tensors use free memory of this pool before PyTorch reports out of memory.
    no_split : bool
        Give each tensor a segment of its own.

    Attributes
    ----------
    resource : DeviceMemoryResource
        The source of the segments.
    device : int
        Number of its device.
    tags : frozenset of str
        The tags.

    Raises
    ------
    RuntimeError
        tarn.torch.use() serves the whole program. PyTorch has no MemPool then.
    NotSupportedError
        The resource is unsafe without a stream, or has no device.
    TypeError
        `resource` is not a resource of ``tarn.mr``.
    """

    def __init__(
        self,
        resource: Any = None,
        *,
        tags: str | Iterable[str] = (),
        use_on_oom: bool = False,
        no_split: bool = False,
    ) -> None:
        torch: Any = importlib.import_module("torch")
        _check_mode(torch)
        torch.cuda.init()
        if resource is None:
            resource = mr.PoolMemoryResource(device=torch.cuda.current_device())
        allocate, deallocate = _tarn._torch_open_segments(resource)
        closing = weakref.finalize(self, _tarn._torch_close_segments, allocate)
        closing.atexit = False
        self.resource = resource
        self.device: int = resource.device
        self.tags = frozenset([tags] if isinstance(tags, str) else tags)
        allocator = torch._C._cuda_customAllocator(allocate, deallocate)
        with torch.cuda.device(self.device):  # PyTorch binds the allocator to this device
            super().__init__(allocator, use_on_oom, no_split)  # type: ignore[call-arg]
        _pools.add(self)

    @contextlib.contextmanager
    def use(self, device: Any = None) -> Iterator[None]:
        """Allocate tensors of this thread from this pool, for the length of a with statement.

        The threads of backward() do not, as with torch.cuda.use_mem_pool().

        Parameters
        ----------
        device : torch.device or int, optional
            The device of the tensors. None: that of the pool.

        Raises
        ------
        ValueError
            The device is not the pool's.
        """
        torch: Any = importlib.import_module("torch")
        wanted = self.device if device is None else torch.cuda._utils._get_device_index(device)
        if wanted != self.device:
            raise ValueError(
                f"tarn.torch: this pool has memory of device {self.device}, not of {wanted}: "
                "make a MemPool for each device"
            )
        with torch.cuda.use_mem_pool(self, self.device):
            yield

    def suspend(self, keep: bool = True) -> None:
        """Return the physical memory of the pool, and keep its addresses.

        Tensors must not be used until resume(). Dropping them is allowed. The call waits for the
        device.

        Parameters
        ----------
        keep : bool
            True: keep the contents in host memory. False: discard them.

        Raises
        ------
        NotSupportedError
            The resource is no pool on VMM.
        OutOfMemoryError
            Host memory for the contents is unavailable.
        """
        _suspendable(self.resource).suspend(keep)

    def resume(self) -> None:
        """Obtain physical memory again, at the same addresses.

        Raises
        ------
        OutOfMemoryError
            The device has too little free memory. The pool stays suspended.
        """
        _suspendable(self.resource).resume()


if TYPE_CHECKING:

    class MemPool(_MemPoolMembers):
        """A torch.cuda.MemPool over a resource of Tarn."""

        id: tuple[int, int]


def _check_mode(torch: Any) -> None:
    """Raise RuntimeError where PyTorch has no MemPool."""
    if torch.cuda.get_allocator_backend() != "native":
        raise RuntimeError(
            "tarn.torch: PyTorch has no MemPool under a pluggable allocator, such as that of "
            "tarn.torch.use(), or under cudaMallocAsync"
        )


def _suspendable(resource: Any) -> Any:
    """Return the resource if it can be suspended."""
    if not hasattr(resource, "suspend"):
        raise _tarn.NotSupportedError(
            f"tarn.torch: {resource!r} cannot be suspended: it is no pool"
        )
    return resource


@functools.cache
def pool_class() -> Any:
    """Create the class over the base class of PyTorch."""
    torch: Any = importlib.import_module("torch")
    members = {
        "__module__": "tarn.torch",
        "__qualname__": "MemPool",
        "__doc__": _MemPoolMembers.__doc__,
    }
    return type("MemPool", (_MemPoolMembers, torch.cuda.MemPool), members)


def _tagged(tags: tuple[str, ...]) -> list[Any]:
    """Return the pools with any of these tags; without tags all."""
    known = {tag for pool in _pools for tag in pool.tags}
    unknown = [tag for tag in tags if tag not in known]
    if unknown:
        raise ValueError(f"tarn.torch: no MemPool has the tag {unknown[0]!r}")
    return [pool for pool in _pools if not tags or pool.tags & set(tags)]


def suspend(*tags: str, keep: bool = True) -> None:
    """Suspend all MemPools with any of these tags; without tags all.

    Other libraries call this sleep mode.

    Parameters
    ----------
    *tags : str
        The tags.
    keep : bool
        True: keep the contents of tensors in host memory. False: discard them.

    Raises
    ------
    ValueError
        No pool has this tag.
    TarnError
        As MemPool.suspend(). Pools that were suspended before the failure stay so.
    """
    for pool in _tagged(tags):
        pool.suspend(keep)


def resume(*tags: str) -> None:
    """Resume all MemPools with any of these tags; without tags all.

    Parameters
    ----------
    *tags : str
        The tags.

    Raises
    ------
    ValueError
        No pool has this tag.
    TarnError
        As MemPool.resume(). Pools that were resumed before the failure stay so.
    """
    for pool in _tagged(tags):
        pool.resume()
