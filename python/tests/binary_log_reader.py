"""Reads the rows and records of binary logs for tests. The layout is that of src/trace/binary.h."""

import struct
from typing import NamedTuple

CHUNK = 64 * 1024


class Pool(NamedTuple):
    """A row about a pool."""

    GROWTH, SNAPSHOT = 0, 4  # causes

    cause: int
    reserved: int
    live: int
    stack: int


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

    def pools(self):
        """The rows about pools."""
        for kind, payload in self.records:
            if kind == 4:
                _, _, reserved, live, cause, _, stack = struct.unpack_from("<QQQQIiI", payload)
                yield Pool(cause, reserved, live, stack)

    def stack(self, number):
        """The functions of a stack, innermost first."""
        of = {k: {} for k in (1, 2, 3)}
        for kind, payload in self.records:
            of.get(kind, {})[struct.unpack_from("<I", payload)[0]] = payload
        count = struct.unpack_from("<I", of[3][number], 4)[0]
        frames = struct.unpack_from(f"<{count}I", of[3][number], 8)
        names = [struct.unpack_from("<I", of[2][frame], 4)[0] for frame in frames]
        return [of[1][name][8:].decode() if name else "" for name in names]
