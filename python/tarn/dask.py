"""Dask's workers on Tarn: a pool for each worker, its figures and logs, and buffers in messages.

::

    client.register_plugin(tarn.dask.TarnPlugin(rmm_pool_size=0.5))
    dask worker SCHEDULER --preload tarn.dask --rmm-pool-size 8GB

The options have the names that dask-cuda uses. Importing this module imports distributed and
registers serializers for DeviceBuffer with it.
"""

from __future__ import annotations

import gzip
import os
import threading
import weakref
from typing import Any

from tarn import (  # first: see _clash.py
    _dask_options,
    _dask_transfer,
    _frameworks,
    _resources,
    _tarn,
    metrics,
    mr,
)

# isort: split

import click
import distributed
from distributed.utils import offload

__all__ = ["TarnPlugin", "fetch_logs"]

_NEEDED = "2026.7"  # the oldest that was tried

_frameworks.check_version("distributed", distributed.__version__, _NEEDED)
_dask_transfer.register()


class _Serving:
    """What serves a device of this process: the resource, and what the last teardown restores."""

    def __init__(self, options: dict[str, Any], resource: Any, device: int) -> None:
        self.options = options
        self.resource = resource
        was_set = _tarn._resource_was_set(device)
        self.before = mr.get_per_device_resource(device) if was_set else None
        self.rmm: Any = None  # RMM's view of the resource
        self.rmm_before: Any = None
        self.workers: dict[str, Any] = {}  # id -> the metric `rmm` that the worker had


_lock = threading.RLock()
_serving: dict[int, _Serving] = {}  # by device
_ended: dict[int, tuple[dict[str, Any], weakref.ref[Any]]] = {}  # options and resource, by device


class TarnPlugin(distributed.WorkerPlugin):  # type: ignore[misc]
    """Gives each worker of a Dask cluster a pool of Tarn, for all its frameworks.

    The names of the options are dask-cuda's. An option that is None comes from Dask's configuration
    (``tarn.rmm-pool-size``, or ``DASK_TARN__RMM_POOL_SIZE`` in the environment) where the object is
    made. A size is a number of bytes, a text such as ``"8GB"``, or a fraction of the device's memory
    as a float up to 1.0.

    Parameters
    ----------
    rmm_pool_size : int, float or str, optional
        Bytes that the pool reserves at the start. None: none, the pool grows on demand.
    rmm_maximum_pool_size : int, float or str, optional
        Most bytes of the pool. None: no maximum.
    rmm_managed_memory : bool, optional
        Make the pool over managed memory.
    rmm_async : bool, optional
        Allocate from a pool of the driver in place of Tarn's.
    rmm_release_threshold : int, float or str, optional
        Free bytes above which the pool returns memory to the driver. None: it keeps all.
    rmm_log_directory : str or path, optional
        Folder of the logs, on the machine of each worker. It is created. fetch_logs() brings them to
        the client.
    rmm_track_allocations : bool, optional
        Record the outstanding allocations (tarn.mr.TrackingResourceAdaptor).
    rmm_allocator_external_lib_list : str or list of str, optional
        The frameworks that allocate from the pool, by the names of tarn.use(). None: all of them.

    Raises
    ------
    TypeError, ValueError
        An option is invalid, or two contradict each other. The message has the option and its value.

    Notes
    -----
    Where RMM is installed, its current resource becomes Tarn's, so cuDF allocates from the pool. In
    a process with several workers, they share the pool of a device. A plugin with the same options
    keeps the pool, one with others replaces it. Blocks return to the resource that they came from.
    """

    name = "tarn"

    def __init__(
        self,
        rmm_pool_size: float | str | None = None,
        rmm_maximum_pool_size: float | str | None = None,
        rmm_managed_memory: bool | None = None,
        rmm_async: bool | None = None,
        rmm_release_threshold: float | str | None = None,
        rmm_log_directory: str | os.PathLike[str] | None = None,
        rmm_track_allocations: bool | None = None,
        rmm_allocator_external_lib_list: str | list[str] | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in _dask_options.OPTIONS}
        self.options = _dask_options.complete(given)

    def setup(self, worker: Any) -> None:
        """Make the pool current in the process of a worker; Dask calls it.

        Parameters
        ----------
        worker : distributed.Worker
            The worker. A second call for it has no effect.

        Raises
        ------
        TarnError, MemoryError, OSError, ValueError
            The pool or the log cannot be made, or a framework is not configured. The message names
            the options.
        """
        device = _tarn.current_device()
        with _lock:
            serving = _serving.get(device)
            if serving is None or serving.options != self.options:
                serving = _serve(self.options, device, worker, serving)
            if worker.id not in serving.workers:
                serving.workers[worker.id] = worker.metrics.get("rmm")
        _set_metrics(worker, rmm=_rmm_metric, tarn=_tarn_metric)
        _dask_transfer.attach(worker)

    def teardown(self, worker: Any) -> None:
        """Undo setup() for a worker; Dask calls it.

        With the last worker of the process the earlier resource becomes current again. The pool ends
        with its last block.

        Parameters
        ----------
        worker : distributed.Worker
            The worker; without an earlier setup() nothing happens.
        """
        _dask_transfer.detach(worker)
        with _lock:
            for device, serving in list(_serving.items()):
                if worker.id not in serving.workers:
                    continue
                _set_metrics(worker, rmm=serving.workers.pop(worker.id), tarn=None)
                if not serving.workers:
                    _end(device, serving)


