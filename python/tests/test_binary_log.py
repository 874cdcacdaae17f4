"""Binary logs of LoggingResourceAdaptor: stacks, rings, pool rows, processes that are killed."""

import os
import signal
import subprocess
import sys

import pytest
from binary_log_reader import Log, Pool
from tarn import mr


def allocate_here(resource):
    resource.deallocate(resource.allocate(1000), 1000)


def test_a_row_has_the_call_stack(tmp_path):
    logger = mr.LoggingResourceAdaptor(
        mr.CudaMemoryResource(), tmp_path / "a.log", format="binary", stacks=16
    )
    allocate_here(logger)
    log = Log(tmp_path / "a.dev0.log")
    assert log.depth == 16
    assert log.pid == os.getpid()
    assert log.text["gpu0"].startswith("GPU-")
    assert [row[6] for row in log.rows] == [0, 1]
    stack = log.stack(log.rows[0][4])
    assert any("allocate_here" in name for name in stack)
    assert any("test_a_row_has_the_call_stack" in name for name in stack)


def test_a_row_has_the_line_by_default(tmp_path):
    logger = mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), tmp_path / "a.log", format="binary")
    allocate_here(logger)
    log = Log(tmp_path / "a.dev0.log")
    assert log.depth == 1
    assert log.stack(log.rows[0][4]) == [""]
    assert __file__ in log.strings()


def test_a_pool_beneath_has_rows(tmp_path):
    pool = mr.PoolMemoryResource(maximum_pool_size="8MiB")
    logger = mr.LoggingResourceAdaptor(pool, tmp_path / "a.log", format="binary", stacks=0)
    allocate_here(logger)
    with pytest.raises(MemoryError):
        logger.allocate(100 << 20)
    causes = [row.cause for row in Log(tmp_path / "a.dev0.log").pools()]
    assert causes[:2] == [Pool.SNAPSHOT, Pool.GROWTH]


def test_a_ring_stays_small(tmp_path):
    logger = mr.LoggingResourceAdaptor(
        mr.PoolMemoryResource(), tmp_path / "a.log", format="binary", stacks=0, ring="1MiB"
    )
    for _ in range(50_000):
        allocate_here(logger)
    assert (tmp_path / "a.dev0.log").stat().st_size <= 3 << 20
    assert Log(tmp_path / "a.dev0.log").ring_chunks == 16


def test_a_killed_process_loses_no_row(tmp_path):
    code = """
import os, signal, sys, tarn
logger = tarn.mr.LoggingResourceAdaptor(
    tarn.mr.CudaMemoryResource(), sys.argv[1], format="binary"
)
blocks = [logger.allocate(100) for _ in range(5000)]
os.kill(os.getpid(), signal.SIGKILL)
"""
    result = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "a.log"],
        env={**os.environ, "TARN_DRIVER": "sim"},
    )
    assert result.returncode == -signal.SIGKILL
    assert len(Log(tmp_path / "a.dev0.log").rows) == 5000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stacks": 4}, "for format='binary', not 'rmm'"),
        ({"ring": "1MiB", "format": "nbep7"}, "for format='binary', not 'nbep7'"),
        ({"stacks": 129, "format": "binary"}, "stacks has to be from 0 to 128, not 129"),
        ({"stacks": -1, "format": "binary"}, "not -1"),
        ({"ring": 1000, "format": "binary"}, "ring_bytes is 1000"),
    ],
)
def test_wrong_options_are_rejected(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), tmp_path / "a.log", **arguments)
