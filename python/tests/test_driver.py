"""The loaded driver, and paths of the installation."""

import os
import re

import pytest
import tarn


def test_driver_info_says_what_is_loaded():
    info = tarn.driver_info()
    assert os.path.exists(info.path)
    assert info.version >= 12000
    assert info.device_count >= 1
    if os.environ.get("TARN_DRIVER") == "sim":
        assert info.is_simulator


def test_device_info_is_about_one_device():
    info = tarn.device_info(0)
    assert info.name
    assert re.fullmatch("GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", info.uuid)
    assert 0 < info.free_bytes <= info.total_bytes
    assert len(info.compute_capability) == 2
    with pytest.raises(tarn.InvalidArgumentError):
        tarn.device_info(tarn.driver_info().device_count)


def test_the_same_driver_again_is_no_error_and_another_one_is():
    tarn.open_driver(tarn.driver_info().path)
    with pytest.raises(tarn.TarnError):
        tarn.open_driver("/nowhere/libcuda.so.1")


def test_the_current_device_is_0_without_a_context():
    assert tarn.current_device() == 0
    tarn.synchronize(0)


def test_headers_and_library_lie_in_the_package():
    assert os.path.isfile(os.path.join(tarn.get_include(), "tarn", "tarn.h"))
    assert os.path.isfile(os.path.join(tarn.get_library_dir(), "libtarn.so.0.2"))


def test_the_package_says_its_version_once():
    from importlib.metadata import version

    assert tarn.__version__ == version("tarn-gpu")


def test_one_copy_of_the_library_is_loaded():
    with open("/proc/self/maps") as maps:
        files = {line.split()[-1] for line in maps if "libtarn.so" in line}
    assert files == {os.path.join(tarn.get_library_dir(), "libtarn.so.0.2")}
