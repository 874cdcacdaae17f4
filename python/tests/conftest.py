"""Fixtures of all tests. TARN_DRIVER names the driver (./check: `sim`).

If a test uses Numba in this process, it is on Tarn's runtime (tarn.nrt).
"""

import gc
import os
import subprocess
import sys

import pytest
import tarn
import tarn.nrt

tarn.nrt.install(children=False)


def pytest_collection_finish():
    """Freeze what the imports made: the collection after each test takes 60 ms with it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def ipc_folder(tmp_path_factory):
    """Name one folder for all sockets: the server of this process stays in that of its start."""
    folder = tmp_path_factory.mktemp("ipc")
    folder.chmod(0o700)
    os.environ["TARN_IPC_DIR"] = str(folder)


class Counted:
    """Make a resource under a counter the current device resource for one test."""

    def __init__(self):
        self.mr = tarn.mr.StatisticsResourceAdaptor(tarn.mr.CudaMemoryResource())

    @property
    def live_bytes(self):
        return self.mr.allocation_counts.current_bytes

    @property
    def allocations(self):
        return self.mr.allocation_counts.total_count


@pytest.fixture(autouse=True)
def counted():
    """Check that every test leaves no live bytes, and the default resource as the current one."""
    counted = Counted()
    tarn.mr.set_current_device_resource(counted.mr)
    yield counted
    tarn.mr.set_current_device_resource(None)
    gc.collect()
    assert counted.live_bytes == 0


@pytest.fixture
def quick_switches():
    """Make the interpreter change threads all the time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.fixture
def unraisable(monkeypatch):
    """Collect the errors of finalizers."""

    caught = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: caught.append(args.exc_value))
    return caught


@pytest.fixture
def sim_process():
    """Run code in a process of its own on the simulator; return its output."""

    def run(code, **environment):
        environment = {**os.environ, "TARN_DRIVER": "sim", **environment}
        environment.pop("CUDA_VISIBLE_DEVICES", None)  # that are a GPU's
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
        return done.stdout.strip()

    return run
