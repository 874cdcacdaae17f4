"""The choice of the current device resources in one call, with hooks before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tarn.rmm import mr
from tarn.rmm.pylibrmm.memory_resource._memory_resource import _initialize

_Function = TypeVar("_Function", bound=Callable[..., Any])


class RMMError(Exception):
    """The exception type that RMM exports; Tarn raises tarn.TarnError.

    Parameters
    ----------
    errcode : int
        A number.
    msg : str
        The message.
    """

    def __init__(self, errcode: int, msg: str) -> None:
        self.errcode = errcode
        super().__init__(msg)


_hooks: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []


def reinitialize(
    pool_allocator: bool = False,
    managed_memory: bool = False,
    initial_pool_size: int | str | None = None,
    maximum_pool_size: int | str | None = None,
    devices: int | list[int] | None = 0,
    logging: bool = False,
    log_file_name: str | None = None,
) -> None:
    """Call the hooks, and replace the current device resources.

    Blocks of the previous resources stay valid, and return to them.

    Parameters
    ----------
    pool_allocator : bool
        Use a PoolMemoryResource over the memory of the device.
    managed_memory : bool
        Use managed memory instead of device memory.
    initial_pool_size, maximum_pool_size : int or str, optional
        As in PoolMemoryResource.
    devices : int or list of int, optional
        Numbers of the devices. None: device 0. Any other device whose resource was set gets the
        default one.
    logging : bool
        Put a LoggingResourceAdaptor over each.
    log_file_name : str, optional
        As in LoggingResourceAdaptor.

    Raises
    ------
    ValueError
        A size is a string without a known unit, or there is no file name for the log.
    RuntimeError
        A resource cannot be created. Then the resources of the devices before it are replaced.
    """
    for function, args, kwargs in reversed(_hooks):
        function(*args, **kwargs)
    _initialize(
        pool_allocator=pool_allocator,
        managed_memory=managed_memory,
        initial_pool_size=initial_pool_size,
        maximum_pool_size=maximum_pool_size,
        devices=devices,
        logging=logging,
        log_file_name=log_file_name,
    )


def is_initialized() -> bool:
    """Return True: Tarn needs no initialization."""
    return mr.is_initialized()


def register_reinitialize_hook(func: _Function, *args: Any, **kwargs: Any) -> _Function:
    """Call a function before each reinitialize(), the last registered one first.

    Parameters
    ----------
    func : callable
        The function. It may be registered several times.
    *args, **kwargs
        Its arguments.

    Returns
    -------
    callable
        `func`.
    """
    _hooks.append((func, args, kwargs))
    return func


def unregister_reinitialize_hook(func: Callable[..., Any]) -> None:
    """Remove all registrations of a function.

    Parameters
    ----------
    func : callable
        The function.
    """
    _hooks[:] = [hook for hook in _hooks if hook[0] != func]
