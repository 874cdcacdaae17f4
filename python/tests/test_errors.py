"""Failures as exceptions: classes, messages, codes."""

import pathlib
import pickle
import re

import pytest
import tarn


def test_classes_are_also_the_built_in_ones():
    assert issubclass(tarn.TarnError, RuntimeError)
    for error, builtin in [
        (tarn.OutOfMemoryError, MemoryError),
        (tarn.InvalidArgumentError, ValueError),
        (tarn.NotSupportedError, NotImplementedError),
        (tarn.NoDriverError, RuntimeError),
    ]:
        assert issubclass(error, tarn.TarnError) and issubclass(error, builtin)
        assert error.__module__ == "tarn" and error.__doc__


def test_one_that_a_program_makes_has_the_status_of_its_class():
    made = [
        tarn.TarnError("x"),
        tarn.OutOfMemoryError("x"),
        tarn.InvalidArgumentError("x"),
        tarn.NotSupportedError("x"),
        tarn.NoDriverError("x"),
    ]
    header = pathlib.Path(tarn.get_include(), "tarn", "status.h").read_text()
    names = ["OK", "OUT_OF_MEMORY", "INVALID_ARGUMENT", "NOT_SUPPORTED", "NO_DRIVER"]
    for error, name in zip(made, names, strict=True):
        assert re.search(rf"X\({name}, {error.status},", header) and error.native == 0


def test_too_much_memory_is_out_of_memory_with_the_drivers_code():
    total = tarn.device_info().total_bytes
    with pytest.raises(tarn.OutOfMemoryError, match=str(2 * total)) as caught:
        tarn.mr.CudaMemoryResource().allocate(2 * total)
    assert caught.value.status == 1
    assert caught.value.native == 2  # CUDA_ERROR_OUT_OF_MEMORY


def test_sizes_that_are_none_are_refused_before_anything_happens():
    mr = tarn.mr.CudaMemoryResource()
    for size, error in [(-1, OverflowError), (2**64, OverflowError), ("7", TypeError)]:
        with pytest.raises(error):
            mr.allocate(size)
        with pytest.raises(error):
            tarn.DeviceBuffer(size=size)
    with pytest.raises(MemoryError):
        mr.allocate(2**64 - 1)


def test_an_error_can_be_pickled():
    error = pickle.loads(pickle.dumps(tarn.OutOfMemoryError("limiter: no")))
    assert isinstance(error, tarn.OutOfMemoryError) and str(error) == "limiter: no"
