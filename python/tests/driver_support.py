"""The driver that Tarn has open: its own calls, and the controls of the simulator."""

import ctypes

import tarn

GLOBAL, RELAXED = 0, 2  # CUstreamCaptureMode


class Driver:
    """The driver's calls, each of which has to succeed."""

    def __init__(self):
        self.library = ctypes.CDLL(tarn.driver_info().path)

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*args):
            code = function(*args)
            assert code == 0, f"{name}: {code}"

        return call

    def begin(self, stream, mode=GLOBAL):
        self.cuStreamBeginCapture_v2(ctypes.c_void_p(stream.handle), mode)

    def end(self, stream):
        graph = ctypes.c_void_p()
        self.cuStreamEndCapture(ctypes.c_void_p(stream.handle), ctypes.byref(graph))
        return graph

    def lose(self, stream):
        """End a capture that was lost."""
        graph = ctypes.c_void_p()
        code = self.library.cuStreamEndCapture(ctypes.c_void_p(stream.handle), ctypes.byref(graph))
        assert code != 0 and not graph

    def fill(self, buffer, value, stream):
        self.cuMemsetD8Async(
            ctypes.c_uint64(buffer.ptr),
            ctypes.c_ubyte(value),
            ctypes.c_size_t(buffer.size),
            ctypes.c_void_p(stream.handle),
        )

    def instantiate(self, graph):
        runnable = ctypes.c_void_p()
        self.cuGraphInstantiateWithFlags(ctypes.byref(runnable), graph, ctypes.c_ulonglong(0))
        return runnable

    def launch(self, runnable, stream):
        self.cuGraphLaunch(runnable, ctypes.c_void_p(stream.handle))


class Simulator:
    """The controls of the simulator; none on a real driver."""

    def __init__(self):
        info = tarn.driver_info()
        self.library = ctypes.CDLL(info.path) if info.is_simulator else None
        for name in ("races", "live_bytes") if self.library else ():
            getattr(self.library, f"tarn_sim_{name}").restype = ctypes.c_ulonglong
        if self.library:
            self.library.tarn_sim_race.restype = ctypes.c_char_p

    def configure(self, options):
        tarn.synchronize()
        if self.library:
            assert self.library.tarn_sim_configure(options.encode() if options else None) == 0

    def races(self):
        return self.library.tarn_sim_races() if self.library else 0

    def live_bytes(self):
        return self.library.tarn_sim_live_bytes() if self.library else 0

    def last_race(self):
        return self.library.tarn_sim_race() if self.library else b""
