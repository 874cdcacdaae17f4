"""A program that ends, or a collector that runs, with everything still in use."""

import subprocess
import sys
import textwrap

import pytest

PROGRAMS = {
    "a resource in charge and a buffer": """
        limiter = mr.LimitingResourceAdaptor(mr.CudaMemoryResource(), 1 << 20)
        mr.set_current_device_resource(limiter)
        buffer = tarn.DeviceBuffer(size=80)
    """,
    "a resource written in Python in charge": """
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