def _serve(options: dict[str, Any], device: int, worker: Any, earlier: _Serving | None) -> _Serving:
    """Make the resource of these options current, and the frameworks allocate from it."""
    ended, resource = _ended.pop(device, (None, lambda: None))
    present = resource() if ended == options else None
    if present is None:
        present = _dask_options.make_resource(options, device, worker)
    serving = _Serving(options, present, device)
    libraries = options["rmm_allocator_external_lib_list"]
    with _dask_options.naming(options, "rmm_allocator_external_lib_list"):
        _frameworks.use(frameworks=libraries)  # before the resource changes: it can raise
        _serve_rmm(serving, device)
    _frameworks.use(present, frameworks=libraries)
    _resources.current(device)  # from now on collect() reports the device
    if earlier is not None:
        serving.before, serving.rmm_before = earlier.before, earlier.rmm_before
        serving.workers = earlier.workers
    _serving[device] = serving
    return serving


def _end(device: int, serving: _Serving) -> None:
    """Restore the resources from before the first setup, unless the program has changed them."""
    del _serving[device]
    _ended[device] = serving.options, weakref.ref(serving.resource)
    if mr.get_per_device_resource(device) is serving.resource:
        mr.set_per_device_resource(device, serving.before)
        _resources.begin_anew(device)
    rmm = _real_rmm()
    if serving.rmm is not None and rmm.mr.get_per_device_resource(device) is serving.rmm:
        rmm.mr.set_per_device_resource(device, serving.rmm_before)


# --- RMM ---


def _real_rmm() -> Any:
    """Return RMM; None if it is not installed, or if `rmm` is tarn.rmm."""
    try:
        import rmm
        import rmm.mr
    except ImportError:
        return None
    return None if rmm.mr.__name__.startswith("tarn.") else rmm


def _serve_rmm(serving: _Serving, device: int) -> None:
    """Make the resource RMM's current one, too, where RMM is installed."""
    rmm = _real_rmm()
    if rmm is None:
        return
    serving.rmm_before = rmm.mr.get_per_device_resource(device)
    serving.rmm = mr.to_rmm(serving.resource)
    rmm.mr.set_per_device_resource(device, serving.rmm)


def _rmm_has_others(device: int) -> bool:
    """Return True if the program has given RMM a resource that does not lead to Tarn's."""
    rmm = _real_rmm()
    resource = None if rmm is None else rmm.mr.get_per_device_resource(device)
    while resource is not None:
        if hasattr(resource, "tarn_resource"):
            return False
        resource = getattr(resource, "upstream_mr", None)
    return rmm is not None


# --- metrics of the heartbeat ---


def _set_metrics(worker: Any, **metrics: Any) -> None:
    """Set metrics of a worker, or remove those that are None.

    The dict is a new one: a heartbeat that is under way iterates over the present one.
    """
    every = {**worker.metrics, **metrics}
    worker.metrics = {name: metric for name, metric in every.items() if metric is not None}


async def _rmm_metric(worker: Any) -> dict[str, Any]:
    """Return the figures that Dask's dashboard shows as RMM's."""
    return await offload(_rmm_figures)  # type: ignore[no-any-return]


async def _tarn_metric(worker: Any) -> dict[str, Any]:
    """Return Tarn's figures for the heartbeat, and release blocks that no receiver wants."""
    return await offload(_tarn_figures)  # type: ignore[no-any-return]


def _rmm_figures() -> dict[str, Any]:
    """Return rmm-used and rmm-total: live and reserved bytes of all served devices."""
    if _serving and all(map(_rmm_has_others, _serving)):
        figures: dict[str, Any] = distributed.diagnostics.rmm.real_time()
        return figures
    found = _tarn_figures()
    return {"rmm-used": found["live"], "rmm-total": max(found["reserved"], found["live"])}


