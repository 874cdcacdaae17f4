"""Helpers of the tests of tarn.numba: Numba on Tarn's driver, and programs in separate processes.

Numba looks for `libcuda.so.1` by name. A process that has the simulator open already gets that one.
Another process gets the simulator's folder.
"""

import csv
import io
import os
import subprocess
import sys

import fork_server
import tarn
import tarn.numba

tarn.open_driver()  # before Numba looks for one, in spawned children too

# The simulator has as many as are requested.
CAN_HAVE_TWO_DEVICES = tarn.driver_info().is_simulator or tarn.driver_info().device_count > 1


def environment(**changes):
    """Return the environment of a process in which Numba loads the driver that Tarn uses."""
    env = {**os.environ, **changes}
    if env.get("TARN_DRIVER") == "sim" and "LD_LIBRARY_PATH" not in changes:
        folder = os.path.join(tarn.get_library_dir(), "tarn", "sim")
        env["LD_LIBRARY_PATH"] = ":".join(filter(None, [folder, os.environ.get("LD_LIBRARY_PATH")]))
    return env


def run(arguments, **changes):
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment(**changes),
        capture_output=True,
        text=True,
        timeout=120,
    )


def run_code(code, **changes):
    """Return the output of a program that has to succeed without output on stderr."""
    done = run(["-c", code], **changes)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    return done.stdout.strip()


def fork(code, **changes):
    """As run(["-c", code]), after the import of Numba: see fork_server.py."""
    return fork_server.run(code, environment, changes)


def fork_code(code, **changes):
    """As run_code(), after the import of Numba: see fork_server.py."""
    done = fork(code, **changes)
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    return done.stdout.strip()


def rows(text):
    """Return the rows of a log, as dicts."""
    return list(csv.DictReader(io.StringIO(text)))


def manager_of_device():
    """Return the C manager behind Numba's instances for the current device."""
    from numba import cuda

    return cuda.current_context().memory_manager._manager


def read_ipc_array(handle, count):
    """In a spawned child: return the doubles behind a handle of another process."""
    import numpy as np
    from numba import cuda

    tarn.numba.use_tarn_for_numba()
    array = handle.open_array(cuda.current_context(), shape=count, dtype=np.dtype("f8"))
    values = array.copy_to_host()
    del array
    handle.close()
    return values.tolist()


def fail_to_open(handle):
    """In a spawned child: return why a handle cannot be opened; if it opens, it is closed again."""
    from numba import cuda

    tarn.numba.use_tarn_for_numba()
    try:
        handle.open(cuda.current_context())
    except tarn.TarnError as error:
        words = str(error)
    try:
        handle.close()
    except ValueError:
        return words


def raise_out_of_memory(limit):
    """In a spawned child: raise an error that has to arrive unchanged."""
    from numba import cuda

    tarn.numba.use_tarn_for_numba()
    upstream = tarn.mr.CudaMemoryResource()
    tarn.mr.set_current_device_resource(tarn.mr.LimitingResourceAdaptor(upstream, limit))
    cuda.device_array(limit + 1, dtype="u1")
