"""No-stream allocations: the options of a pool, and Numba's results with each resource.

tests/gpu/no_stream.py is the program; on a GPU it runs with kernels (tests/gpu/run.sh).
"""

import pathlib

import pytest
import tarn
from numba_support import run
from tarn.mr import PoolMemoryResource

PROGRAM = pathlib.Path(__file__).parents[2] / "tests" / "gpu" / "no_stream.py"
MIB = 1 << 20


@pytest.mark.parametrize("streamless", ["synchronize", "event", "single-stream"])
def test_a_pool_takes_each_way_by_its_name(streamless):
    pool = PoolMemoryResource(no_stream=streamless, no_stream_limit="32MiB")
    tarn.DeviceBuffer(size=MIB, mr=pool)
    assert pool.statistics().no_stream_deferred == 0


def test_a_way_that_is_none_is_refused():
    with pytest.raises(ValueError, match="no_stream has to be one of synchronize"):
        PoolMemoryResource(no_stream="never")


def test_numbas_memory_is_not_handed_out_while_a_stream_reads_it():
    done = run([str(PROGRAM)])
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 9 * 5
    for line in lines:
        if not line.startswith("one-stream"):
            assert ": 0 of 81920 wrong" in line, done.stdout
        if "tight" in line:  # otherwise it would show nothing
            assert "came back 5 times" in line, done.stdout
        if "capturing" in line and not line.startswith("pool-event"):
            lost = 5 if line.startswith("async") else 0  # shows that losses are detected
            assert line.endswith(f", {lost} captures lost"), done.stdout


def test_the_program_sees_a_promise_that_is_broken():
    """It promises one stream and uses two."""
    done = run([str(PROGRAM), "one-stream"])
    assert "non-blocking: 81920 of 81920 wrong" in done.stdout, done.stdout + done.stderr
