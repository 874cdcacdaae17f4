"""Random Numba programs on Tarn beside a model; `python numba_programs.py PROGRAMS` runs them.

A program makes arrays of all kinds, and deletes them while streams still use them. Between these steps it
replaces the resource, defers frees, captures graphs, forks, resets the context and closes CUDA. Each array
holds a pattern that the program reads back. On the simulator there is no race, and no memory is left.
"""

import functools
import gc
import os
import signal
import sys
import traceback

import hypothesis
import numpy as np
import tarn
from driver_support import Driver, Simulator
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

tarn.use_tarn_for_numba()

from numba import cuda  # noqa: E402 -- after the call above, as in a program

numbers = st.integers(0, 1 << 16)
sizes = st.one_of(st.integers(1, 4096), st.integers(1, 1 << 16), st.integers(1, 3 << 20))
KINDS = ("device", "to_device", "device", "to_device", "pinned", "mapped", "managed", "buffer")
NAMES = ("pool", "cuda", "async", "managed", "slab", "binning", "cuda-pool", "exportable")
OWN = ("pool", "bounded", "tracking", "limiting", "event")
CHILD_LIMIT_S = 30


def step(**strategies):
    """Make a rule that notes its name and its arguments."""

    def make(function):
        @functools.wraps(function)
        def call(self, **given):
            self.steps.append(
                f"{function.__name__}({', '.join(f'{k}={v!r}' for k, v in given.items())})"
            )
            return function(self, **given)

        return rule(**strategies)(call)

    return make


class Array:
    """An array of the program and what it holds."""

    def __init__(self, kind, array, content, stream):
        self.kind, self.array, self.content, self.stream = kind, array, content, stream

    @property
    def is_host(self):
        return self.kind in ("pinned", "mapped", "managed")


