"""Captures a graph on memory of a pool: announced, launched, and released.

The capture is made with the driver's own calls, so that this runs with tarn alone. With
PyTorch the two lines in the middle are `with torch.cuda.graph(graph, stream=torch_stream):`, with
CuPy begin_capture() and end_capture() of its stream; tarn.Stream() takes those streams too.
"""

import ctypes

import tarn

SIZE = 1 << 20
pool = tarn.mr.PoolMemoryResource(maximum_pool_size="64MiB")
cuda = ctypes.CDLL(tarn.driver_info().path)


def call(name, *args):
    if code := getattr(cuda, name)(*args):
        raise RuntimeError(f"{name} gives {code}")


graph, runnable, context = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
call("cuCtxSetCurrent", context)
with tarn.Stream(flags=tarn.CudaStreamFlags.NON_BLOCKING).register() as stream:
    handle = ctypes.c_void_p(stream.handle)
    result = tarn.DeviceBuffer(size=SIZE, mr=pool, stream=stream)

    with stream.capturing():  # announced before it begins
        call("cuStreamBeginCapture_v2", handle, 0)
        scratch = tarn.DeviceBuffer(size=SIZE, mr=pool, stream=stream)
        at, to, size = (ctypes.c_uint64(each) for each in (scratch.ptr, result.ptr, SIZE))
        call("cuMemsetD8Async", at, ctypes.c_ubyte(7), size, handle)
        call("cuMemcpyDtoDAsync_v2", to, at, size, handle)
        del scratch  # stays with the graph, which uses it at each launch
        memory = pool.get_capture(stream)
        call("cuStreamEndCapture", handle, ctypes.byref(graph))

    print(f"{memory.statistics().retained} bytes are kept for the graph")
    call("cuGraphInstantiateWithFlags", ctypes.byref(runnable), graph, ctypes.c_uint64(0))
    for _ in range(3):
        call("cuGraphLaunch", runnable, handle)

    memory.release(stream)  # behind the last launch
    print(f"{pool.statistics().captured} bytes are kept, {result.tobytes(stream)[0]} was written")

call("cuGraphExecDestroy", runnable)
call("cuGraphDestroy", graph)
