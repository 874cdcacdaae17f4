"""Two Dask workers: RMM's buffers from the pool, and the time of a buffer between the workers.

    TARN_DRIVER= python tests/gpu/dask_transfer.py [--gpus 2] [BYTES...]

It needs distributed. With two GPUs each worker has a device of its own, as under dask-cuda. For each
size it prints the time of a buffer by a handle and through the host, of an array of CuPy as Dask
sends it, and of that array in a pickle, if CuPy is installed. A task receives up to 16 buffers, and
its own time is part of theirs. It exits with 1 if bytes are wrong, or no handle was opened.
"""

import argparse
import importlib.util
import pickle
import statistics
import time

import tarn
import tarn.dask
from distributed import Client, LocalCluster, Nanny, Scheduler, SpecCluster, wait

SIZES = [1 << 16, 1 << 18, 1 << 20, 1 << 24, 1 << 28]
ROUNDS = 9
TOGETHER = 16, 1 << 28  # buffers and bytes of a task


def make(size, value):
    """Return a buffer with equal bytes, in a worker."""
    return tarn.DeviceBuffer.to_device(bytes([value]) * size)


def make_array(size, value):
    """Return an array of CuPy with equal bytes, in a worker."""
    import cupy

    return cupy.full(size, value, "u1")


def make_pickle(size, value):
    """Return the pickle of an array of CuPy, which has its bytes in host memory."""
    return pickle.dumps(make_array(size, value), protocol=5)


def are_whole(buffers, size, value):
    """Return whether buffers that came from another worker are right."""
    return all(buffer.tobytes() == bytes([value]) * size for buffer in buffers)


def arrive(buffers):
    """Return the time at which buffers are in this worker's device, on the clock of the machine."""
    arrays = [pickle.loads(each) for each in buffers if isinstance(each, bytes)]
    if arrays:
        arrays[0].device.synchronize()
    return time.monotonic()


def are_whole_arrays(buffers, size, value):
    """Return whether arrays, or pickles of them, are right."""
    arrays = [pickle.loads(each) if isinstance(each, bytes) else each for each in buffers]
    return all(array.size == size and bool((array == value).all()) for array in arrays)


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


def seconds(client, first, second, size, make=make, are_whole=are_whole):
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
            raise SystemExit(f"{size} bytes of {make.__name__} arrived wrong")
    return statistics.median(taken)


def start(gpus):
    """Return a cluster of two workers, on one device or each on one of two."""
    if gpus == 1:
        return LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0")
    workers = {
        name: {
            "cls": Nanny,
            "options": {"nthreads": 1, "env": {"CUDA_VISIBLE_DEVICES": devices}},
        }
        for name, devices in enumerate(("0,1", "1,0"))
    }
    scheduler = {"cls": Scheduler, "options": {"dashboard_address": ":0"}}
    return SpecCluster(workers=workers, scheduler=scheduler)


def main(gpus, sizes):
    """Print a line for each size."""
    with start(gpus) as cluster, Client(cluster) as client:
        client.wait_for_workers(2)
        client.register_plugin(tarn.dask.TarnPlugin(rmm_pool_size="2GiB"))
        first, second = sorted(client.scheduler_info()["workers"])
        print("RMM's MiB in Tarn's pool:", client.run(bytes_of_rmm, 1 << 20))
        for size in sizes:
            client.run(set_least, 0)
            handle = seconds(client, first, second, size)
            client.run(set_least, 1 << 62)
            host = seconds(client, first, second, size)
            line = f"{size:>11} bytes: handle {handle * 1e6:9.0f} us, host {host * 1e6:9.0f} us"
            if importlib.util.find_spec("cupy"):
                array = seconds(client, first, second, size, make_array, are_whole_arrays)
                pickled = seconds(client, first, second, size, make_pickle, are_whole_arrays)
                line += f", CuPy {array * 1e6:9.0f} us, its pickle {pickled * 1e6:9.0f} us"
            print(f"{line}, {host / handle:.2f} times", flush=True)
        counts = client.run(requests)
        print("handles opened, failures:", counts)
        print(
            "metrics:", [w["metrics"]["rmm"] for w in client.scheduler_info()["workers"].values()]
        )
        if not any(opened for opened, _ in counts.values()) or any(f for _, f in counts.values()):
            raise SystemExit("no handle was opened, or one failed")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, choices=(1, 2), default=1)
    parser.add_argument("bytes", type=int, nargs="*", default=SIZES)
    given = parser.parse_args()
    main(given.gpus, given.bytes)
