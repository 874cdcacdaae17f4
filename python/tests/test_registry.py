"""The current resource of a device."""

import subprocess
import sys
import threading

import pytest
import tarn
from tarn import mr


def test_without_a_choice_it_is_the_cuda_resource():
    mr.set_current_device_resource(None)
    resource = mr.get_current_device_resource()
    assert type(resource) is mr.CudaMemoryResource
    assert mr.get_per_device_resource(0) is mr.get_current_device_resource() is resource


def test_the_very_object_comes_back_and_set_returns_the_one_before(counted, tmp_path):
    logger = mr.LoggingResourceAdaptor(counted.mr, tmp_path / "log")
    assert mr.set_current_device_resource(logger) is counted.mr
    assert mr.get_current_device_resource() is logger
    assert mr.get_per_device_resource(0) is logger
    assert mr.set_per_device_resource(0, mr=counted.mr) is logger


def test_a_resource_in_charge_lives_without_other_references(counted):
    mr.set_current_device_resource(mr.LimitingResourceAdaptor(counted.mr, 4096))
    assert mr.get_current_device_resource().get_allocation_limit() == 4096
    with pytest.raises(MemoryError):
        tarn.DeviceBuffer(size=5000)
    assert mr.get_current_device_resource().upstream_mr is counted.mr


def test_a_buffer_outlives_the_change_of_the_resource(counted):
    buffer = tarn.DeviceBuffer(size=100)
    mr.set_current_device_resource(None)
    assert counted.live_bytes == 100
    del buffer
    assert counted.live_bytes == 0


def test_what_is_no_resource_or_no_device_is_refused(counted):
    for bad in (3, "cuda", mr.CudaMemoryResource):
        with pytest.raises(TypeError):
            mr.set_current_device_resource(bad)
    for device in (-1, 99):
        with pytest.raises(ValueError):
            mr.get_per_device_resource(device)
        with pytest.raises(ValueError):
            mr.set_per_device_resource(device, counted.mr)
    assert mr.get_current_device_resource() is counted.mr


TWO_DEVICES = """
import ctypes, tarn
from tarn import mr
assert tarn.driver_info().device_count == 2
first, second = mr.CudaMemoryResource(), mr.CudaMemoryResource(device=1)
limiter = mr.LimitingResourceAdaptor(second, 1 << 20)
assert (first.device, limiter.device) == (0, 1)
mr.set_per_device_resource(1, limiter)
assert mr.get_per_device_resource(1) is limiter
assert type(mr.get_per_device_resource(0)) is mr.CudaMemoryResource
try:
    mr.set_per_device_resource(1, first)
except tarn.InvalidArgumentError:
    pass
else:
    raise SystemExit("a resource of device 0 became current for device 1")
buffer = tarn.DeviceBuffer(size=100, mr=limiter)
buffer.copy_from_host(b"x" * 100)
assert bytes(buffer) == b"x" * 100 and tarn.current_device() == 0

class Own(mr.DeviceMemoryResource):
    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        return second.allocate(nbytes, stream)
    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        second.deallocate(ptr, nbytes, stream)

def make_current(device):
    context = ctypes.c_void_p()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert driver.cuCtxSetCurrent(context) == 0

# A resource written in Python has the device of its first use, whichever is current.
driver = ctypes.CDLL(tarn.driver_info().path)
for device in 0, 1:
    make_current(1 - device)
    own = Own()
    assert own.device is None
    mr.set_per_device_resource(device, own)
    assert own.device == device and mr.get_per_device_resource(device) is own
    try:
        mr.set_per_device_resource(1 - device, own)
    except tarn.InvalidArgumentError:
        assert own.device == device
    else:
        raise SystemExit("a resource became current for two devices")
print("ok")
"""


def test_each_device_has_its_own(sim_process):
    assert sim_process(TWO_DEVICES, TARN_SIM="devices=2") == "ok"


def test_importing_tarn_loads_no_driver():
    code = "import tarn, tarn.mr; print('libcuda' in open('/proc/self/maps').read())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("False\n", "")


class Mine(mr.UpstreamResourceAdaptor):
    """An object with an attribute that a new object would not have."""

    def __init__(self, upstream):
        super().__init__(upstream)
        self.tag = "mine"


class Written(Mine):
    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        return super().allocate(nbytes, stream)

    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        super().deallocate(ptr, nbytes, stream)


class Pool(mr.PoolMemoryResource):
    pass


def made(kind):
    return Pool() if kind is Pool else kind(mr.StatisticsResourceAdaptor(mr.CudaMemoryResource()))


@pytest.mark.parametrize("kinds", [(Mine, Mine), (Pool, Mine), (Written, Mine), (Mine, Written)])
def test_while_threads_set_it_others_get_one_of_those_that_were_set(kinds, quick_switches):
    resources = [made(kind) for kind in kinds]
    before = mr.set_current_device_resource(resources[0])
    odd, done = [], threading.Event()

    def set_them():
        turn = 0
        while not done.is_set():
            turn += 1
            previous = mr.set_current_device_resource(resources[turn % 2])
            if not any(previous is one for one in resources):
                odd.append(previous)

    def get_them():
        for _ in range(5000):
            for got in (
                mr.get_current_device_resource(),
                mr.get_per_device_resource(0),
                tarn.DeviceBuffer(size=8).mr,
            ):
                if not any(got is one for one in resources):
                    odd.append(got)

    setters = [threading.Thread(target=set_them) for _ in range(2)]
    getters = [threading.Thread(target=get_them) for _ in range(3)]
    for thread in setters + getters:
        thread.start()
    for thread in getters:
        thread.join()
    done.set()
    for thread in setters:
        thread.join()
    assert odd == []
    assert mr.set_current_device_resource(before) in resources


def test_the_end_of_the_one_before_sets_another():
    """Its `__del__` runs in the middle of a call that sets a resource."""
    first = mr.get_current_device_resource()

    class Ending(Mine):
        def __del__(self):
            seen.append(mr.get_current_device_resource())
            mr.set_current_device_resource(last)

    seen, last = [], Mine(mr.CudaMemoryResource())
    mr.set_current_device_resource(Ending(mr.CudaMemoryResource()))
    other = Mine(mr.CudaMemoryResource())
    mr.set_current_device_resource(other)  # its result is released at once
    assert seen == [other]
    assert mr.get_current_device_resource() is last
    assert mr.set_current_device_resource(first) is last


def test_a_call_that_is_refused_leaves_all_as_it_was(counted):
    mine = Mine(counted.mr)
    mr.set_current_device_resource(mine)
    if tarn.driver_info().device_count > 1:
        with pytest.raises(tarn.InvalidArgumentError):
            mr.set_per_device_resource(0, mr.CudaMemoryResource(device=1))
    with pytest.raises(tarn.InvalidArgumentError):
        mr.set_per_device_resource(99, mine)
    with pytest.raises(tarn.InvalidArgumentError):
        mr.set_per_device_resource(99, None)
    assert mr.get_current_device_resource() is mine
    assert mr.set_current_device_resource(counted.mr) is mine
