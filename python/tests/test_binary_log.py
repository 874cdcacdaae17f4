"""Binary logs of LoggingResourceAdaptor: stacks, rings, pool rows, processes that are killed."""

import os
import signal
import struct
import subprocess
import sys

import pytest
from tarn import mr

CHUNK = 64 * 1024


class Log:
    """The rows and records of a binary log, in the order of the file."""

    def __init__(self, path):
        data = path.read_bytes()
        assert data[:8] == b"TARNLOG\0"
        self.ring_chunks, self.pid = struct.unpack_from("<I24xI", data, 20)
        self.depth = struct.unpack_from("<I", data, 56)[0]
        size = struct.unpack_from("<I", data, 60)[0]
        text = data[72 : 72 + size].decode().split("\0")
        self.text = dict(zip(text[::2], text[1::2], strict=False))
        self.rows, self.records = [], []
        for chunk in range(4096, len(data) - CHUNK + 1, CHUNK):
            magic, kind = struct.unpack_from("<4sI", data, chunk)
            if magic == b"TCHK" and kind == 1:
                self._read_rows(data, chunk)
            elif magic == b"TCHK" and kind == 2:
                self._read_records(data, chunk)

    def _read_rows(self, data, chunk):
        for at in range(chunk + 64, chunk + CHUNK - 47, 48):
            row = struct.unpack_from("<QQQQIIBBhI", data, at)
            if row[-1] != 0 and row[6] != 255:
                self.rows.append(row)

    def _read_records(self, data, chunk):
        at = chunk + 64
        while at + 16 <= chunk + CHUNK:
            size, kind, _, check = struct.unpack_from("<IIII", data, at)
            if check == 0:
                break
            self.records.append((kind, data[at + 16 : at + 16 + size]))
            at += 16 + (size + 7) // 8 * 8

    def strings(self):
        return {p[8:].decode() for kind, p in self.records if kind == 1}

    def stack(self, number):
        """The functions of a stack, innermost first."""
        of = {k: {} for k in (1, 2, 3)}
        for kind, payload in self.records:
            of.get(kind, {})[struct.unpack_from("<I", payload)[0]] = payload
        count = struct.unpack_from("<I", of[3][number], 4)[0]
        frames = struct.unpack_from(f"<{count}I", of[3][number], 8)
        names = [struct.unpack_from("<I", of[2][frame], 4)[0] for frame in frames]
        return [of[1][name][8:].decode() if name else "" for name in names]


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
    causes = [
        struct.unpack_from("<I", payload, 32)[0]
        for kind, payload in Log(tmp_path / "a.dev0.log").records
        if kind == 4
    ]
    assert causes[:2] == [4, 0]


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
