"""arrays.py -- a few hundred arrays on several streams, every result checked.

It uses memory as a numerical program does. Batches go from the host to the device and back on
streams of their own, and views are parts of arrays. Host and device share pinned, mapped and
managed arrays. On a GPU kernels work on them; the simulator runs none, so there only the copies are
checked.

Its only call of Tarn is the query whether kernels run. `tarn run`, or
NUMBA_CUDA_MEMORY_MANAGER=tarn.numba, puts its memory under Tarn.
"""

import numpy as np
import tarn
from numba import cuda

STREAMS = 4
BATCHES = 60
LONGEST = 40_000  # elements


@cuda.jit
def scale_and_add(x, y, factor):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i] * factor + 1.0


def exchange_batches(random, streams):
    """Copy from host to device to device to host, three arrays per batch, streams in turn."""
    under_way = []
    for batch in range(BATCHES):
        stream = streams[batch % len(streams)]
        host = random.random(int(random.integers(1, LONGEST)))
        source = cuda.to_device(host, stream=stream)
        copy = cuda.device_array_like(host, stream=stream)
        copy.copy_to_device(source, stream=stream)
        result = cuda.pinned_array(host.shape, host.dtype)
        copy.copy_to_host(result, stream=stream)
        under_way.append((host, result, source, copy, stream))
        if len(under_way) > 2 * len(streams):
            finish_batch(*under_way.pop(0))
    for batch in under_way:
        finish_batch(*batch)
    return 2 * BATCHES


def finish_batch(host, result, source, copy, stream):
    stream.synchronize()
    np.testing.assert_array_equal(result, host)


def use_views(random):
    """Use parts of an array, parts of parts, and columns, over one block."""
    table = random.random((64, 96))
    on_device = cuda.to_device(table)
    views = [on_device[i] for i in range(64)] + [on_device[8:40], on_device[8:40][4:12]]
    for i, row in enumerate(views[:64]):
        np.testing.assert_array_equal(row.copy_to_host(), table[i])
    np.testing.assert_array_equal(views[-1].copy_to_host(), table[12:20])
    del on_device
    np.testing.assert_array_equal(views[3].copy_to_host(), table[3])
    return 1


def share_with_host(random, streams):
    """Use pinned, mapped and managed arrays, and a NumPy array that is pinned for a while."""
    for i, stream in enumerate(streams * 5):
        count = 1000 + 500 * i
        values = random.random(count)
        pinned = cuda.pinned_array(count)
        mapped = cuda.mapped_array(count, stream=stream)
        managed = cuda.managed_array(count)
        for array in (pinned, mapped, managed):
            array[:] = values
        on_device = cuda.to_device(pinned, stream=stream)
        with cuda.pinned(values):
            on_device.copy_to_device(values, stream=stream)
            stream.synchronize()
        with cuda.mapped(values, stream=stream) as window:
            seen = window.copy_to_host(stream=stream)
            stream.synchronize()
        for array in (on_device.copy_to_host(), mapped, managed, seen):
            np.testing.assert_array_equal(array, values)
    return 6 * 5 * len(streams)


def run_kernels(random, streams):
    """Launch a kernel on each stream, over arrays whose memory was used before."""
    results = []
    for i, stream in enumerate(streams * 10):
        host = random.random(10_000)
        x = cuda.to_device(host, stream=stream)
        y = cuda.device_array_like(host, stream=stream)
        scale_and_add[-(-host.size // 256), 256, stream](x, y, float(i))
        results.append((host * float(i) + 1.0, y, stream))
        if len(results) > len(streams):
            check_kernel(*results.pop(0))
    for result in results:
        check_kernel(*result)
    return 20 * len(streams)


def check_kernel(expected, y, stream):
    got = y.copy_to_host(stream=stream)
    stream.synchronize()
    np.testing.assert_allclose(got, expected, rtol=1e-12)


def main():
    random = np.random.default_rng(7)
    streams = [cuda.stream() for _ in range(STREAMS)]
    arrays = exchange_batches(random, streams)
    arrays += use_views(random)
    arrays += share_with_host(random, streams)
    kernels = not tarn.driver_info().is_simulator
    if kernels:
        arrays += run_kernels(random, streams)
    word = "with kernels" if kernels else "no kernels here"
    print(f"arrays.py: {arrays} arrays on {STREAMS} streams, {word}: all results are right")


if __name__ == "__main__":
    main()
