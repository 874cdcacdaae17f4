"""The blocks of a pool as a memory snapshot of PyTorch."""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Iterable
from typing import Any

from ._pool import PoolBlock

_Entry = dict[str, Any]


def _block_of(block: PoolBlock) -> _Entry:
    live = block.state == "live"
    return {
        "address": block.address,
        "size": block.bytes,
        "requested_size": block.requested_bytes,
        "state": "active_allocated" if live else "inactive",
        "frames": [],
    }


def _segment_of(blocks: list[PoolBlock], device: int) -> _Entry:
    """Return the segment of blocks that follow each other without a gap."""
    live = [block for block in blocks if block.state == "live"]
    captured = any(block.state == "captured" for block in blocks)
    return {
        "device": device,
        "address": blocks[0].address,
        "total_size": sum(block.bytes for block in blocks),
        "allocated_size": sum(block.bytes for block in live),
        "active_size": sum(block.bytes for block in live),
        "requested_size": sum(block.requested_bytes for block in live),
        "stream": 0,  # blocks of all streams share a segment
        "segment_type": "large",
        "segment_pool_id": (0, int(captured)),
        "is_expandable": True,
        "frames": [],
        "blocks": [_block_of(block) for block in blocks],
    }


def _runs(blocks: Iterable[PoolBlock]) -> list[list[PoolBlock]]:
    """Split the blocks where the pool has no memory, and where a segment ends."""
    runs: list[list[PoolBlock]] = []
    for before, block in itertools.pairwise([None, *blocks]):
        assert block is not None
        if block.state == "unmapped":
            continue
        follows = (
            before is not None
            and before.state != "unmapped"
            and before.segment == block.segment
            and before.address + before.bytes == block.address
        )
        if follows:
            runs[-1].append(block)
        else:
            runs.append([block])
    return runs


def write_snapshot(
    filename: str | os.PathLike[str], blocks: Iterable[PoolBlock], device: int
) -> None:
    """Write blocks, in the order of their addresses, to a file that PyTorch's viewer reads."""
    segments = [_segment_of(run, device) for run in _runs(blocks)]
    told = {"segments": segments, "device_traces": [[] for _ in range(device + 1)]}
    with open(filename, "wb") as file:
        pickle.dump(told, file, protocol=4)  # the viewer's reader knows no later protocol
