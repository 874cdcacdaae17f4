#!/usr/bin/env python3
"""raft.py -- runs pylibraft on a pool of Tarn through tarn.mr.to_rmm(), on a GPU.

RAFT is C++ that allocates from RMM's current device resource. The same operations run on RMM's own
pool and on a pool of Tarn, in both forms of the bridge. The results have to be equal, and near
their known values; Tarn has to count the memory, and to have none of it at the end. Exit 1 if
anything of this is not so.

It needs the wheels pylibraft-cu13, libraft-cu13, rmm-cu13 and librmm-cu13, and CuPy. RAFT's
libraries of CUDA come from the wheels or the toolkit that cuda.pathfinder finds.
"""

import gc
import sys
import threading
import time

import numpy as np
from cuda import pathfinder

for library in ("nvJitLink", "cublasLt", "cublas", "cusparse", "cusolver", "curand"):
    pathfinder.load_nvidia_dynamic_lib(library)

import cupy  # noqa: E402
import rmm  # noqa: E402
import tarn  # noqa: E402
from cupyx.scipy.sparse import csr_matrix  # noqa: E402
from pylibraft.common import DeviceResources, Stream, device_ndarray  # noqa: E402
from pylibraft.random import rmat  # noqa: E402
from pylibraft.sparse.linalg import eigsh, svds  # noqa: E402
from rmm.allocators.cupy import rmm_cupy_allocator  # noqa: E402

# A grid of 31 x 23 points. Its Laplacian has known eigenvalues, and none of them twice.
WIDTH, HEIGHT = 31, 23
EDGES = 1 << 20
EIGENVALUES = 6


def on_host(array):
    """Return an array of a device as numpy's."""
    return array.copy_to_host() if hasattr(array, "copy_to_host") else cupy.asnumpy(array)


def sparse(dense):
    """Return a matrix in rows (CSR); CuPy's memory comes from RMM's current resource too."""
    return csr_matrix(cupy.asarray(dense))


def laplacian():
    """Return the Laplacian of the grid as a dense array, and all its eigenvalues, ascending."""

    def line(count):
        return 2 * np.eye(count) - np.eye(count, k=1) - np.eye(count, k=-1)

    def of_line(count):
        return 2 - 2 * np.cos(np.pi * np.arange(1, count + 1) / (count + 1))

    dense = np.kron(line(WIDTH), np.eye(HEIGHT)) + np.kron(np.eye(WIDTH), line(HEIGHT))
    return dense, np.sort(np.add.outer(of_line(WIDTH), of_line(HEIGHT)).ravel())


DENSE, KNOWN = laplacian()


def graph(handle=None):
    """Return the edges of a random graph."""
    theta = device_ndarray(np.tile(np.array([0.57, 0.19, 0.19, 0.05], np.float32), 16))
    edges = device_ndarray.empty((EDGES, 2), dtype=np.int32)
    rmat(edges, theta, 16, 16, seed=7, handle=handle)
    if handle is not None:
        handle.sync()
    return [on_host(edges)]


def eigenvalues(handle=None):
    """Return the largest eigenvalues of the Laplacian."""
    start = cupy.asarray(np.random.default_rng(1).random(DENSE.shape[0]))
    found, vectors = eigsh(
        sparse(DENSE), k=EIGENVALUES, which="LA", v0=start, ncv=80, tol=1e-10, seed=3, handle=handle
    )
    if handle is not None:
        handle.sync()
    found, vectors = on_host(found), on_host(vectors)
    assert np.allclose(np.sort(found), KNOWN[-EIGENVALUES:]), (found, KNOWN[-EIGENVALUES:])
    assert np.allclose(DENSE @ vectors, vectors * found, atol=1e-5)
    return [found, np.abs(vectors)]


def singular_values(handle=None):
    """Return the largest singular values of a matrix of rank 4."""
    source = np.random.default_rng(2)
    left = np.linalg.qr(source.random((300, 4)))[0]
    right = np.linalg.qr(source.random((200, 4)))[0]
    values = np.array([9.0, 5.0, 3.0, 1.0])
    found = svds(sparse(left * values @ right.T), k=4, seed=5, handle=handle)[1]
    if handle is not None:
        handle.sync()
    found = np.sort(on_host(found))[::-1]
    assert np.allclose(found, values, rtol=1e-4), found
    return [found]


def on_threads():
    """Return the edges of four random graphs, made at once on a stream each."""
    found, errors = [None] * 4, []

    def work(index):
        try:
            stream = Stream()  # a DeviceResources does not keep it alive
            found[index] = graph(DeviceResources(stream))[0]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found


def on_a_stream():
    """Return the largest eigenvalues, on a stream of RAFT."""
    stream = Stream()
    return eigenvalues(DeviceResources(stream))


OPERATIONS = {
    "rmat": graph,
    "eigsh": eigenvalues,
    "svds": singular_values,
    "eigsh on a stream": on_a_stream,
    "rmat, 4 threads": on_threads,
}


def cases():
    """Yield the name of each resource, Tarn's pool under it, and the resource."""
    yield "rmm pool", None, rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), 1 << 30)
    for compiled in (False, True):
        pool = tarn.mr.PoolMemoryResource()
        form = "compiled" if compiled else "callback"
        yield f"to_rmm {form}", pool, tarn.mr.to_rmm(pool, compiled=compiled)


def run(operation):
    """Run an operation twice; return its results and the milliseconds of the second time."""
    operation()
    start = time.perf_counter()
    found = operation()
    return found, (time.perf_counter() - start) * 1000


def same(found, wanted):
    """Return whether two lists of arrays are equal; floating-point sums may be in another order."""
    return all(
        np.array_equal(one, other) if one.dtype.kind in "iu" else np.allclose(one, other, atol=1e-6)
        for one, other in zip(found, wanted, strict=True)
    )


def main():
    versions = f"RMM {rmm.__version__}, Tarn {tarn.__version__}"
    cupy.cuda.set_allocator(rmm_cupy_allocator)
    print(f"{versions}\n{'':18}{'operation':20}{'ms':>9}  results   allocations  peak bytes")
    wanted, good = {}, True
    for name, pool, mr in cases():
        rmm.mr.set_current_device_resource(mr)
        for title, operation in OPERATIONS.items():
            before = pool.statistics().allocations if pool else 0
            try:
                found, ms = run(operation)
            except Exception as error:
                good = False
                print(f"{name:18}{title:20} FAILED: {type(error).__name__}: {error}")
                continue
            result = "reference" if pool is None else "equal"
            if not same(found, wanted.setdefault(title, found)):
                good, result = False, "DIFFERENT"
            counts = ""
            if pool:
                counted = pool.statistics()
                counts = f"{counted.allocations - before:12}{counted.peak_allocated:12}"
                good = good and counted.allocations > before
            print(f"{name:18}{title:20}{ms:9.1f}  {result:10}{counts}", flush=True)
        rmm.mr.set_current_device_resource(rmm.mr.CudaMemoryResource())
        gc.collect()
        if pool:
            left = pool.statistics()
            print(f"{name:18}live at the end: {left.live} bytes in {left.live_blocks} blocks")
            good = good and left.live == 0
    print("good" if good else "NOT GOOD")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
