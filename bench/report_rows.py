"""Writes a binary log of N rows to stdout, to measure `tarn report`; it needs NumPy.

    bench/report_rows.py ROWS | tarn report - -o page.html

2,000 stacks of 6 to 13 frames allocate. Most blocks live shortly, some long: about 3,000 live at
once. The rows are spread over 40 s for each million.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python/tests"))
from binary_log import _FACTORS, ID, BinaryLog

CHUNK, PER_CHUNK, STACKS, BATCH = 65536, (65536 - 64) // 48, 2000, 500_000
ROW = np.dtype(
    [("time", "<u8"), ("address", "<u8"), ("bytes", "<u8"), ("stream", "<u8"), ("stack", "<u4")]
    + [("duration", "<u4"), ("action", "u1"), ("zero", "u1"), ("device", "<i2"), ("check", "<u4")]
)


def stacks(log, rng):
    """The numbers of the stacks; deeper frames differ more."""
    found = []
    for number in range(STACKS):
        depth = int(rng.integers(6, 14))
        frames = [("main", "/home/ann/project/train.py", 10)]
        for level in range(1, depth):
            which = int(rng.integers(0, 4 ** min(level, 5)))
            package = "/home/ann/project" if level < 4 else "/usr/lib/python3/dist-packages/cupy"
            name = f"function_{level}_{which}"
            frames.append((name, f"{package}/module_{which % 40}.py", number % 7 + which))
        found.append(log.stack(*reversed(frames)))
    return np.array(found, dtype=np.uint32)


def events(rows, rng, numbers):
    """Yield sorted arrays of rows."""
    left = np.empty(0, dtype=ROW)
    step = 80_000  # ns between two allocations
    for first in range(0, rows // 2, BATCH):
        count = min(BATCH, rows // 2 - first)
        index = first + np.arange(count, dtype=np.uint64)
        life = np.where(rng.random(count) < 0.95, rng.exponential(200, count), 30_000)
        new, old = np.zeros(count, dtype=ROW), np.zeros(count, dtype=ROW)
        new["time"] = index * step + rng.integers(0, step // 2, count)
        old["time"] = new["time"] + (life * step).astype(np.uint64) + np.uint64(1000)
        new["address"] = old["address"] = (index % (1 << 20) + np.uint64(1)) * np.uint64(4096)
        new["bytes"] = (2 ** rng.uniform(9, 24, count)).astype(np.uint64)
        new["stack"] = numbers[(rng.random(count) ** 2 * STACKS).astype(int)]
        new["duration"], new["stream"] = 500, rng.integers(3, 11, count)
        old["action"], old["stream"] = 1, new["stream"]
        both = np.concatenate([left, new, old])
        both = both[np.argsort(both["time"], kind="stable")]
        split = np.searchsorted(both["time"], (first + count) * step)
        left = both[split:]
        yield both[:split]
    yield left


def write_rows(out, log, part):
    """Write the chunks of rows that are sorted."""
    for first in range(0, len(part), PER_CHUNK):
        rows = part[first : first + PER_CHUNK].copy()
        seed = (ID ^ log.number * _FACTORS[0]) * _FACTORS[1] & (1 << 64) - 1
        index = np.arange(len(rows), dtype=np.uint64)
        values = (rows["time"], rows["address"], rows["bytes"], rows["stream"])
        values += (rows["stack"].astype(np.uint64) | rows["duration"].astype(np.uint64) << 32,)
        values += (index << np.uint64(32) | rows["action"].astype(np.uint64),)
        check = np.full(len(rows), seed ^ seed >> 32, dtype=np.uint64)
        for value, factor in zip(values, _FACTORS, strict=True):
            check ^= value * np.uint64(factor)
        check = (check ^ check >> np.uint64(32)) & np.uint64(0xFFFFFFFF)
        rows["check"] = np.where(check == 0, 1, check)
        log.chunk(1, lambda number, rows=rows: rows.tobytes(), int(rows["time"][0]))
        out.write(log.parts.pop())


def main():
    rng = np.random.default_rng(1)
    log = BinaryLog(chunk_bytes=CHUNK, command="python train.py", host="box", gpu0="GPU-7")
    numbers = stacks(log, rng)
    log.flush()
    out = sys.stdout.buffer
    out.write(b"".join(log.parts))
    log.parts.clear()
    for part in events(int(float(sys.argv[1])), rng, numbers):
        write_rows(out, log, part)


if __name__ == "__main__":
    main()
