"""Memory of Tarn under NCCL: is it registered, is the all-reduce right, and how long does it take?

    python tests/gpu/nccl.py [--bytes 67108864] [--rounds 20] [--kind NAME]

Each kind of memory has a process of its own, because after an illegal access nothing else works
in a process. It has communicators of all GPUs, at most two. The memory is registered with
ncclCommRegister() and, where the library has it, with ncclCommWindowRegister(). An all-reduce of
float32 runs in it. The table has a line for each kind; a line ends where its process failed.
Exit code 1: memory of a kind that has to work was rejected or failed, or a sum is wrong.

NCCL_NVLS_ENABLE=0 has to be set: NVLink multicast stays off.
"""

from __future__ import annotations

import argparse
import ctypes
import dataclasses
import glob
import os
import pathlib
import statistics
import subprocess
import sys
from collections.abc import Callable
from typing import Any

FLOAT, SUM, SYMMETRIC = 7, 0, 1  # ncclFloat32, ncclSum, NCCL_WIN_COLL_SYMMETRIC
LIMIT = 40  # seconds for one kind
WRONG, REJECTED, CRASHED = 1, 3, 4  # exit codes of the process of a kind


class Nccl:
    """The calls of libnccl that the table needs, with their argument types."""

    CALLS = {
        "ncclGetVersion": [ctypes.c_void_p],
        "ncclCommInitAll": [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p],
        "ncclCommDestroy": [ctypes.c_void_p],
        "ncclGroupStart": [],
        "ncclGroupEnd": [],
        "ncclAllReduce": [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
            ctypes.c_void_p, ctypes.c_void_p,
        ],
        "ncclMemAlloc": [ctypes.c_void_p, ctypes.c_size_t],
        "ncclMemFree": [ctypes.c_void_p],
        "ncclCommRegister": [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p,
        ],
        "ncclCommDeregister": [ctypes.c_void_p, ctypes.c_void_p],
        "ncclCommWindowRegister": [
            ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_int,
        ],
        "ncclCommWindowDeregister": [ctypes.c_void_p, ctypes.c_void_p],
    }  # fmt: skip

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.ncclGetErrorString.restype = ctypes.c_char_p
        for name, arguments in self.CALLS.items():
            if self.has(name):
                getattr(self._library, name).argtypes = arguments

    def has(self, name: str) -> bool:
        """Return True if this version has the function."""
        return hasattr(self._library, name)

    def try_call(self, name: str, *arguments: Any) -> str:
        """Call a function; return the error text, "" for none."""
        result = getattr(self._library, name)(*arguments)
        return "" if result == 0 else self._library.ncclGetErrorString(result).decode()

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that has to work."""
        error = self.try_call(name, *arguments)
        if error:
            raise RuntimeError(f"{name}: {error}")

    def version(self) -> str:
        """Return the version as text."""
        number = ctypes.c_int()
        self.call("ncclGetVersion", ctypes.byref(number))
        return f"{number.value // 10000}.{number.value // 100 % 100}.{number.value % 100}"


def find_library() -> str:
    """Return the path of the libnccl that PyTorch uses."""
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            if "libnccl.so" in line:
                return line.split()[-1]
    for folder in sys.path:
        for path in glob.glob(str(pathlib.Path(folder) / "nvidia/nccl/lib/libnccl.so.2")):
            return path
    return "libnccl.so.2"


@dataclasses.dataclass
class Block:
    """Memory of one device; `owner` keeps it."""

    address: int
    size: int
    owner: Any

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory as float32."""
        return {
            "shape": (self.size // 4,),
            "typestr": "<f4",
            "data": (self.address, False),
            "version": 3,
        }


class Owned:
    """Memory of ncclMemAlloc()."""

    def __init__(self, nccl: Nccl, size: int) -> None:
        self._nccl = nccl
        self.address = ctypes.c_void_p()
        nccl.call("ncclMemAlloc", ctypes.byref(self.address), size)

    def __del__(self) -> None:
        self._nccl.call("ncclMemFree", self.address)


Maker = Callable[[int, int], Block]


def makers(nccl: Nccl, torch: Any, tarn: Any) -> dict[str, tuple[Maker, bool]]:
    """Return the kinds of memory: a function of device and size, and whether it has to work."""
    resources: dict[tuple[str, int], Any] = {}

    def of_torch(device: int, size: int) -> Block:
        tensor = torch.empty(size // 4, dtype=torch.float32, device=f"cuda:{device}")
        return Block(tensor.data_ptr(), size, tensor)

    def of_nccl(device: int, size: int) -> Block:
        owned = Owned(nccl, size)
        return Block(owned.address.value or 0, size, owned)

    def of_tarn(name: str, make: Callable[[int], Any]) -> Maker:
        def allocate(device: int, size: int) -> Block:
            if (name, device) not in resources:
                resources[name, device] = make(device)
            buffer = tarn.DeviceBuffer(size=size, mr=resources[name, device])
            return Block(buffer.ptr, size, buffer)

        return allocate

    mr = tarn.mr
    exportable = lambda device: mr.ExportableMemoryResource(device=device)  # noqa: E731
    return {
        "torch": (of_torch, True),
        "ncclMemAlloc": (of_nccl, True),
        "tarn exportable": (of_tarn("exportable", exportable), True),
        "tarn pool over exportable": (
            of_tarn("over", lambda device: mr.PoolMemoryResource(exportable(device))),
            True,
        ),
        "tarn pool, moves=never": (
            of_tarn("never", lambda d: mr.PoolMemoryResource(device=d, moves="never")),
            False,
        ),
        "tarn pool": (of_tarn("pool", lambda d: mr.PoolMemoryResource(device=d)), False),
    }


class Ranks:
    """A communicator of all devices in this process, with a stream for each."""

    def __init__(self, nccl: Nccl, torch: Any, count: int) -> None:
        self.nccl, self.torch, self.count = nccl, torch, count
        self.communicators = (ctypes.c_void_p * count)()
        devices = (ctypes.c_int * count)(*range(count))
        nccl.call("ncclCommInitAll", self.communicators, count, devices)
        self.streams = [torch.cuda.Stream(device) for device in range(count)]

    def each(self, name: str, arguments: Callable[[int], tuple[Any, ...]]) -> str:
        """Call a function for each rank, in a group; return the first error text."""
        errors = []
        self.nccl.call("ncclGroupStart")
        for rank in range(self.count):
            self.torch.cuda.set_device(rank)
            errors.append(self.nccl.try_call(name, self.communicators[rank], *arguments(rank)))
        errors.append(self.nccl.try_call("ncclGroupEnd"))
        return next(filter(None, errors), "")

    def register(self, name: str, blocks: list[Block], *more: Any) -> tuple[str, list[Any]]:
        """Register each rank's block; return the error text, and the handles."""
        handles = [ctypes.c_void_p() for _ in blocks]
        if not self.nccl.has(name):
            return "missing", []
        error = self.each(
            name,
            lambda rank: (
                blocks[rank].address, blocks[rank].size, ctypes.byref(handles[rank]), *more,
            ),
        )  # fmt: skip
        return error, handles if not error else []

    def unregister(self, name: str, handles: list[Any]) -> None:
        """Undo register(); a handle may be NULL if NCCL did not need the registration."""
        for rank, handle in enumerate(handles):
            if handle:
                self.torch.cuda.set_device(rank)
                self.nccl.call(name, self.communicators[rank], handle)

    def reduce(self, blocks: list[Block]) -> None:
        """Queue an all-reduce in place."""
        self.nccl.call("ncclGroupStart")
        for rank, block in enumerate(blocks):
            self.nccl.call(
                "ncclAllReduce", block.address, block.address, block.size // 4, FLOAT, SUM,
                self.communicators[rank], self.streams[rank].cuda_stream,
            )  # fmt: skip
        self.nccl.call("ncclGroupEnd")

    def end(self) -> None:
        """Destroy the communicators."""
        for communicator in self.communicators:
            self.nccl.call("ncclCommDestroy", communicator)

    def synchronize(self) -> None:
        """Wait for all devices."""
        for device in range(self.count):
            self.torch.cuda.synchronize(device)

    def check(self, blocks: list[Block]) -> bool:
        """Return True if the sum over the ranks of known values is right in all elements."""
        tensors = [
            self.torch.as_tensor(block, device=f"cuda:{rank}") for rank, block in enumerate(blocks)
        ]
        for rank, tensor in enumerate(tensors):
            tensor.copy_(self.torch.arange(tensor.numel(), device=tensor.device) % 1000 + rank)
        self.synchronize()
        self.reduce(blocks)
        self.synchronize()
        shift = sum(range(self.count))
        return all(
            bool(
                (
                    tensor
                    == self.count * (self.torch.arange(tensor.numel(), device=tensor.device) % 1000)
                    + shift
                ).all()
            )
            for tensor in tensors
        )

    def time(self, blocks: list[Block], rounds: int) -> float:
        """Return the median time of an all-reduce in microseconds, on the first device."""
        times = []
        for _ in range(rounds + 3):
            self.torch.cuda.set_device(0)
            begin, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record(self.streams[0])
            self.reduce(blocks)
            self.torch.cuda.set_device(0)
            end.record(self.streams[0])
            self.synchronize()
            times.append(begin.elapsed_time(end) * 1000)
        return statistics.median(times[3:])


def measure(nccl: Nccl, torch: Any, make: Maker, size: int, rounds: int) -> int:
    """Print the figures of one kind of memory; return 0, WRONG or REJECTED."""
    torch.empty(1, device="cuda:0")  # the primary context
    ranks = Ranks(nccl, torch, min(torch.cuda.device_count(), 2))
    blocks = []
    for device in range(ranks.count):
        torch.cuda.set_device(device)
        blocks.append(make(device, size))
    print(f"{ranks.time(blocks, rounds):9.1f}", end="", flush=True)
    errors, sums = [], []
    for call, undo, more in (
        ("ncclCommRegister", "ncclCommDeregister", ()),
        ("ncclCommWindowRegister", "ncclCommWindowDeregister", (SYMMETRIC,)),
    ):
        error, handles = ranks.register(call, blocks, *more)
        errors.append(error)
        print(f"{error or 'yes':>14.13}", end="", flush=True)
        sums.append(ranks.check(blocks))
        time = ranks.time(blocks, rounds)
        print(f"{time:9.1f}{'right' if sums[-1] else 'WRONG':>7}", end="", flush=True)
        ranks.unregister(undo, handles)
    ranks.end()
    print(flush=True)
    if not all(sums):
        return WRONG
    return REJECTED if errors[0] else 0  # a window may be refused


def run_kind(name: str, arguments: argparse.Namespace) -> int:
    """Run one kind in a process of its own, which continues the line; return its exit code."""
    print(f"{name:27}", end="", flush=True)
    command = [sys.executable, __file__, "--kind", name]
    command += ["--bytes", str(arguments.bytes), "--rounds", str(arguments.rounds)]
    environment = os.environ | {"NCCL_DEBUG_FILE": "/dev/stderr"}
    try:
        done = subprocess.run(
            command, env=environment, stderr=subprocess.PIPE, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        print(f"  no end in {LIMIT} s", flush=True)
        return CRASHED
    if done.returncode not in (0, WRONG, REJECTED):
        lines = [line for line in done.stderr.splitlines() if "Error" in line or "error" in line]
        print(f"  exit {done.returncode}: {(lines or ['no message'])[0]:.90}", flush=True)
    return done.returncode


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, default=64 << 20)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--kind", help="the kind that this process measures")
    arguments = parser.parse_args()
    if os.environ.get("NCCL_NVLS_ENABLE") != "0":
        print("nccl.py: set NCCL_NVLS_ENABLE=0", file=sys.stderr)
        return 2
    import tarn
    import torch

    nccl = Nccl(find_library())
    kinds = makers(nccl, torch, tarn)
    if arguments.kind:
        try:
            make, _ = kinds[arguments.kind]
            return measure(nccl, torch, make, arguments.bytes, arguments.rounds)
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(CRASHED)  # the destructors would fail in the same way
    count = min(torch.cuda.device_count(), 2)
    print(f"NCCL {nccl.version()}, {count} ranks, {arguments.bytes} bytes, float32 all-reduce, us")
    print(f"{'memory':27}{'plain':>9}{'register':>14}{'time':>9}{'sum':>7}", end="")
    print(f"{'window':>14}{'time':>9}{'sum':>7}")
    failed = False
    for name, (_, has_to_work) in kinds.items():
        code = run_kind(name, arguments)
        failed |= code == WRONG or (code != 0 and has_to_work)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
