"""The options of TarnPlugin, with dask-cuda's names, and the resource that they describe.

An option comes from the call or the command line. An option that is not given comes from Dask's
configuration: `tarn.rmm-async` in a file, or DASK_TARN__RMM_ASYNC in the environment.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tarn import _frameworks, _tarn, mr

# isort: split

import dask.config
import dask.utils

_SIZE = "a number of bytes, a text such as '8GB', or a fraction of the device from 0.0 to 1.0"


class Option(NamedTuple):
    """An option: what it holds, its flag on the command line, and a sentence of help."""

    kind: str  # "size", "flag", "folder" or "names"
    flag: str
    help: str


OPTIONS = {
    "rmm_pool_size": Option(
        "size", "--rmm-pool-size", f"Bytes that the pool reserves at the start: {_SIZE}."
    ),
    "rmm_maximum_pool_size": Option(
        "size", "--rmm-maximum-pool-size", f"Most bytes of the pool: {_SIZE}."
    ),
    "rmm_managed_memory": Option(
        "flag",
        "--rmm-managed-memory/--no-rmm-managed-memory",
        "Make the pool over managed memory.",
    ),
    "rmm_async": Option(
        "flag",
        "--rmm-async/--no-rmm-async",
        "Allocate from a pool of the driver (cuMemAllocAsync) in place of Tarn's.",
    ),
    "rmm_release_threshold": Option(
        "size",
        "--rmm-release-threshold",
        f"Free bytes above which the pool returns memory to the driver: {_SIZE}.",
    ),
    "rmm_log_directory": Option(
        "folder", "--rmm-log-directory", "Folder of a log of all allocations for each worker."
    ),
    "rmm_track_allocations": Option(
        "flag",
        "--rmm-track-allocations/--no-rmm-track-allocations",
        "Record the outstanding allocations of each worker.",
    ),
    "rmm_allocator_external_lib_list": Option(
        "names",
        "--set-rmm-allocator-for-libs",
        "The frameworks that allocate from the pool, such as 'cupy,torch'. Default: all.",
    ),
}


def complete(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options: those that are given and not None, else those of Dask's configuration.

    Sizes stay as they are written, for messages; make_resource() reads them.

    Raises
    ------
    TypeError, ValueError
        An option has an invalid value, the configuration has an unknown one, or two contradict each
        other.
    """
    configured = _configuration()
    found = {}
    for name, option in OPTIONS.items():
        value = given.get(name)
        source = name
        if value is None:
            value, source = configured.get(name), f"dask.config tarn.{name}"
        checked = None if value is None else _CHECKS[option.kind](source, value)
        found[name] = value if option.kind == "size" else checked
    if found["rmm_async"] and found["rmm_managed_memory"]:
        raise ValueError("TarnPlugin: rmm_async=True excludes rmm_managed_memory=True")
    names = "rmm_pool_size", "rmm_maximum_pool_size"
    first, most = (None if found[name] is None else _size(name, found[name]) for name in names)
    if first is not None and most is not None and type(first) is type(most) and first > most:
        written = [f"{name}={found[name]!r}" for name in names]
        raise ValueError(f"TarnPlugin: {written[0]} exceeds {written[1]}")
    return found


def _configuration() -> dict[str, Any]:
    """Return the options of Dask's configuration, by the names of the arguments."""
    section = dask.config.get("tarn", default=None) or {}
    if not isinstance(section, Mapping):
        raise TypeError(f"TarnPlugin: dask.config tarn={section!r} is no mapping of options")
    found = {str(name).replace("-", "_"): value for name, value in section.items()}
    for name in found:
        if name not in OPTIONS:
            known = ", ".join(OPTIONS)
            raise ValueError(f"TarnPlugin: dask.config tarn.{name} is unknown; known are {known}")
    return found


# --- the kinds of options ---


def _invalid(name: str, value: Any, wanted: str) -> ValueError:
    return ValueError(f"TarnPlugin: {name}={value!r} is invalid: it has to be {wanted}")


def _size(name: str, value: Any) -> int | float | None:
    """Return a number of bytes as an int, a fraction of the device as a float, 0 as None.

    As in dask-cuda, a number or a text over 0.0 and up to 1.0 is a fraction, except for 1 and "1".
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise _invalid(name, value, _SIZE)
    number: float | int | None = value if not isinstance(value, str) else None
    with contextlib.suppress(ValueError):
        number = float(value) if number is None else number
    is_fraction = isinstance(value, float) or (isinstance(value, str) and value.strip() != "1")
    if number is not None and is_fraction and 0.0 < number <= 1.0:
        return float(number)
    try:
        size = dask.utils.parse_bytes(value) if isinstance(value, str) else int(value)
    except (ValueError, OverflowError):  # a NaN, an infinity
        raise _invalid(name, value, _SIZE) from None
    if size < 0 or size >= 2**63 or (isinstance(value, float) and not value.is_integer()):
        raise _invalid(name, value, _SIZE)
    return size or None


def _flag(name: str, value: Any) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise _invalid(name, value, "True or False")
    return value


def _folder(name: str, value: Any) -> str:
    """Return the path of a folder as a text."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise _invalid(name, value, "the path of a folder")
    return os.fsdecode(value)


