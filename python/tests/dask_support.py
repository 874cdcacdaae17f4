"""Functions of the workers and the client in the tests of tarn.dask."""

import contextlib
import glob
import os
import subprocess
import sys
import time
import types

import tarn
import tarn.ipc

FOLDER = os.path.dirname(os.path.abspath(__file__))


def environment(**changes):
    """Return the environment of a worker on the driver of this process."""
    env = {**os.environ, "CXX": "/nowhere/c++", **changes}  # RMM calls Tarn by its callbacks
    if env.get("TARN_DRIVER") == "sim":
        simulator = os.path.join(tarn.get_library_dir(), "tarn", "sim")
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, [simulator, env.get("LD_LIBRARY_PATH")]))
    return env


def wait_for(condition, seconds=30):
    """Wait until condition() is true, and return its result."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)
    return found


@contextlib.contextmanager
def preload_worker(scheduler, folder, arguments, **changes):
    """Start `dask worker --preload tarn.dask` in a process that has no RMM."""
    (folder / "rmm.py").write_text("raise ImportError('RMM is hidden')")
    path = os.pathsep.join(filter(None, [str(folder), FOLDER, os.environ.get("PYTHONPATH")]))
    with open(folder / "worker.log", "w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", "worker", scheduler, "--no-nanny", "--nthreads", "1",
             "--name", "third", "--no-dashboard", "--preload", "tarn.dask", *arguments],
            env=environment(PYTHONPATH=path, **changes), cwd=folder, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def fake_worker(name="w"):
    """Return an object with the attributes of a worker that the plugin uses."""
    rpc = types.SimpleNamespace(connection_args={}, collect=lambda: None)
    loop = types.SimpleNamespace(add_callback=lambda *call: None)
    return types.SimpleNamespace(
        id=f"id-{name}", name=name, address=f"tcp://{name}", metrics={}, handlers={}, rpc=rpc,
        loop=loop,
    )  # fmt: skip


# --- in the workers ---


def make(bytes_count, value):
    """Return a buffer with equal bytes."""
    return tarn.DeviceBuffer.to_device(bytes([value]) * bytes_count)


def read(buffer):
    """Return the type, the size and the bytes that occur, of a buffer of any worker."""
    content = buffer.tobytes()
    return type(buffer).__name__, len(content), sorted(set(content))


def read_together(*buffers):
    return [read(buffer) for buffer in buffers]


class Maker:
    """An actor whose results nothing on its worker keeps."""

    def make(self, bytes_count, value):
        return make(bytes_count, value)


def read_result_of(maker, bytes_count, value):
    return read(maker.make(bytes_count, value).result())


def state():
    """Return what a worker knows of its memory and of others'."""
    from tarn import _dask_transfer

    pool = tarn.mr.get_current_device_resource()
    while hasattr(pool, "upstream_mr") and not hasattr(pool, "maximum_pool_size"):
        pool = pool.upstream_mr
    counts = tarn.ipc.counts()
    return {
        "pid": os.getpid(),
        "requests": counts["requests"],
        "held": counts["served"] + counts["leases"] + counts["mapped"] + _dask_transfer.exports(),
        "failure": _dask_transfer._failures.get(False),
        "far_failure": _dask_transfer._failures.get(True),
        "maximum": getattr(pool, "maximum_pool_size", None),
        "live": pool.statistics().live,
        "reserved": pool.statistics().reserved,
    }


_opened = []


def count_fabric():
    """Count the fabric handles that this worker opens from the first call on."""
    if not _opened:
        _opened.append(0)
        real = tarn.ipc._open_fabric

        def count(*args):
            result = real(*args)
            _opened[0] += 1
            return result

        tarn.ipc._open_fabric = count
    return _opened[0]


def of_rmm(bytes_count):
    """Allocate from RMM's resource and return the bytes that Tarn's pool counts of it."""
    import rmm
    from rmm.pylibrmm.stream import DEFAULT_STREAM

    before, resource = state()["live"], rmm.mr.get_per_device_resource(0)
    address = resource.allocate(bytes_count, DEFAULT_STREAM)
    counted = state()["live"] - before
    resource.deallocate(address, bytes_count, DEFAULT_STREAM)
    return counted


def has_rmm():
    try:
        import rmm  # noqa: F401
    except ImportError:
        return False
    return True


def close_door():
    """Remove the sockets of this machine, so that no process reaches another."""
    for path in glob.glob(os.path.join(os.environ["TARN_IPC_DIR"], "*")):
        os.unlink(path)
