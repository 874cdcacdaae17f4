"""Dask's workers on one GPU: RMM's buffers from the pool, and the time of a buffer between workers.

    TARN_DRIVER= python tests/gpu/dask_transfer.py [BYTES...]

It needs distributed. For each size it prints the time of a buffer by a handle and through the host,
and how many times as fast the handle is. A task receives up to 16 buffers, and its own time is part
of theirs. It exits with 1 if bytes are wrong.
"""

import statistics
import sys
import time

import tarn
import tarn.dask
from distributed import Client, LocalCluster, wait

SIZES = [1 << 16, 1 << 18, 1 << 20, 1 << 24, 1 << 28]
ROUNDS = 9
TOGETHER = 16, 1 << 28  # buffers and bytes of a task


def make(size, value):
    """Return a buffer with equal bytes, in a worker."""
    return tarn.DeviceBuffer.to_device(bytes([value]) * size)


def are_whole(buffers, size, value):
    """Return whether buffers that came from another worker are right."""
    return all(buffer.tobytes() == bytes([value]) * size for buffer in buffers)


def arrive(buffers):
    """Return the time at which buffers are in this worker, on the clock of the machine."""
    return time.monotonic()


def set_least(size):
    """Send buffers from this size on by handles."""
    from tarn import _dask_transfer

    _dask_transfer._IPC_MIN_BYTES = size


def requests():
    """Return the number of handles that others have opened, and the failures of this worker."""
    import tarn.ipc
    from tarn import _dask_transfer

    return tarn.ipc.counts()["requests"], _dask_transfer._failures


def bytes_of_rmm(size):
    """Return what Tarn's pool counts of a buffer of RMM; None without RMM."""
    try:
        import rmm
    except ImportError:
        return None
    pool = tarn.mr.get_current_device_resource()
    before = pool.statistics().live
    buffer = rmm.DeviceBuffer(size=size)
    return pool.statistics().live - before if buffer.size else 0


def seconds(client, first, second, size):
    """Return the median time of a buffer's transfer, without the task that makes it."""
    count = max(1, min(TOGETHER[0], TOGETHER[1] // size))
    taken = []
    for value in range(ROUNDS):
        made = [client.submit(make, size, value, workers=[first], pure=False) for _ in range(count)]
        wait(made)
        start = time.monotonic()
        arrived = client.submit(arrive, made, workers=[second], pure=False)
        taken.append((arrived.result() - start) / count)
        right = client.submit(are_whole, made, size, value, workers=[second], pure=False)
        if not right.result():
            raise SystemExit(f"{size} bytes arrived wrong")
    return statistics.median(taken)


def main(sizes):
    """Print a line for each size."""
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        client.register_plugin(tarn.dask.TarnPlugin(rmm_pool_size="2GiB"))
        first, second = sorted(client.scheduler_info()["workers"])
        print("RMM's MiB in Tarn's pool:", client.run(bytes_of_rmm, 1 << 20))
        for size in sizes:
            client.run(set_least, 0)
            handle = seconds(client, first, second, size)
            client.run(set_least, 1 << 62)
            host = seconds(client, first, second, size)
            print(f"{size:>11} bytes: handle {handle * 1e6:9.0f} us, host {host * 1e6:9.0f} us, "
                  f"{host / handle:.2f} times")  # fmt: skip
        print("handles opened, failures:", client.run(requests))
        print(
            "metrics:", [w["metrics"]["rmm"] for w in client.scheduler_info()["workers"].values()]
        )


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or SIZES)
