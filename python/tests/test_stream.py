"""tarn.Stream, and other objects that are accepted as streams."""

import gc

import pytest
import tarn


class Foreign:
    """Another library's stream."""

    def __init__(self, pair):
        self.pair = pair

    def __cuda_stream__(self):
        return self.pair


def test_a_new_stream_has_a_handle_and_can_be_waited_for():
    stream = tarn.Stream()
    assert stream.handle > 2
    assert not stream.is_default()
    assert stream.__cuda_stream__() == (0, stream.handle)
    stream.synchronize()
    other = tarn.Stream(flags=tarn.CudaStreamFlags.NON_BLOCKING)
    assert other != stream and hash(other) != hash(stream)


def test_the_named_streams_are_what_cuda_calls_them():
    assert tarn.DEFAULT_STREAM.handle == 0 and tarn.DEFAULT_STREAM.is_default()
    assert tarn.LEGACY_DEFAULT_STREAM.handle == 1 and tarn.LEGACY_DEFAULT_STREAM.is_default()
    assert tarn.PER_THREAD_DEFAULT_STREAM.handle == 2
    assert not tarn.PER_THREAD_DEFAULT_STREAM.is_default()
    assert tarn.NO_STREAM.handle == 0 and tarn.NO_STREAM != tarn.DEFAULT_STREAM
    assert repr(tarn.NO_STREAM) == "<tarn.Stream: no stream>"


def test_an_address_of_zero_is_shown_as_a_number():
    assert repr(tarn.DEFAULT_STREAM) == "<tarn.Stream 0x0>"
    assert repr(tarn.LEGACY_DEFAULT_STREAM) == "<tarn.Stream 0x1>"
    assert repr(tarn.DeviceBuffer()) == "<tarn.DeviceBuffer of 0 bytes at 0x0 on device 0>"


def test_a_stream_is_made_of_an_int_a_stream_or_the_protocol():
    stream = tarn.Stream()
    for source in (stream, stream.handle, Foreign((0, stream.handle))):
        assert tarn.Stream(source) == stream


@pytest.mark.parametrize("kind", [tarn.Stream, Foreign])
def test_a_stream_keeps_what_it_was_made_of(kind):
    source = kind() if kind is tarn.Stream else Foreign((0, 2))
    made = tarn.Stream(source)
    assert source in gc.get_referents(made)


def test_what_is_no_stream_is_refused():
    for source, error in [
        ("0", TypeError),
        (1.5, TypeError),
        (-1, OverflowError),
        (Foreign((1, 0)), NotImplementedError),
        (Foreign(7), TypeError),
        (Foreign((0, "x")), TypeError),
    ]:
        with pytest.raises(error):
            tarn.Stream(source)
        with pytest.raises(error):
            tarn.DeviceBuffer(size=8, stream=source)
    for flags, error in [(2, ValueError), ("1", TypeError)]:
        with pytest.raises(error):
            tarn.Stream(flags=flags)
    with pytest.raises(ValueError):
        tarn.Stream(3, flags=0)


def test_none_is_no_stream_as_with_rmm():
    mr = tarn.mr.CudaMemoryResource()
    for call in (
        lambda: mr.allocate(8, None),
        lambda: mr.deallocate(0, 0, stream=None),
        lambda: tarn.DeviceBuffer(size=8, stream=None),
        lambda: tarn.DeviceBuffer.to_device(b"x", stream=None),
    ):
        with pytest.raises(TypeError, match="stream argument cannot be None"):
            call()


def test_work_on_a_stream_is_done_after_synchronize():
    stream = tarn.Stream()
    source = bytes(range(256)) * 64
    buffer = tarn.DeviceBuffer.to_device(source, stream=stream)
    target = bytearray(len(source))
    buffer.copy_to_host(target, stream=stream)
    stream.synchronize()
    assert bytes(target) == source


def test_a_class_derived_from_stream_works():
    class Named(tarn.Stream):
        name = "copies"

    stream = Named()
    assert isinstance(tarn.DeviceBuffer(size=1, stream=stream).stream, Named)


def test_an_opened_stream_is_the_same_stream_under_another_name():
    stream = tarn.Stream()
    opened = stream.register()
    assert opened.is_registered and not stream.is_registered
    assert opened == stream and hash(opened) == hash(stream)
    assert opened.handle == stream.handle
    assert opened.__cuda_stream__() == (0, stream.handle)
    assert repr(opened) == f"<tarn.Stream {stream.handle:#x} (registered)>"
    opened.synchronize()
    buffer = tarn.DeviceBuffer.to_device(b"opened", stream=opened)
    assert buffer.stream is opened
    assert buffer.tobytes(stream=opened) == b"opened"


def test_an_opened_stream_keeps_the_stream_and_closes_before_it_goes(unraisable):
    opened = tarn.Stream().register()
    gc.collect()
    opened.synchronize()
    buffer = tarn.DeviceBuffer(size=100, stream=opened)
    del opened
    gc.collect()
    buffer.stream.synchronize()
    del buffer
    gc.collect()
    assert unraisable == []


def test_the_default_streams_can_be_opened_but_the_per_thread_one():
    for stream in (tarn.DEFAULT_STREAM, tarn.LEGACY_DEFAULT_STREAM):
        opened = stream.register()
        assert opened.is_default() and opened == stream
        buffer = tarn.DeviceBuffer.to_device(b"abc", stream=opened)
        assert buffer.__cuda_array_interface__["stream"] is None
    for stream in (tarn.PER_THREAD_DEFAULT_STREAM, tarn.NO_STREAM, tarn.Stream().register()):
        with pytest.raises(tarn.InvalidArgumentError):
            stream.register()


def test_captures_are_announced_on_opened_streams_alone():
    opened = tarn.Stream().register()
    opened.announce_capture(True)
    opened.announce_capture(False)
    with pytest.raises(tarn.InvalidArgumentError, match="not a registered stream"):
        tarn.Stream().announce_capture(True)


def test_a_number_that_was_never_opened_is_no_stream():
    with pytest.raises(tarn.InvalidArgumentError, match="not a registered stream"):
        tarn.Stream(7).synchronize()
