"""All-reduce of PyTorch on memory of Tarn: is it registered, is the sum right, how long does it take?

    python tests/gpu/nccl_torch.py [--bytes N] [--rounds N]

Each of two GPUs has a process of torch.distributed with NCCL. Each kind of memory is a
torch.cuda.MemPool, which the process group registers with register_mem_pool(). All kinds run in
turns. The table has a line for each kind. Exit code 1: a sum is wrong, or memory of a kind that has
to work was rejected.

NCCL_NVLS_ENABLE=0 has to be set: NVLink multicast stays off.
"""

from __future__ import annotations

import argparse
import datetime
import os
import socket
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

MIB = 1 << 20
HAVE_TO_WORK = ("PyTorch", "PyTorch, MemPool", "exportable", "pool over exportable")


def kinds(torch: Any, tarn: Any, rank: int) -> dict[str, Callable[[], Any]]:
    """Return the functions that make a pool for each kind of memory; None is no pool."""
    mr = tarn.mr

    def exportable() -> Any:
        return mr.ExportableMemoryResource(device=rank)

    return {
        "PyTorch": lambda: None,
        "PyTorch, MemPool": torch.cuda.MemPool,
        "exportable": lambda: tarn.torch.MemPool(exportable()),
        "pool over exportable": lambda: tarn.torch.MemPool(mr.PoolMemoryResource(exportable())),
        "pool, moves=never": lambda: tarn.torch.MemPool(
            mr.PoolMemoryResource(device=rank, moves="never")
        ),
        "pool": lambda: tarn.torch.MemPool(mr.PoolMemoryResource(device=rank)),
    }


class Memory:
    """A tensor of one kind of memory, and what the process group said of its pool."""

    def __init__(self, torch: Any, group: Any, pool: Any, size: int) -> None:
        self.pool, self.registered, self.times = pool, "no pool", []
        if pool is None:
            self.tensor = torch.empty(size // 4, device="cuda")
            return
        with torch.cuda.use_mem_pool(pool):
            self.tensor = torch.empty(size // 4, device="cuda")
        try:
            group.register_mem_pool(pool)
            self.registered = "yes"
        except Exception as error:  # a line of the table
            self.registered = f"{type(error).__name__}: {str(error).splitlines()[0]}"


def is_right(torch: Any, tensor: Any, rank: int, ranks: int) -> bool:
    """Return True if the sum over the ranks of known values is right in all elements."""
    values = torch.arange(tensor.numel(), device="cuda") % 1000
    tensor.copy_(values + rank)
    torch.distributed.all_reduce(tensor)
    return bool((tensor == ranks * values + sum(range(ranks))).all())


def time_of(torch: Any, tensor: Any, rounds: int) -> float:
    """Return the median time of an all-reduce in microseconds."""
    times = []
    for _ in range(rounds + 3):
        tensor.zero_()  # sums grow beyond float32 otherwise
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.distributed.barrier()
        begin.record()
        torch.distributed.all_reduce(tensor)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000)
    return statistics.median(times[3:])


def run(rank: int, ranks: int, port: int, arguments: argparse.Namespace) -> None:
    """Print the table, as one rank."""
    import tarn
    import tarn.torch
    import torch

    torch.cuda.set_device(rank)
    torch.distributed.init_process_group(
        "nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks,
        device_id=torch.device("cuda", rank), timeout=datetime.timedelta(seconds=30),
    )  # fmt: skip
    group = torch.distributed.group.WORLD._get_backend(torch.device("cuda"))
    memories = {}
    for name, make in kinds(torch, tarn, rank).items():
        memories[name] = Memory(torch, group, make(), arguments.bytes)
    right = {name: is_right(torch, memory.tensor, rank, ranks) for name, memory in memories.items()}
    for _ in range(arguments.turns):
        for memory in memories.values():
            memory.times.append(time_of(torch, memory.tensor, arguments.rounds))
    bad = 0
    for name, memory in memories.items():
        bad += not right[name] or (name in HAVE_TO_WORK[1:] and memory.registered != "yes")
        if rank == 0:
            best, median = min(memory.times), statistics.median(memory.times)
            print(
                f"{name:24}{'right' if right[name] else 'WRONG':>7}{median:10.1f}{best:10.1f} us  "
                f"{memory.registered}"
            )
    for memory in memories.values():
        if memory.registered == "yes":
            group.deregister_mem_pool(memory.pool)
    torch.distributed.destroy_process_group()
    sys.exit(1 if bad else 0)


def main() -> int:
    """Start a process for each of two GPUs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=64 * MIB)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--turns", type=int, default=5)
    arguments = parser.parse_args()
    if os.environ.get("NCCL_NVLS_ENABLE") != "0":
        print("nccl_torch.py: set NCCL_NVLS_ENABLE=0", file=sys.stderr)
        return 2
    import torch

    ranks = min(torch.cuda.device_count(), 2)
    version = ".".join(map(str, torch.cuda.nccl.version()))
    print(f"PyTorch {torch.__version__}, NCCL {version}, {ranks} ranks, {arguments.bytes} bytes")
    print(f"{'memory':24}{'sum':>7}{'median':>10}{'best':>10}     registered", flush=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = torch.multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=run, args=(rank, ranks, port, arguments)) for rank in range(ranks)
    ]
    for process in processes:
        process.start()
    ends = time.monotonic() + 50
    for process in processes:
        process.join(max(0.0, ends - time.monotonic()))
        if process.is_alive():
            process.kill()
            process.join()
    return int(any(process.exitcode for process in processes))


if __name__ == "__main__":
    sys.exit(main())