def _names(name: str, value: Any) -> tuple[str, ...]:
    """Return names of frameworks: of a text with commas, or of a list."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)) or not all(isinstance(part, str) for part in parts):
        raise _invalid(name, value, "names of frameworks, such as 'cupy,torch'")
    names = tuple(part.strip() for part in parts)
    if not set(names) <= set(_frameworks.known()):
        raise _invalid(name, value, f"names out of {', '.join(_frameworks.known())}")
    return names


_CHECKS: dict[str, Any] = {"size": _size, "flag": _flag, "folder": _folder, "names": _names}


# --- the resource ---


def make_resource(options: Mapping[str, Any], device: int, worker: Any) -> Any:
    """Return a new resource of a device, as the options describe it.

    It is a pool, or a pool of the driver under a counter. Above it are the adaptors: a limit for
    the pool of the driver, a log, a record of the outstanding allocations.

    Raises
    ------
    TarnError, MemoryError, OSError, ValueError
        The message names the options. Nothing is left.
    """
    with naming(options, "rmm_pool_size", "rmm_maximum_pool_size", "rmm_release_threshold"):
        sizes = _sizes_in_bytes(options, device)
    with naming(options, "rmm_pool_size", "rmm_maximum_pool_size", "rmm_managed_memory",
                "rmm_async", "rmm_release_threshold"):  # fmt: skip
        resource: Any = (_driver_pool if options["rmm_async"] else _pool)(options, sizes, device)
    with naming(options, "rmm_log_directory"):
        if options["rmm_log_directory"] is not None:
            os.makedirs(options["rmm_log_directory"], exist_ok=True)
            name = os.path.join(options["rmm_log_directory"], _log_name(worker))
            resource = mr.LoggingResourceAdaptor(resource, name)
    if options["rmm_track_allocations"]:
        resource = mr.TrackingResourceAdaptor(resource)
    return resource


def _sizes_in_bytes(options: Mapping[str, Any], device: int) -> dict[str, int | None]:
    """Return the sizes among the options, a fraction as bytes of the device."""
    names = [name for name in OPTIONS if OPTIONS[name].kind == "size" and options[name] is not None]
    read = {name: _size(name, options[name]) for name in names}
    has_fraction = any(isinstance(size, float) for size in read.values())
    total = _tarn.device_info(device).total_bytes if has_fraction else 0
    found = {name: None if size is None else _part(size, total) for name, size in read.items()}
    return {**dict.fromkeys(OPTIONS), **found}


def _part(size: int | float, total: int) -> int:
    """Return a number of bytes, or a fraction of `total`, in whole units of 256 bytes."""
    return math.floor(size * total) // 256 * 256 if isinstance(size, float) else size


def _pool(options: Mapping[str, Any], sizes: Mapping[str, Any], device: int) -> Any:
    """Return a pool over memory that can be exported, or over managed memory.

    Only exportable memory has fabric handles. Memory of cuMemAlloc needs no server for its handles.
    """
    source: Any = mr.CudaMemoryResource
    if options["rmm_managed_memory"]:
        source = mr.ManagedMemoryResource
    elif _tarn.device_info(device).has_fabric:
        source = mr.ExportableMemoryResource
    return mr.PoolMemoryResource(
        source(device=device),
        sizes["rmm_pool_size"],
        sizes["rmm_maximum_pool_size"],
        release_threshold=sizes["rmm_release_threshold"] or 0,
    )


def _driver_pool(options: Mapping[str, Any], sizes: Mapping[str, Any], device: int) -> Any:
    """Return a pool of the driver under a counter, since the driver's has no figures."""
    resource: Any = mr.CudaAsyncMemoryResource(
        sizes["rmm_pool_size"], sizes["rmm_release_threshold"], enable_ipc=True, device=device
    )
    if sizes["rmm_maximum_pool_size"] is not None:
        resource = mr.LimitingResourceAdaptor(resource, sizes["rmm_maximum_pool_size"])
    return mr.StatisticsResourceAdaptor(resource)


def _log_name(worker: Any) -> str:
    """Return the name of the log of a worker, unique in its cluster and for each process."""
    return f"rmm_log_{str(worker.name).split('/')[-1]}.{os.getpid()}.txt"


@contextlib.contextmanager
def naming(options: Mapping[str, Any], *names: str) -> Iterator[None]:
    """Add the options of these names to the message of a failure in a with statement."""
    try:
        yield
    except (_tarn.TarnError, MemoryError, OSError, ValueError, ImportError, RuntimeError) as error:
        given = [f"{name}={options[name]!r}" for name in names if options[name] is not None]
        kinds = (_tarn.TarnError, MemoryError)
        kind = type(error) if isinstance(error, kinds) else _kind_of(error)
        raise kind(f"TarnPlugin: {', '.join(given) or 'no options'}: {error}") from error


def _kind_of(error: Exception) -> type[Exception]:
    """Return the class of a failure that can be made of a message alone."""
    return next(
        kind for kind in (OSError, ValueError, ImportError, RuntimeError) if isinstance(error, kind)
    )
