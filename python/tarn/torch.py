"""PyTorch's GPU memory from Tarn, for a whole program or for a part of it.

The whole program::

    import tarn.torch
    tarn.torch.use()                    # before PyTorch's first use of CUDA

A part of a program::

    pool = tarn.torch.MemPool(tarn.mr.PoolMemoryResource(maximum_pool_size="8GiB"))
    with pool.use():
        ...                             # tensors that are made here

In a whole program every tensor is a block of Tarn. In a MemPool PyTorch's own allocator takes
segments from Tarn and divides them. The two exclude each other, as in PyTorch. docs/torch.md
compares them, and lists what PyTorch rejects in each.

PyTorch is imported when it is first needed, not by importing this module.
"""

from __future__ import annotations

import importlib
import sys
import threading
from typing import TYPE_CHECKING, Any

from tarn import _frameworks, _resources, _tarn, _torch_statistics
from tarn._steps import step
from tarn._torch_pools import pool_class, resume, suspend

if TYPE_CHECKING:
    from tarn._torch_pools import MemPool

__all__ = ["MemPool", "mark_steps", "resume", "suspend", "use"]

_OLDEST = "2.11"


class _Plugin:
    """The allocator that PyTorch has from this module."""

    lock = threading.RLock()
    allocator: Any = None  # PyTorch's object; it lives as long as the process


def use(resource: Any = None, *, statistics: bool = True) -> None:
    """Make PyTorch allocate all its GPU memory from Tarn.

    The call has to come before PyTorch's first use of CUDA. PyTorch cannot change its allocator
    again. A device keeps the resource that is current there at PyTorch's first allocation.

    Parameters
    ----------
    resource : DeviceMemoryResource or str, optional
        The source of memory: a resource of ``tarn.mr``, for its device, or the name of one for
        all devices. None: the current resource of each device. Where the program has set none,
        it is a new pool.
    statistics : bool
        True: PyTorch's functions for statistics and snapshots return Tarn's numbers. False: they
        raise RuntimeError, as under any allocator of this kind.

    Raises
    ------
    ModuleNotFoundError
        PyTorch is not installed.
    ImportError
        It is older than 2.11.
    RuntimeError
        This build of PyTorch has no CUDA. It has used CUDA already, has another allocator, or
        uses another resource of this device. Or this is a forked child of a program that used
        CUDA.
    ValueError
        The name of the resource is unknown.
    TypeError
        `resource` is neither a resource of ``tarn.mr`` nor a name.
    """
    torch: Any = importlib.import_module("torch")
    if resource is not None:
        _check_not_other(resource)
        _resources.serve_from(resource)
    _install(torch, statistics)


def mark_steps(optimizer: Any, device: int | None = None) -> Any:
    """Have each step of an optimizer mark a step of the program, for plans.

    `tarn.step()` is called after the first `optimizer.zero_grad()` behind each `optimizer.step()`: the
    gradients are freed there. Without a `zero_grad()` it is called after the next step. With a pool of
    `plan="learn"` a training loop needs nothing else. Of several optimizers that step together, pass
    the one whose gradients are freed last.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        The optimizer. It has `register_step_post_hook()` since PyTorch 2.0.
    device : int, optional
        The device of the pool. None: the one that is current at each step.

    Returns
    -------
    object
        Its `remove()` ends the marks.

    Raises
    ------
    TypeError
        `optimizer` has no hooks.
    """
    register = getattr(optimizer, "register_step_post_hook", None)
    if register is None:
        raise TypeError(f"mark_steps: {type(optimizer).__name__} has no register_step_post_hook()")

    return _Marks(optimizer, register, device)


