"""PyTorch's functions for statistics and snapshots, over Tarn's numbers.

PyTorch rejects these calls under a pluggable allocator. All of its public functions end in a few
functions of `torch._C`, which install() replaces:

- counts of allocations: those of libtarn for PyTorch's own tensors
- reserved memory: that of the pool, which may serve other libraries as well
"""

from __future__ import annotations

from typing import Any

from tarn import _tarn

_SIZES = ("all", "small_pool", "large_pool")


def install(torch: Any) -> None:
    """Replace the functions of `torch._C`; it keeps its own for what Tarn does not have."""
    functions: dict[str, Any] = {
        "_cuda_memoryStats": memory_stats,
        "_cuda_resetPeakMemoryStats": reset_peaks,
        "_cuda_resetAccumulatedMemoryStats": reset_totals,
        "_cuda_memorySnapshot": memory_snapshot,
        "_cuda_getMemoryFraction": memory_fraction,
        # torch.accelerator asks PyTorch's own allocator, whichever is in use
        "_accelerator_isAllocatorInitialized": torch.cuda.is_initialized,
        "_accelerator_emptyCache": torch.cuda.empty_cache,
        "_accelerator_getDeviceStats": memory_stats,
        "_accelerator_resetPeakStats": reset_peaks,
        "_accelerator_resetAccumulatedStats": reset_totals,
    }
    for name, function in functions.items():
        if hasattr(torch._C, name):
            setattr(torch._C, name, function)


def _pool_of(device: int) -> Any:
    """Return the pool that serves PyTorch on a device, also beneath adaptors; None: no pool."""
    from tarn import mr

    resource: Any = _tarn._torch_resource(device)
    while resource is not None and not isinstance(resource, mr.PoolMemoryResource):
        resource = getattr(resource, "upstream_mr", None)
    return resource


def _count(current: int, peak: int, allocated: int, freed: int) -> dict[str, int]:
    return {"current": current, "peak": peak, "allocated": allocated, "freed": freed}


def _large(count: dict[str, int]) -> dict[str, dict[str, int]]:
    """Return a count that is not divided by size: all of it is in the large pool."""
    return {"all": count, "small_pool": _count(0, 0, 0, 0), "large_pool": dict(count)}


def memory_stats(device: int) -> dict[str, Any]:
    """Return the dict of torch.cuda.memory_stats_as_nested_dict()."""
    stats = _tarn._torch_statistics(device)
    pool = _pool_of(device)
    active = stats["active_bytes"]["all"]
    reserved, growths = _count(**active), _count(0, 0, 0, 0)
    if pool is not None:
        found = pool.statistics()
        reserved = _count(found.reserved, found.recent_peak_reserved, found.reserved, 0)
        number = max(found.growths - found.shrinks, 0)
        growths = _count(number, number, found.growths, found.shrinks)
    unused = max(reserved["current"] - active["current"], 0)
    return {
        **stats,
        "segment": _large(growths),
        "reserved_bytes": _large(reserved),
        "inactive_split": _large(_count(0, 0, 0, 0)),
        "inactive_split_bytes": _large(_count(unused, unused, unused, 0)),
        "oversize_allocations": _count(0, 0, 0, 0),
        "oversize_segments": _count(0, 0, 0, 0),
        "max_split_size": -1,
        "num_sync_all_streams": 0,
        "num_oom_rejections": 0,  # a key since PyTorch 2.15
        "num_device_alloc": growths["allocated"],
        "num_device_free": growths["freed"],
    }


def reset_peaks(device: int) -> None:
    """Do the work of torch.cuda.reset_peak_memory_stats()."""
    _tarn._torch_reset_peaks(device)


def reset_totals(device: int) -> None:
    """Do the work of torch.cuda.reset_accumulated_memory_stats()."""
    _tarn._torch_reset_totals(device)


def memory_fraction(device: int) -> float:
    """Return the part of the device's memory that the pool's maximum is; 1.0: no maximum."""
    pool = _pool_of(device)
    maximum = None if pool is None else pool.statistics().maximum
    total = _tarn.device_info(device).total_bytes
    return 1.0 if maximum is None else min(maximum / total, 1.0)


# --- snapshots ---


def memory_snapshot(selected: Any = None) -> dict[str, Any]:
    """Return the dict of torch.cuda.memory._snapshot(); `selected` is the id of a MemPool."""
    segments: list[dict[str, Any]] = []
    is_all = selected is None or tuple(selected[:2]) == (0, 0)
    devices = range(_tarn.driver_info().device_count) if is_all else range(0)
    for device in devices:
        pool = _pool_of(device)
        if pool is not None:
            segments.extend(_segments_of(device, pool.snapshot()))
    return {
        "segments": segments,
        "device_traces": [[] for _ in devices],
        "allocator_settings": {},
        "external_annotations": [],
        "host_segments": [],  # this key and the next: since PyTorch 2.15
        "host_traces": [],
    }


def _segments_of(device: int, blocks: list[Any]) -> list[dict[str, Any]]:
    """Return the blocks of a pool as segments of PyTorch; unmapped addresses end a segment."""
    segments: list[dict[str, Any]] = []
    end = None  # (address, segment) after the last block
    for block in blocks:
        if block.state == "unmapped":
            continue
        if end != (block.address, block.segment):
            segments.append(_segment(device, block.address))
        end = (block.address + block.bytes, block.segment)
        _add_block(segments[-1], block)
    return segments


def _segment(device: int, address: int) -> dict[str, Any]:
    return {
        "device": device,
        "address": address,
        "total_size": 0,
        "allocated_size": 0,
        "active_size": 0,
        "requested_size": 0,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": True,
        "frames": [],
        "blocks": [],
    }


def _add_block(segment: dict[str, Any], block: Any) -> None:
    """Add a block at the end of a segment."""
    is_live = block.state == "live"
    segment["total_size"] += block.bytes
    segment["allocated_size"] += block.bytes if is_live else 0
    segment["active_size"] += block.bytes if is_live else 0
    segment["requested_size"] += block.requested_bytes
    segment["blocks"].append(
        {
            "address": block.address,
            "size": block.bytes,
            "requested_size": block.requested_bytes,
            "state": "active_allocated" if is_live else "inactive",
            "frames": [],
        }
    )
