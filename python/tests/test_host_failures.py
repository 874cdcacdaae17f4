"""Calls of the extension with each of Python's own allocations failing.

CPython's _testcapi makes them fail, in every thread of the process. So each check runs in a
process of its own: pytest-xdist has a thread in those that it starts. A call that fails raises
MemoryError or an error of Tarn, loses no block, and succeeds when there is memory again.
"""

import copy
import gc
import pathlib
import pickle

import pytest
import tarn

_testcapi = pytest.importorskip("_testcapi", reason="this Python has no _testcapi")

LIMIT = 4000  # allocations of one call
CALM = 8  # runs without a failure in a row: the call makes no more allocations


def outcome(call, first, last):
    """None: the call failed. Otherwise what it returned, in a list."""
    try:
        _testcapi.set_nomemory(first, last)
        try:
            return [call()]
        finally:
            _testcapi.remove_mem_hooks()
    except (MemoryError, tarn.TarnError):
        return None


def fail_each(call):
    """Run a call with its 1st, 2nd, 3rd ... allocation failing, then with all from that one on.
    Returns the number of calls that failed."""
    failed = 0
    call()
    for forever in (False, True):
        calm = 0
        for nth in range(LIMIT):
            found = outcome(call, nth, 0 if forever else nth + 1)
            failed += found is None
            calm = 0 if found is None else calm + 1
            del found
            if calm == CALM:
                break
        else:
            pytest.fail(f"the call never succeeds: {call}")
        call()
    gc.collect()
    return failed


def cuda():
    return tarn.mr.CudaMemoryResource()


# Functions of the module: CPython 3.12 damages its memory where a lambda cannot be made.
def allocate(size, stream):
    return 4096


def deallocate(address, size, stream):
    pass


def fail(size):
    return False


RESOURCES = {
    "cuda": lambda: tarn.mr.CudaMemoryResource(),
    "async": lambda: tarn.mr.CudaAsyncMemoryResource(),
    "managed": lambda: tarn.mr.ManagedMemoryResource(),
    "pinned": lambda: tarn.mr.PinnedHostMemoryResource(),
    "pool": lambda: tarn.mr.PoolMemoryResource(),
    "binning": lambda: tarn.mr.BinningMemoryResource(cuda(), 10, 12),
    "fixed": lambda: tarn.mr.FixedSizeMemoryResource(cuda(), 4096),
    "limiting": lambda: tarn.mr.LimitingResourceAdaptor(cuda(), 1 << 20),
    "statistics": lambda: tarn.mr.StatisticsResourceAdaptor(cuda()),
    "tracking": lambda: tarn.mr.TrackingResourceAdaptor(cuda(), True),
    "guard": lambda: tarn.mr.GuardResourceAdaptor(cuda()),
    "prefetch": lambda: tarn.mr.PrefetchResourceAdaptor(tarn.mr.ManagedMemoryResource()),
    "callback": lambda: tarn.mr.CallbackMemoryResource(allocate, deallocate),
    "failure": lambda: tarn.mr.FailureCallbackResourceAdaptor(cuda(), fail),
}


def check_a_resource(name):
    fail_each(RESOURCES[name])


def check_a_new_buffer(name):
    mr = tarn.mr.StatisticsResourceAdaptor(RESOURCES[name]())
    assert fail_each(lambda: tarn.DeviceBuffer(size=1000, mr=mr)) > 0
    assert mr.allocation_counts.current_bytes == 0


class Array:
    """An array of a framework, with an interface that is made once."""

    def __init__(self, buffer):
        self.buffer = buffer
        self.__cuda_array_interface__ = buffer.__cuda_array_interface__


class Arrays:
    """What one asks of a buffer."""

    def __init__(self):
        self.buffer = tarn.DeviceBuffer.to_device(bytes(range(100)))
        self.array = Array(self.buffer)

    # Not copy.deepcopy(): without memory it leaks objects of any class.
    calls = {
        "tobytes": lambda self: self.buffer.tobytes(),
        "interface": lambda self: self.buffer.__cuda_array_interface__,
        "repr": lambda self: repr(self.buffer),
        "copy": lambda self: copy.copy(self.buffer),
        "pickle": lambda self: pickle.dumps(self.buffer),
        "dlpack": lambda self: self.buffer.__dlpack__(),
        "copy_from_device": lambda self: self.buffer.copy_from_device(self.array),
        "copy_to_host": lambda self: self.buffer.copy_to_host(bytearray(100)),
        "to_device": lambda self: tarn.DeviceBuffer.to_device(b"x" * 100),
    }


def check_a_buffer(name):
    arrays = Arrays()
    fail_each(lambda: Arrays.calls[name](arrays))
    assert arrays.buffer.tobytes() == bytes(range(100))


POOL_CALLS = {
    "statistics": lambda pool: pool.statistics(),
    "snapshot": lambda pool: pool.snapshot(),
    "report": lambda pool: tarn.mr.last_oom_report(),
}


def check_a_pool(name):
    pool = tarn.mr.PoolMemoryResource(maximum_pool_size=1 << 24)
    kept = tarn.DeviceBuffer(size=1000, mr=pool)
    with pytest.raises(tarn.OutOfMemoryError):
        pool.allocate(1 << 25)
    fail_each(lambda: POOL_CALLS[name](pool))
    assert kept.size == 1000


def check_a_tracker(_):
    """Of more blocks than the list of a sum has place for at first."""
    tracker = tarn.mr.TrackingResourceAdaptor(cuda(), True)
    kept = [tarn.DeviceBuffer(size=8, mr=tracker) for _ in range(2000)]

    def sums():
        assert [row[1:] for row in tarn._tarn._tracker_stacks(tracker)] == [(16_000, 2000)]

    assert fail_each(sums) > 0
    assert len(kept) == 2000


PROCESS_CALLS = {
    "driver_info": lambda: tarn.driver_info(),
    "device_info": lambda: tarn.device_info(0),
    "current": lambda: tarn.mr.get_current_device_resource(),
    "set": lambda: tarn.mr.set_per_device_resource(0, tarn.mr.get_per_device_resource(0)),
    "available": lambda: tarn.mr.available_device_memory(),
    "deferred": lambda: tarn.deferred_frees(),
    "stream": lambda: tarn.Stream(),
    "registered": lambda: tarn.Stream().register(),
}


def check_the_process(name):
    fail_each(PROCESS_CALLS[name])


def check_an_error(_):
    def fails():
        try:
            tarn.device_info(99)
        except tarn.InvalidArgumentError:
            return True
        raise AssertionError

    fail_each(fails)


CHECKS = {
    "a_resource": RESOURCES,
    # `prefetch` allocates managed memory as `managed` does
    "a_new_buffer": [name for name in RESOURCES if name != "prefetch"],
    "a_buffer": Arrays.calls,
    "a_pool": POOL_CALLS,
    "a_tracker": ["stacks"],
    "the_process": PROCESS_CALLS,
    "an_error": ["device_info"],
}

# A collection in between would allocate, too.
CODE = """
import gc, test_host_failures
gc.disable()
for name in {names}:
    print(name)
    test_host_failures.check_{check}(name)
"""


@pytest.mark.parametrize("check", CHECKS)
def test_it_answers_or_not(sim_process, check):
    names = list(CHECKS[check])
    code = CODE.format(check=check, names=names)
    assert sim_process(code, PYTHONPATH=str(pathlib.Path(__file__).parent)).split() == names
