"""All figures of a process about GPU memory, as one dict.

::

    json.dumps(tarn.metrics.collect())

The Dask plugin sends it. A program can give it to any other collector.
"""

from __future__ import annotations

import os
from typing import Any

from tarn import _frameworks, _resources, _tarn, mr
from tarn._pool import live_pools

__all__ = ["collect"]


def collect() -> dict[str, Any]:
    """Return the figures of this process.

    The call opens no driver and uses no device that the process has not used. It can be called from
    any thread, at any time.

    Returns
    -------
    dict
        Numbers, strings, and lists and dicts of them, which `json` can write. Bytes, unless the
        name says otherwise:

        - ``pid``, ``version``: of the process, and of Tarn.
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
        - ``deferred_frees``: the members of tarn.DeferredFrees.
    """
    pools = live_pools()
    devices = sorted({pool.device for pool in pools}.union(_resources.used_devices()))
    chains = {device: _chain_of(device) for device in devices}
    return {
        "pid": os.getpid(),
        "version": _tarn.__version__,
        "frameworks": _frameworks.states(),
        "devices": [_device(device, chains[device]) for device in devices],
        "pools": [_pool(pool, chains[pool.device]) for pool in pools],
        "limits": _figures_of(chains, mr.LimitingResourceAdaptor, _limit),
        "counts": _figures_of(chains, mr.StatisticsResourceAdaptor, _counts),
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


def _named(numbers: Any) -> dict[str, Any]:
    """Return the members of a structseq as a dict."""
    names = (name for name in type(numbers).__match_args__)
    return dict(zip(names, numbers, strict=True))
