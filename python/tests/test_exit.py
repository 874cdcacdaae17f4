"""A program's end, or a collection, with every object still in use."""

import subprocess
import sys
import textwrap

import pytest

PROGRAMS = {
    "a current resource and a buffer": """
        limiter = mr.LimitingResourceAdaptor(mr.CudaMemoryResource(), 1 << 20)
        mr.set_current_device_resource(limiter)
        buffer = tarn.DeviceBuffer(size=80)
    """,
    "a current resource written in Python": """
        class Mine(mr.UpstreamResourceAdaptor):
            def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
                return self.upstream_mr.allocate(nbytes, stream)

            def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
                self.upstream_mr.deallocate(ptr, nbytes, stream)

        mine = Mine(mr.CudaMemoryResource())
        mr.set_current_device_resource(mine)
        buffer = tarn.DeviceBuffer(size=80)
    """,
    "a stream and a log": """
        stream = tarn.Stream()
        log = mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), "LOG")
        buffer = tarn.DeviceBuffer(size=80, stream=stream, mr=log)
    """,
    "an object in a cycle with its class": """
        import gc
        def make():
            class Local(mr.LimitingResourceAdaptor):
                pass
            Local.itself = Local(mr.CudaMemoryResource(), 1 << 20)
            Local.buffer = tarn.DeviceBuffer(size=80, mr=Local.itself)
        make()
        gc.collect()
    """,
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_the_end_is_quiet(what, tmp_path):
    program = "import tarn\nfrom tarn import mr\n" + textwrap.dedent(PROGRAMS[what])
    done = subprocess.run(
        [sys.executable, "-c", program.replace("LOG", str(tmp_path / "log.csv"))],
        text=True, capture_output=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


IN_A_RESOURCE = """
import builtins, os, sys, threading, time
import tarn
from tarn import mr

class Slow(mr.DeviceMemoryResource):
    def __init__(self):
        super().__init__()
        self.source = mr.CudaMemoryResource()
    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        if threading.current_thread() is not threading.main_thread():
            inside.set()
            time.sleep(0.3)  # the interpreter ends meanwhile
        return self.source.allocate(nbytes, stream)
    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        self.source.deallocate(ptr, nbytes, stream)

inside = threading.Event()
pool = mr.PoolMemoryResource(Slow())

def work():
    while True:
        tarn.DeviceBuffer(size=64 << 20, mr=pool)  # the pool grows, under its lock

class Last:
    def __del__(self, pool=pool, trim=type(pool).trim, write=os.write):
        trim(pool)  # takes that lock
        write(1, b"ok")

for _ in range(3):
    threading.Thread(target=work, daemon=True).start()
inside.wait()
builtins.last = Last()
"""


def test_a_thread_that_ends_with_the_interpreter_takes_no_lock_along():
    """Python ends threads when they request the GIL, in the middle of an upstream's call."""
    done = subprocess.run(
        [sys.executable, "-c", IN_A_RESOURCE], text=True, capture_output=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ok", "")


FORK_BESIDE_A_THREAD = """
import os, sys, threading, warnings
import tarn

warnings.simplefilter("ignore")  # Python 3.12 warns of a fork beside threads
inside, go_on = threading.Event(), threading.Event()

def allocate(size, stream):
    inside.set()
    go_on.wait()
    return 4096

slow = tarn.mr.CallbackMemoryResource(allocate, lambda *_: None)
thread = threading.Thread(target=lambda: tarn.DeviceBuffer(size=8, mr=slow))
thread.start()
inside.wait()
child = os.fork()
if child == 0:
    sys.exit(0)
_, status, usage = os.wait4(child, 0)
go_on.set()
thread.join()
print(status, usage.ru_nvcsw < 500)
"""


def test_the_exit_of_a_forked_child_waits_for_no_thread_of_its_parent(sim_process):
    """The exit handler sleeps up to 1000 times for threads that are in a resource."""
    assert sim_process(FORK_BESIDE_A_THREAD) == "0 True"


AFTER_THE_MODULE = """
import builtins, os
import tarn
from tarn import _tarn, mr

class Own(mr.DeviceMemoryResource):
    source = mr.CudaMemoryResource()
    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        return self.source.allocate(nbytes, stream)
    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        self.source.deallocate(ptr, nbytes, stream)

class Last:
    # Whatever it has, it uses all of it at its end.
    def __init__(self):
        own, manager, plugin = Own(), _tarn.Manager(0), _tarn.Plugin()
        plugin._prepare(manager, type("Memory", (_tarn.MemoryPointer,), {}), None)
        stream, pointer = tarn.Stream(), manager.memalloc(100)
        buffers = [tarn.DeviceBuffer(size=8, mr=own), tarn.DeviceBuffer(size=8)]
        self.calls = [
            getattr(one, name)
            for one in (own, manager, plugin, plugin._allocate(8), stream, pointer, *buffers)
            for name in dir(one)
            if callable(getattr(one, name, None)) and not name.startswith("__")
        ]
        self.calls += [
            value for name, value in vars(_tarn).items()
            if callable(value) and name not in ("log_close", "nrt_use_python")
        ]
        self.arguments = [(), (own,), (0,), (None,), (own, 0), (None, 0)]
    def __del__(self, write=os.write, Error=BaseException):
        count = 0
        for call in self.calls:
            for arguments in self.arguments:
                try:
                    call(*arguments)
                except Error:
                    count += 1
        write(1, b"ok" if count > 100 else b"few")

PLACE
"""


@pytest.mark.parametrize(
    "place",
    [
        "last = Last()",
        "builtins.last = Last()",
        "tarn.last = Last()",
        "_tarn.last = Last()",
        "Last.itself = Last()",
        "last = Last(); last.itself = last",
    ],
)
def test_what_is_called_when_the_module_has_gone_raises(place):
    program = AFTER_THE_MODULE.replace("PLACE", place)
    done = subprocess.run(
        [sys.executable, "-c", program], text=True, capture_output=True, timeout=60
    )
    assert done.returncode == 0 and done.stdout in ("ok", ""), done.stdout + done.stderr
