"""All figures of a process about GPU memory: as a dict, as OpenMetrics text, for other processes.

::

    json.dumps(tarn.metrics.collect())

The Dask plugin sends it. A program can give it to any other collector. After listen(), the commands
`tarn top` and `tarn metrics` of the same user read it.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from tarn import _frameworks, _resources, _tarn, mr
from tarn._metrics_socket import listen, processes, read
from tarn._openmetrics import text as openmetrics
from tarn._pool import live_pools

__all__ = ["collect", "listen", "openmetrics", "processes", "read"]

_SITES = 20  # the largest, of each tracker


def collect() -> dict[str, Any]:
    """Return the figures of this process.

    The call opens no driver and uses no device that the process has not used. It can be called from
    any thread, at any time.

    Returns
    -------
    dict
        Numbers, strings, and lists and dicts of them, which `json` can write. Bytes, unless the
        name says otherwise:

        - ``pid``, ``command``, ``version``: of the process, and of Tarn.
        - ``time``: seconds of a monotonic clock, so that two calls give rates.
        - ``frameworks``: their states, as tarn.use() returns them.
        - ``devices``: a dict for each device in use: its number ``device``, ``free`` and ``total``
          as the driver reports them (None if it does not), and the class of its current
          ``resource``.
        - ``pools``: a dict for each pool that a Python object has: its ``device``, its class
          ``resource``, whether it ``is_current``, and the members of tarn.mr.PoolStatistics.
        - ``limits``: a dict for each LimitingResourceAdaptor of a current resource: its ``device``,
          ``allocated`` and ``limit``.
        - ``counts``: a dict for each StatisticsResourceAdaptor of a current resource: its ``device``
          and the members of tarn.mr.Statistics.
        - ``trackers``: a dict for each TrackingResourceAdaptor of a current resource: its ``device``,
          the live ``bytes`` and ``blocks``, and ``sites``. These are the 20 sites with the most
          live bytes, with their ``location``, ``bytes`` and ``blocks``.
        - ``deferred_frees``: the members of tarn.DeferredFrees.
    """
    return _collect(with_trackers=True)


def _collect(with_trackers: bool) -> dict[str, Any]:
    """Return what collect() does; ``trackers`` is empty unless they are requested.

    The sums of a tracker take longer than all other figures together.
    """
    pools = live_pools()
    devices = sorted({pool.device for pool in pools}.union(_resources.used_devices()))
    chains = {device: _chain_of(device) for device in devices}
    return {
        "pid": os.getpid(),
        "command": " ".join(sys.orig_argv),
        "version": _tarn.__version__,
        "time": time.monotonic(),
        "frameworks": _frameworks.states(),
        "devices": [_device(device, chains[device]) for device in devices],
        "pools": [_pool(pool, chains[pool.device]) for pool in pools],
        "limits": _figures_of(chains, mr.LimitingResourceAdaptor, _limit),
        "counts": _figures_of(chains, mr.StatisticsResourceAdaptor, _counts),
        "trackers": (
            _figures_of(chains, mr.TrackingResourceAdaptor, _sites) if with_trackers else []
        ),
        "deferred_frees": _named(_tarn.deferred_frees()),
    }


def _chain_of(device: int) -> list[Any]:
    """Return the current resource of a device and all resources beneath."""
    resource: Any = _tarn.get_per_device_resource(device)
    chain = []
    while resource is not None:
        chain.append(resource)
        resource = getattr(resource, "upstream_mr", None)
    return chain


def _device(device: int, chain: list[Any]) -> dict[str, Any]:
    """Return the figures of a device."""
    free = total = None
    try:
        info = _tarn.device_info(device)
        free, total = info.free_bytes, info.total_bytes
    except _tarn.TarnError:  # in a forked child, or after an error of the device
        pass
    resource = type(chain[0]).__name__
    return {"device": device, "free": free, "total": total, "resource": resource}


def _pool(pool: Any, chain: list[Any]) -> dict[str, Any]:
    """Return the figures of a pool."""
    figures = pool.statistics()._asdict()
    head = {"device": pool.device, "resource": type(pool).__name__, "is_current": pool in chain}
    return {**head, **figures}


def _figures_of(chains: dict[int, list[Any]], kind: type, read: Any) -> list[dict[str, Any]]:
    """Return the figures of all resources of a class."""
    return [
        {"device": device, **read(resource)}
        for device, chain in chains.items()
        for resource in chain
        if isinstance(resource, kind)
    ]


def _limit(resource: Any) -> dict[str, Any]:
    """Return the figures of a LimitingResourceAdaptor."""
    return {
        "allocated": resource.get_allocated_bytes(),
        "limit": resource.get_allocation_limit(),
    }


def _counts(resource: Any) -> dict[str, Any]:
    """Return the figures of a StatisticsResourceAdaptor."""
    return _named(resource.allocation_counts)


def _sites(tracker: Any) -> dict[str, Any]:
    """Return the live memory of a TrackingResourceAdaptor, and its largest sites."""
    stacks = _tarn._tracker_stacks(tracker)
    sites: dict[str, list[int]] = {}
    for stack, nbytes, blocks in stacks:
        site = sites.setdefault(_location_of(stack), [0, 0])
        site[0] += nbytes
        site[1] += blocks
    largest = sorted(sites.items(), key=lambda item: (-item[1][0], item[0]))[:_SITES]
    return {
        "bytes": sum(nbytes for _, nbytes, _ in stacks),
        "blocks": sum(blocks for _, _, blocks in stacks),
        "sites": [
            {"location": location, "bytes": nbytes, "blocks": blocks}
            for location, (nbytes, blocks) in largest
        ],
    }


def _location_of(stack: int) -> str:
    """Return the innermost frame of a stack as text; frames of Tarn are not in stacks."""
    for function, file, line, offset, build_id in _tarn._stack_frames(stack):
        place = f"{file}:{line}" if build_id is None else f"{file}+{offset:#x}"
        return f"{place} {function}".rstrip()
    return "(unknown)"


def _named(numbers: Any) -> dict[str, Any]:
    """Return the members of a structseq as a dict."""
    names = (name for name in type(numbers).__match_args__)
    return dict(zip(names, numbers, strict=True))
