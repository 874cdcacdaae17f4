"""Functions of the child processes of the tests of tarn.ipc."""

import os
import signal

import tarn
import tarn.ipc
import tarn.numba

tarn.open_driver()  # before Numba looks for one, in spawned children too


def read(handle, **options):
    """Return the bytes behind a handle, and the counts afterwards."""
    with tarn.ipc.open(handle, **options) as memory:
        buffer = tarn.DeviceBuffer(size=memory.size)
        buffer.copy_from_device(memory)
        result = buffer.tobytes()
    return result, tarn.ipc.counts()["mapped"]


def overwrite(handle, data):
    """Write through a handle."""
    import numpy as np
    from numba import cuda

    tarn.numba.use_tarn_for_numba()
    with tarn.ipc.open(handle) as memory:
        cuda.as_cuda_array(memory).copy_to_device(np.frombuffer(data, np.uint8))


_kept = {}


def keep(handle):
    """Open and keep open."""
    _kept[handle] = tarn.ipc.open(handle)
    return os.getpid()


def let_go(handle):
    """Close the open handle; a second close fails."""
    memory = _kept.pop(handle)
    memory.close()
    try:
        memory.close()
    except ValueError as error:
        return str(error)


def fail(handle, **options):
    """Return the error of opening a handle."""
    try:
        tarn.ipc.open(handle, **options)
    except Exception as error:
        return type(error).__name__, str(error)


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def use_array(array_handle, factor):
    """Read Numba's array of another process, and write it multiplied."""
    tarn.numba.use_tarn_for_numba()
    with array_handle as array:
        values = array.copy_to_host()
        array.copy_to_device(values * factor)
    mapped = tarn.ipc.counts()["mapped"]
    return values.tolist(), mapped


def misuse_array(array_handle):
    """Return the errors of opening twice and closing twice."""
    tarn.numba.use_tarn_for_numba()
    said = []
    array_handle.open()
    for action in (array_handle.open, array_handle.close, array_handle.close):
        try:
            action()
        except ValueError as error:
            said.append(str(error))
    return said


def staged_array(handle, count):
    """Open a copy on the second device, which stays when the handle is closed."""
    import numpy as np
    from numba import cuda

    tarn.numba.use_tarn_for_numba()
    with cuda.gpus[1]:
        context = cuda.current_context()
        pointer = handle.open_staged(context)
        array = cuda.cudadrv.devicearray.DeviceNDArray(
            (count,), (8,), np.dtype("f8"), gpu_data=pointer
        )
        mapped = tarn.ipc.counts()["mapped"]
        handle.close()
        return array.copy_to_host().tolist(), mapped


def open_with(handle, connection, **options):
    """Open a handle of another node; the messages go through a connection."""

    def ask(request):
        connection.send_bytes(request)
        return connection.recv_bytes()

    return tarn.ipc.open(handle, ask=ask, **options)


def import_over(connection):
    """A process on another node: open handles as told, until None comes."""
    opened = None
    while (order := connection.recv()) is not None:
        verb, argument = order
        result = None
        try:
            if verb == "open":
                opened = open_with(argument, connection)
            elif verb == "open without a lease":
                opened = tarn.ipc.open(argument)
            elif verb == "read":
                buffer = tarn.DeviceBuffer(size=opened.size)
                buffer.copy_from_device(opened)
                result = buffer.tobytes()
            elif verb == "renew":
                result = opened.renew(argument)
            elif verb == "close":
                opened.close()
        except Exception as error:
            result = type(error).__name__, str(error)
        connection.send_bytes(b"")  # no further message
        connection.send(result)
