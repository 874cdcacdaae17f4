"""An environment with Tarn and nothing else: `import tarn` needs neither Numba nor numpy.

./check creates it (.venv-bare); without it these tests fail.
"""

import subprocess
import textwrap

from conftest import PROJECT

BARE = PROJECT / ".venv-bare" / "bin" / "python"


def bare(program):
    done = subprocess.run([BARE, "-c", textwrap.dedent(program)], text=True, capture_output=True)
    assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


def test_numba_and_numpy_are_not_there():
    bare("""
        import importlib.util
        assert not importlib.util.find_spec("numba"), "numba"
        assert not importlib.util.find_spec("numpy"), "numpy"
        assert not importlib.util.find_spec("cuda"), "cuda"
        print("fine")
    """)


def test_memory_resources_work():
    bare("""
        import tarn
        from tarn import mr
        limiter = mr.LimitingResourceAdaptor(mr.CudaMemoryResource(), 1 << 20)
        mr.set_current_device_resource(limiter)
        buffer = tarn.DeviceBuffer(size=80)
        assert limiter.get_allocated_bytes() == 256, limiter.get_allocated_bytes()
        buffer.copy_from_host(bytes(range(80)))
        assert buffer.tobytes() == bytes(range(80))
        del buffer
        assert limiter.get_allocated_bytes() == 0
        try:
            tarn.DeviceBuffer(size=2 << 20)
        except tarn.OutOfMemoryError as error:
            assert isinstance(error, MemoryError)
        else:
            raise AssertionError("over the limit")
        print("fine")
    """)


def test_the_numba_plugin_says_what_is_missing():
    bare("""
        import tarn.numba
        try:
            tarn.numba.use_tarn_for_numba()
        except ModuleNotFoundError as error:
            assert error.name == "numba_cuda", error.name
            assert "install numba-cuda (pip install numba-cuda)" in str(error), error
            assert tarn._numba_memory_manager(context=None).interface_version == 1
            print("fine")
    """)