class Program(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        gc.collect()
        self.simulator = Simulator()
        self.simulator.configure(None)
        self.before = self.simulator.live_bytes(), self.simulator.races()
        self.steps = []
        self.arrays = []
        self.resources = []  # (context manager of using_resource(), whether it may be out of memory)
        self.pools = []  # of the program
        self.deferred = []  # context managers of defer_cleanup()

    @initialize(
        mode=st.sampled_from(
            ("", "races=on", "mode=seeded,seed={},races=on", "mode=seeded,seed={}")
        ),
        seed=numbers,
        streams=st.integers(0, 3),
        single=st.sampled_from((False, False, False, True)),
        resource=st.sampled_from((None, *NAMES)),
    )
    def begin(self, mode, seed, streams, single, resource):
        self.steps.append(f"begin({mode.format(seed)!r}, {streams}, single={single}, {resource!r})")
        self.simulator.configure(mode.format(seed))
        tarn.use_tarn_for_numba(resource=resource, mode="single-stream" if single else "any-stream")
        self.make_streams(0 if single else streams)

    def make_streams(self, count):
        self.streams = [0, *(cuda.stream() for _ in range(count))]

    def stream(self, number):
        return self.streams[number % len(self.streams)]

    def sharing(self, array):
        """Return the arrays that have bytes of this one, itself included."""
        return [
            other
            for other in self.arrays
            if other.content is not None and np.shares_memory(other.content, array.content)
        ]

    def wait(self, array):
        """Wait for the work on an array, and on views of its memory."""
        for other in self.sharing(array):
            other.stream.synchronize() if other.stream else cuda.synchronize()
        array.kept = None

    def wait_for_other_streams(self, array, stream):
        """Wait for the work on an array, unless all of it is on this stream."""
        if any(other.stream is not stream for other in self.sharing(array)):
            self.wait(array)

    def allocate(self, call):
        """Return what a call makes, or None if the current resource may be out of memory."""
        try:
            return call()
        except (MemoryError, tarn.TarnError):
            assert self.resources and self.resources[-1][1]
            return None

    # --- arrays ---

    @precondition(lambda self: len(self.arrays) < 30)
    @step(kind=st.sampled_from(KINDS), size=sizes, pattern=numbers, on=numbers)
    def make(self, kind, size, pattern, on):
        stream = self.stream(on)
        content = np.arange(pattern, pattern + size).astype("u1")
        if kind == "to_device":
            made = self.allocate(lambda: cuda.to_device(content, stream=stream))
        elif kind == "buffer":
            made = self.allocate(
                lambda: cuda.as_cuda_array(tarn.DeviceBuffer(size=size, stream=tarn.NO_STREAM))
            )
        else:
            made = self.allocate(lambda: getattr(cuda, f"{kind}_array")(size, dtype="u1"))
        if made is None:
            return
        array = Array(kind, made, content.copy(), stream)
        if array.is_host:
            made[:] = content
        elif kind != "to_device":
            made.copy_to_device(content, stream=stream)
        array.kept = content
        self.arrays.append(array)

    def of_device(self):
        return [array for array in self.arrays if not array.is_host and array.content is not None]

    @precondition(lambda self: self.arrays)
    @step(at=numbers)
    def read(self, at):
        array = self.arrays[at % len(self.arrays)]
        if array.content is None:
            return
        self.wait(array)
        if array.is_host:
            seen = np.asarray(array.array)
        else:
            seen = array.array.copy_to_host(stream=array.stream)
            self.wait(array)
        assert np.array_equal(seen, array.content)

    @precondition(lambda self: len(self.of_device()) > 1)
    @step(source=numbers, to=numbers, size=sizes)
    def copy(self, source, to, size):
        """Queue a copy of the first bytes, and wait for nothing."""
        found = self.of_device()
        one, two = found[source % len(found)], found[to % len(found)]
        if np.shares_memory(one.content, two.content):
            return
        self.wait_for_other_streams(one, one.stream)
        self.wait_for_other_streams(two, one.stream)
        two.stream = one.stream
        size = min(size, one.array.size, two.array.size)
        two.array[:size].copy_to_device(one.array[:size], stream=one.stream)
        two.content[:size] = one.content[:size]

    def pinned(self):
        return [a for a in self.arrays if a.kind == "pinned" and a.content is not None]

    @precondition(lambda self: self.of_device() and self.pinned())
    @step(at=numbers, pinned=numbers, drop=st.booleans())
    def copy_from_pinned(self, at, pinned, drop):
        """Queue a copy of a pinned array, and delete the array meanwhile."""
        found = self.of_device()
        array = found[at % len(found)]
        from_host = self.pinned()
        source = from_host[pinned % len(from_host)]
        size = min(source.array.size, array.array.size)
        self.wait_for_other_streams(array, array.stream)
        array.array[:size].copy_to_device(source.array[:size], stream=array.stream)
        array.content[:size] = source.content[:size]
        if drop:
            self.arrays.remove(source)
        else:
            self.wait(array)

    @precondition(lambda self: self.arrays)
    @step(at=numbers, on=numbers)
    def move_to_stream(self, at, on):
        array = self.arrays[at % len(self.arrays)]
        if array.content is not None:
            self.wait(array)
            array.stream = self.stream(on)

    @precondition(lambda self: self.arrays)
    @step(at=numbers)
    def delete(self, at):
        self.arrays.pop(at % len(self.arrays))

    @precondition(lambda self: self.of_device() and len(self.arrays) < 30)
    @step(at=numbers, begin=numbers, count=sizes, only=st.booleans())
    def slice(self, at, begin, count, only):
        """Make a view; perhaps it alone keeps the memory."""
        found = self.of_device()
        array = found[at % len(found)]
        self.wait(array)
        begin %= array.array.size
        view = Array(
            "view",
            array.array[begin : begin + count],
            array.content[begin : begin + count],
            array.stream,
        )
        if view.array.size:
            self.arrays.append(view)
            if only:
                self.arrays.remove(array)

    @step(size=st.sampled_from((1 << 40, 1 << 62)))
    def ask_too_much(self, size):
        for make in cuda.device_array, cuda.managed_array:
            try:
                make(size, dtype="u1")
            except (MemoryError, tarn.TarnError, cuda.cudadrv.driver.CudaAPIError):
                continue
            raise AssertionError("no error")

    @step()
    def memory_info(self):
        info = cuda.current_context().get_memory_info()
        assert 0 < info.free <= info.total

    # --- resources ---

    @precondition(lambda self: len(self.resources) < 4)
    @step(name=st.sampled_from(NAMES))
    def use_named(self, name):
        context = tarn.numba.using_resource(name)
        context.__enter__()
        self.resources.append((context, name == "slab"))  # it has blocks of 1 MiB

    @precondition(lambda self: len(self.resources) < 4)
    @step(kind=st.sampled_from(OWN))
    def use_own(self, kind):
        options = {"bounded": {"maximum_pool_size": "8MiB"}, "event": {"no_stream": "event"}}
        pool = tarn.mr.PoolMemoryResource(**options.get(kind, {}))
        self.pools.append(pool)
        resource = pool
        if kind == "tracking":
            resource = tarn.mr.TrackingResourceAdaptor(pool)
        elif kind == "limiting":
            resource = tarn.mr.LimitingResourceAdaptor(pool, 6 << 20)
        context = tarn.numba.using_resource(resource)
        assert context.__enter__() is resource
        self.resources.append((context, kind in ("bounded", "limiting")))

    @precondition(lambda self: self.resources)
    @step()
    def leave_resource(self):
        self.resources.pop()[0].__exit__(None, None, None)

    @precondition(lambda self: self.pools)
    @step(at=numbers)
    def trim(self, at):
        assert self.pools[at % len(self.pools)].trim() >= 0

    # --- the context ---

    @precondition(lambda self: len(self.deferred) < 3)
    @step()
    def defer(self):
        context = cuda.defer_cleanup()
        context.__enter__()
        self.deferred.append(context)

    @precondition(lambda self: self.deferred)
    @step()
    def end_deferred(self):
        self.deferred.pop().__exit__(None, None, None)

    @precondition(lambda self: not self.deferred)
    @step(launches=st.integers(0, 3), size=sizes, first=st.booleans(), during=st.booleans())
    def capture(self, launches, size, first, during):
        """Capture a graph on memory of a pool, launch it, and end the graph or its memory first."""
        pool = tarn.mr.PoolMemoryResource()
        self.pools.append(pool)
        cuda.current_context()  # the driver's calls below need it
        driver = Driver()
        with tarn.Stream(flags=tarn.CudaStreamFlags.NON_BLOCKING).register() as stream:
            result = tarn.DeviceBuffer(size=size, mr=pool, stream=stream)
            with stream.capturing():
                driver.begin(stream)
                scratch = tarn.DeviceBuffer(size=size, mr=pool, stream=stream)
                if during:  # memory without a stream, of the same pool
                    with tarn.numba.using_resource(pool):
                        cuda.device_array(size, dtype="u1")
                driver.fill(scratch, 7, stream)
                tarn._tarn._copy(result.ptr, scratch.ptr, size, stream)
                del scratch
                memory = pool.get_capture(stream)
                graph = driver.end(stream)
            runnable = driver.instantiate(graph)
            for _ in range(launches):
                driver.launch(runnable, stream)
            if launches:
                assert result.tobytes(stream) == b"\7" * size
            if first:
                memory.release(stream)
            driver.cuGraphExecDestroy(runnable)
            driver.cuGraphDestroy(graph)
            if not first:
                memory.release(stream)
            stream.synchronize()
            assert pool.statistics().captured == 0
            del result

    @precondition(lambda self: not self.deferred)
    @step()
    def fork(self):
        """Fork; the child cannot allocate, and deletes what it inherits."""
        child = os.fork()
        if child == 0:
            signal.alarm(CHILD_LIMIT_S)
            code = 1
            try:
                self.arrays.clear()
                gc.collect()
                cuda.device_array(10)
            except (tarn.TarnError, cuda.cudadrv.error.CudaDriverError):
                code = 0
            except BaseException:
                traceback.print_exc(file=sys.stdout)
                sys.stdout.flush()
            finally:
                os._exit(code)
        assert (status := os.waitpid(child, 0)[1]) == 0, status

    @precondition(lambda self: not self.deferred)
    @step(close=st.booleans())
    def reset(self, close):
        """Reset the context of Numba, or close CUDA; arrays of the device have no memory afterwards."""
        cuda.synchronize()
        count = len(self.streams) - 1
        self.streams = []
        if close:
            cuda.close()
            self.pools.clear()  # those of the program have ended
        else:
            cuda.current_context().reset()
        for array in self.arrays:
            if array.kind == "pinned" and array.content is not None and not close:
                assert np.array_equal(array.array, array.content)
            elif close or array.kind != "buffer":
                array.content = None
        while close and self.resources:
            self.leave_resource()
        self.make_streams(count)
        for array in self.arrays:
            array.stream = 0

    def teardown(self):
        if isinstance(sys.exc_info()[1], Exception):
            self.fail()
        try:
            self.end()
        except Exception:
            self.fail()

    def fail(self):
        """Print the program and the error, and end the process, whose context is unusable."""
        print(*self.steps, sep="\n")
        traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        os._exit(1)

    def end(self):
        while self.deferred:
            self.end_deferred()
        while self.resources:
            self.leave_resource()
        self.arrays.clear()
        gc.collect()
        cuda.synchronize()
        assert [pool.statistics().live_blocks for pool in self.pools] == [0] * len(self.pools)
        self.pools.clear()
        races = self.simulator.races()
        assert races == self.before[1], self.simulator.last_race()
        self.streams = []
        tarn.mr.set_current_device_resource(None)
        cuda.close()
        gc.collect()
        self.simulator.configure(None)
        live = self.simulator.live_bytes()
        assert live == self.before[0], (live, self.before[0])


def main():
    programs = int(sys.argv[1])
    run_state_machine_as_test(
        Program,
        settings=hypothesis.settings(
            max_examples=programs,
            stateful_step_count=50,
            derandomize=len(sys.argv) < 3,
            database=None,
            deadline=None,
            phases=(hypothesis.Phase.generate,),
            suppress_health_check=list(hypothesis.HealthCheck),
        ),
    )
    print(f"{programs} programs")


if __name__ == "__main__":
    main()