def _tarn_figures() -> dict[str, Any]:
    """Return the sums of tarn.metrics.collect() for the served devices: a few numbers."""
    _dask_transfer.end_expired()
    found = metrics._collect(with_trackers=False)
    devices = [device for device in found["devices"] if device["device"] in _serving]
    sources = [_figures_of(found, device["device"]) for device in devices]
    return {
        "resource": ",".join(device["resource"] for device in devices),
        **{name: sum(source[name] for source in sources) for name in _NAMES},
        "free": sum(device["free"] or 0 for device in devices),
        "total": sum(device["total"] or 0 for device in devices),
        "exports": _dask_transfer.exports(),
    }


# A figure of the heartbeat: its name for a pool, and for the counter above a pool of the driver.
_NAMES = {
    "live": ("live", "current_bytes"),
    "reserved": ("reserved", "current_bytes"),
    "peak": ("peak_allocated", "peak_bytes"),
    "live_blocks": ("live_blocks", "current_count"),
    "allocations": ("allocations", "total_count"),
}


def _figures_of(found: dict[str, Any], device: int) -> dict[str, int]:
    """Return the figures of the pools of a device, or of its innermost counter without one."""
    pools = [pool for pool in found["pools"] if pool["is_current"] and pool["device"] == device]
    counts = [count for count in found["counts"] if count["device"] == device]
    sources = pools or counts[-1:]
    return {
        name: sum(source[names[not pools]] for source in sources) for name, names in _NAMES.items()
    }


# --- logs ---


def fetch_logs(client: Any, directory: str | os.PathLike[str] | None = None) -> Any:
    """Bring the logs of all workers to the client.

    Parameters
    ----------
    client : distributed.Client
        The client. With an asynchronous one, await the result.
    directory : str or path, optional
        A folder for the logs; it is created, and a file in it with the name of a log is replaced.
        None: no files are written.

    Returns
    -------
    dict of str to bytes, or dict of str to str
        By the address of the worker: the content of its log, or the path of the file with
        `directory`. `tarn log` reads both.

    Raises
    ------
    ValueError
        No worker has a log.
    TarnError, OSError
        A log cannot be written or read, on its worker or here.
    """
    return client.sync(_fetch_logs, client, directory)


async def _fetch_logs(client: Any, directory: str | os.PathLike[str] | None) -> dict[str, Any]:
    """Fetch the logs, one worker after another if they go to files."""
    found: dict[str, Any] = {}
    workers = list((await client.scheduler.identity())["workers"])
    for worker in workers:
        answer = (await client.run(_read_log, workers=[worker]))[worker]
        if answer is None:
            continue
        name, packed = answer
        content = gzip.decompress(packed)
        found[worker] = content if directory is None else _write(directory, name, content)
    if not found:
        raise ValueError(
            f"tarn.dask: none of {len(workers)} workers has a log: "
            "TarnPlugin(rmm_log_directory=...) makes them"
        )
    return found


def _write(directory: str | os.PathLike[str], name: str, content: bytes) -> str:
    """Write a log into a folder and return its path."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, os.path.basename(name))
    with open(path, "wb") as file:
        file.write(content)
    return path


async def _read_log() -> tuple[str, bytes] | None:
    """In a worker: return the name of its log and the compressed content, or None."""
    with _lock:
        resources = [serving.resource for serving in _serving.values()]
    for resource in resources:
        while resource is not None:
            if isinstance(resource, mr.LoggingResourceAdaptor):
                return await offload(_pack, resource)  # type: ignore[no-any-return]
            resource = getattr(resource, "upstream_mr", None)
    return None


def _pack(logger: mr.LoggingResourceAdaptor) -> tuple[str, bytes]:
    """Return the name of a log and its whole rows so far, compressed."""
    logger.flush()
    path = logger.get_file_name()
    with open(path, "rb") as file:
        content = file.read()
    return os.path.basename(path), gzip.compress(content[: content.rfind(b"\n") + 1], 1)


# --- dask worker --preload tarn.dask ---


async def _set_up(server: Any, **options: Any) -> None:
    """Give a worker the plugin; a nanny, a scheduler or a client gets the serializers alone."""
    if isinstance(server, distributed.Worker):
        await server.plugin_add(TarnPlugin(**options), catch_errors=False)


def _checked(context: click.Context, parameter: Any, value: Any) -> Any:
    """Check an option of the command line, for click."""
    try:
        _dask_options.complete({parameter.name: value})
    except (TypeError, ValueError) as error:
        raise click.BadParameter(str(error)) from None
    return value


dask_setup = click.Command(
    "tarn.dask",
    callback=_set_up,
    params=[
        click.Option([option.flag, name], default=None, help=option.help, callback=_checked)
        for name, option in _dask_options.OPTIONS.items()
    ],
    help="The pool of the worker; options that are not given come from Dask's configuration.",
)