class _Marks:
    """The marks of an optimizer's steps, until `remove()`."""

    def __init__(self, optimizer: Any, register: Any, device: int | None) -> None:
        self._optimizer, self._device = optimizer, device
        self._has_stepped = False
        self._zero_grad = optimizer.zero_grad
        self._own_zero_grad = self._and_mark
        optimizer.zero_grad = self._own_zero_grad
        self._hook = register(self._after_step)

    def _after_step(self, _optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """Mark the step before this one, if no `zero_grad()` came in between."""
        if self._has_stepped:
            step(self._device)
        self._has_stepped = True

    def _and_mark(self, *args: Any, **kwargs: Any) -> Any:
        """Free the gradients; mark a step if the optimizer has made one."""
        result = self._zero_grad(*args, **kwargs)
        if self._has_stepped:
            self._has_stepped = False
            step(self._device)
        return result

    def remove(self) -> None:
        """End the marks."""
        self._hook.remove()
        if self._optimizer.zero_grad is self._own_zero_grad:
            self._optimizer.zero_grad = self._zero_grad


def _configure() -> None:
    """Make the imported PyTorch allocate from Tarn: for tarn.use()."""
    _install(sys.modules["torch"], True)


def _check_not_other(resource: Any) -> None:
    """Raise RuntimeError if PyTorch has memory of another resource on this device."""
    device = getattr(resource, "device", None)
    if _Plugin.allocator is None or device is None or _tarn._torch_resource(device) is None:
        return
    try:
        _tarn._torch_set_resource(device, resource)  # fails for another one
    except _tarn.TarnError as error:
        raise RuntimeError(f"tarn.{error}") from None


def _install(torch: Any, statistics: bool) -> None:
    """Set PyTorch's allocator, once in a process."""
    with _Plugin.lock:
        if _Plugin.allocator is not None:
            return
        _check(torch)
        allocator = _make_allocator(torch)
        _tarn._torch_set_first_use(_choose)
        torch._C._cuda_changeCurrentAllocator(allocator)
        _Plugin.allocator = allocator
        if statistics:
            _torch_statistics.install(torch)


def _check(torch: Any) -> None:
    """Raise the exception of use() if PyTorch cannot get an allocator."""
    _frameworks.check_version("torch", torch.__version__, _OLDEST)
    if torch.version.cuda is None or not hasattr(torch._C, "_cuda_customAllocator"):
        raise RuntimeError(f"tarn.torch: this build of PyTorch ({torch.__version__}) has no CUDA")
    if torch.cuda._is_in_bad_fork():
        raise RuntimeError(
            "tarn.torch: this is a forked child, and its parent has used CUDA: use the start "
            "method 'spawn'"
        )
    if torch.cuda.is_initialized():
        raise RuntimeError(
            "tarn.torch: too late: PyTorch has used CUDA already. Call tarn.torch.use() before"
        )
    backend = torch.cuda.get_allocator_backend()
    if backend == "pluggable":
        raise RuntimeError("tarn.torch: PyTorch has another pluggable allocator already")
    problem = _tarn._torch_check()
    if problem is not None and "C++ runtime" in problem:
        raise RuntimeError(problem)


def _make_allocator(torch: Any) -> Any:
    """Return an allocator of PyTorch that calls libtarn."""
    functions = _tarn._torch_functions()
    allocator = torch._C._cuda_customAllocator(functions["allocate"], functions["deallocate"])
    allocator.set_record_stream_fn(functions["record_stream"])
    allocator.set_reset_fn(functions["empty_cache"])
    allocator.set_memory_fraction_fn(functions["set_memory_fraction"])
    allocator.set_begin_allocate_to_pool(functions["begin_graph_pool"])
    allocator.set_end_allocate_to_pool_fn(functions["end_graph_pool"])
    allocator.set_release_pool(functions["release_graph_pool"])
    return allocator


def _choose(device: int) -> bool:
    """Make the requested resource current on a device that has none; False: none was requested."""
    _resources.choose(device)
    return _tarn._resource_was_set(device)


def __getattr__(name: str) -> Any:
    """Create the class MemPool at its first use, when PyTorch is available."""
    if name == "MemPool":
        return pool_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
