"""Repeated operations leak no object and no reference."""

import gc
import sys

import pytest
import tarn
from tarn import mr


class Own(mr.DeviceMemoryResource):
    source = None

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        if nbytes == 13:
            raise MemoryError("unlucky")
        return self.source.allocate(nbytes, stream)

    def deallocate(self, ptr, nbytes, stream=tarn.DEFAULT_STREAM):
        self.source.deallocate(ptr, nbytes, stream)


def buffers():
    buffer = tarn.DeviceBuffer.to_device(b"abc", stream=tarn.Stream())
    buffer.copy().resize(100)
    buffer.copy_to_host(bytearray(3))
    buffer.copy_from_device(buffer)
    bytes(buffer), buffer.__cuda_array_interface__, buffer.stream, buffer.mr, repr(buffer)


def refused_buffers():
    for arguments in ({"size": 13}, {"size": 8, "stream": None}, {"size": 8, "mr": 3}):
        with pytest.raises((MemoryError, TypeError)):
            tarn.DeviceBuffer(**arguments)


def adaptors():
    counter = mr.StatisticsResourceAdaptor(mr.LimitingResourceAdaptor(Own(), 1 << 20))
    counter.push_counters()
    with pytest.raises(MemoryError):
        counter.allocate(13)
    with pytest.raises(tarn.InvalidArgumentError):
        mr.CudaMemoryResource().deallocate(4096, 8)
    counter.upstream_mr.upstream_mr, repr(counter)


def registry():
    before = mr.set_current_device_resource(mr.StatisticsResourceAdaptor(Own()))
    mr.get_current_device_resource()
    mr.set_current_device_resource(before)


def facts():
    tarn.driver_info(), tarn.device_info(), mr.available_device_memory()
    with pytest.raises(TypeError):
        tarn.Stream("x")


@pytest.mark.parametrize("work", [buffers, refused_buffers, adaptors, registry, facts])
def test_nothing_is_left_behind(counted, work, monkeypatch):
    monkeypatch.setattr(Own, "source", mr.CudaMemoryResource())
    own = Own()
    before = mr.set_current_device_resource(own)

    def blocks_after(times):
        for _ in range(times):
            work()
        gc.collect()
        return sys.getallocatedblocks(), sys.getrefcount(own), sys.getrefcount(Own)

    first = blocks_after(1000)
    last = blocks_after(4000)
    mr.set_current_device_resource(before)
    assert last[0] - first[0] < 1000  # a leak would be 4000; the rest is free lists
    assert last[1:] == first[1:]
