"""Makes binary logs for tests. It shares no code with Tarn: the layout is that of src/trace/binary.h."""

import struct
import zlib

HEADER_BYTES, CHUNK_BYTES, ID = 4096, 1024, 0x5EED
START_UNIX_NS = 1_700_000_000_000_000_000
ROWS, RECORDS, LIVE = 1, 2, 3
ALLOCATE, FREE, FAILURE, THREAD = 0, 1, 2, 255
STRING, FRAME, STACK, POOL, MARK, LOST = range(1, 7)
REPORT = (
    *("requested", "alignment", "live", "thread_cached", "cached", "unfenced", "captured"),
    *("reserved", "maximum", "same_stream", "other_streams", "completed", "largest_free"),
    *("device_free", "device_total"),
)
_MASK = (1 << 64) - 1
_FACTORS = (
    0x9E3779B97F4A7C15,
    0xBF58476D1CE4E5B9,
    0x94D049BB133111EB,
    0xFF51AFD7ED558CCD,
    0xC4CEB9FE1A85EC53,
    0x2545F4914F6CDD1D,
)


class BinaryLog:
    """A log whose rows are written as if by one thread; `bytes()` returns it."""

    def __init__(
        self, ring=0, major=1, chunk_bytes=CHUNK_BYTES, pid=4711, start=START_UNIX_NS, **pairs
    ):
        self.chunk_bytes = chunk_bytes
        text = b"".join(f"{key}\0{value}\0".encode() for key, value in pairs.items())
        head = struct.pack(
            "<8sHHIIIQQQIIIII",
            *(b"TARNLOG", major, 0, ring > 0, chunk_bytes, ring, ID, 1000),
            *(start, pid, 17, 16, len(text), 0),
        )
        head += struct.pack("<I", zlib.crc32(text, zlib.crc32(head)))
        self.parts = [(head + text).ljust(HEADER_BYTES, b"\0")]
        self.number = 0
        self.numbers = {}  # of strings, frames and stacks
        self.rows, self.records = [], []

    def chunk(self, kind, body, start_ns=0, thread=7, chunks=1):
        """Append a chunk with a function's body, which gets the number of the chunk."""
        number, self.number = self.number, self.number + 1
        head = struct.pack("<4sIQQQQI", b"TCHK", kind, ID, number, start_ns, thread, chunks)
        head += struct.pack("<I16x", zlib.crc32(head))
        self.parts.append((head + body(number)).ljust(chunks * self.chunk_bytes, b"\0"))

    @staticmethod
    def row(number, index, time, address, size, stream, stack, duration, action, device):
        seed = (ID ^ number * _FACTORS[0]) * _FACTORS[1] & _MASK
        values = (time, address, size, stream, stack | duration << 32)
        values += (index << 32 | (device & 0xFFFF) << 16 | action,)
        check = seed ^ seed >> 32
        for value, factor in zip(values, _FACTORS, strict=True):
            check ^= value * factor & _MASK
        check = (check ^ check >> 32) & 0xFFFFFFFF
        head = struct.pack("<QQQQIIBBh", *values[:4], stack, duration, action, 0, device)
        return head + struct.pack("<I", check or 1)

    def add(self, time, action, address, size=0, stack=0, stream=0, duration=0, device=0):
        """Write a row; a full chunk goes into the log."""
        self.rows.append((time, address, size, stream, stack, duration, action, device))
        if len(self.rows) == (self.chunk_bytes - 64) // 48:
            self.flush()

    def record(self, kind, payload):
        self.records.append((kind, payload))

    def mark(self, time, name):
        self.record(MARK, struct.pack("<QII", time, self.string(name), 0))

    def _known(self, kind, key, payload):
        if (kind, key) not in self.numbers:
            number = self.numbers[kind, key] = len(self.numbers) + 1
            self.record(kind, payload(number))
        return self.numbers[kind, key]

    def string(self, text):
        return self._known(
            STRING, text, lambda number: struct.pack("<II", number, 0) + text.encode()
        )

    def stack(self, *frames):
        """Return the number of a stack of (function, file, line), the innermost first."""
        numbers = []
        for function, file, line in frames:
            strings = self.string(function), self.string(file)
            numbers.append(
                self._known(
                    FRAME,
                    (function, file, line),
                    lambda number, strings=strings, line=line: struct.pack(
                        "<IIIiIIQ", number, *strings, line, 0, 0, 0
                    ),
                )
            )
        return self.stack_of(numbers)

    def native_frame(self, module, offset):
        """Return the number of a frame of a module."""
        strings = self.string("f"), self.string(module), self.string("00")
        return self._known(
            FRAME,
            (module, offset),
            lambda number: struct.pack("<IIIiIIQ", number, *strings[:2], 0, strings[2], 0, offset),
        )

    def stack_of(self, numbers):
        """Return the number of a stack of frames, the innermost first."""
        return self._known(
            STACK,
            tuple(numbers),
            lambda number: struct.pack(f"<II{len(numbers)}I", number, len(numbers), *numbers),
        )

    def pool(self, time, cause, reserved, live, blocks=(), device=0, pool=1, stack=0, report=None):
        """Write a pool row; a block is (address, bytes, requested, stream, segment, state).

        `report` has members of tarn_pool_oom_report; those that it lacks are 0.
        """
        numbers = time, pool, reserved, live, cause, device, stack, report is not None
        payload = struct.pack("<QQQQIiIIQ", *numbers, len(blocks))
        if report is not None:
            values = [report.get(name, 0) for name in REPORT]
            payload += struct.pack("<15QIid256x", *values, 0, 0, 0.0)
        for block in blocks:
            payload += struct.pack("<QQQQQII", *block, 0)
        self.record(POOL, payload)

    def _records(self, number):
        body = b""
        for kind, payload in self.records:
            crc = zlib.crc32(struct.pack("<QQII", ID, number, len(payload), kind) + payload)
            body += struct.pack("<IIII", len(payload), kind, 0, crc or 1)
            body += payload + bytes(-len(payload) % 8)
        return body

    def flush(self, thread=7):
        """Append what was written: the records in a chunk of their own, before the rows."""
        size = sum(16 + (len(payload) + 7) // 8 * 8 for _, payload in self.records)
        start = self.rows[0][0] if self.rows else 0
        if self.records:
            self.chunk(RECORDS, self._records, start, chunks=-(-(64 + size) // self.chunk_bytes))
        if self.rows:
            rows = self.rows
            self.chunk(
                ROWS,
                lambda number: b"".join(
                    self.row(number, index, *row) for index, row in enumerate(rows)
                ),
                start,
                thread,
            )
        self.rows, self.records = [], []

    def bytes(self, closed=True):
        """Return the log; `closed`: without preallocated chunks behind the last one."""
        self.flush()
        return b"".join(self.parts) + bytes(0 if closed else self.chunk_bytes)
