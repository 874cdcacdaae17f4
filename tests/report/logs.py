"""logs.py -- synthetic logs, and a replay that keeps all rows in memory.

The replay is the oracle of the tests: it takes each figure from the rows themselves, where the
writer of a report goes through them once.
"""

from __future__ import annotations

import collections
import dataclasses
import random

from block import (
    FAILURE,
    GROWTH,
    INTERPRETER,
    LIBRARY,
    MARK,
    OTHER,
    PLAIN,
    TRIM,
    UNKNOWN,
    Band,
    Block,
    Columns,
    Failure,
    Finding,
    Frame,
    Map,
    MapBlock,
    Mark,
    Picture,
    PictureBlock,
    Plan,
    Site,
)

MS, S = 1_000_000, 1_000_000_000
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
Stack = tuple[Frame, ...]  # the outermost frame first

MAIN = Frame("<module>", "/home/ann/work/train.py", 140, 0, "")
RUNPY = Frame("_run_code", "/usr/lib/python3.11/runpy.py", 88, INTERPRETER, "")


@dataclasses.dataclass
class Row:
    """An allocation (bytes > 0) or the free of the allocation `block` (bytes < 0)."""

    time_ns: int
    bytes: int
    block: int
    reserved: int


@dataclasses.dataclass
class Log:
    """Rows in the order of time, and what else the log knows."""

    rows: list[Row] = dataclasses.field(default_factory=list)
    stacks: list[Stack] = dataclasses.field(default_factory=list)  # by block
    streams: list[str] = dataclasses.field(default_factory=list)  # by block
    marks: list[Mark] = dataclasses.field(default_factory=list)
    meta: dict[str, object] = dataclasses.field(default_factory=dict)
    exit_ns: int | None = None
    duration_ns: int = 0
    reserved: int = 0
    live: int = 0

    def allocate(self, time_ns: int, size: int, stack: Stack, stream: str = "stream 7") -> int:
        block = len(self.stacks)
        self.stacks.append(stack)
        self.streams.append(stream)
        self.live += size
        if self.live > self.reserved:
            grown = -(-(self.live - self.reserved) // (256 * MIB)) * 256 * MIB
            self.reserved += grown
            self.marks.append(Mark(time_ns, GROWTH, "", grown))
        self.rows.append(Row(time_ns, size, block, self.reserved))
        return block

    def free(self, time_ns: int, block: int) -> None:
        size = next(row.bytes for row in reversed(self.rows) if row.block == block)
        self.live -= size
        self.rows.append(Row(time_ns, -size, block, self.reserved))

    def trim(self, time_ns: int, reserved: int) -> None:
        self.marks.append(Mark(time_ns, TRIM, "", self.reserved - reserved))
        self.reserved = reserved


def size_class(size: int) -> str:
    """The label of the power of two that a size falls into."""
    low = 1 << (size.bit_length() - 1)
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"), (1, "B")):
        if low >= unit:
            return f"from {low // unit} {name}"
    return "0 B"


def shown(stack: Stack) -> Frame:
    """The innermost frame of the user's own code, or the innermost one."""
    return next((f for f in reversed(stack) if not f.flags), stack[-1])


class Replay:
    """All figures of a log, by going through its rows as often as needed."""

    def __init__(self, log: Log, columns: int = 512, bands: int = 12, snaps: int = 64) -> None:
        self.log, self.most_bands = log, bands
        self.block = Block()
        self.end_ns = max([log.duration_ns, 1, *(row.time_ns + 1 for row in log.rows)])
        self.width = max(1, -(-self.end_ns // columns))
        self.count = -(-self.end_ns // self.width)
        self.intern()
        self.totals()
        self.columns()
        self.bands()
        self.sites()
        self.snaps(snaps)
        self.meta()

    def intern(self) -> None:
        frames: dict[Frame, int] = {}
        nodes: dict[tuple[int, int], int] = {}
        self.block.parents, self.block.node_frames = [0], [0]
        self.node_of: list[int] = []
        self.site_of: list[int] = []
        for stack in self.log.stacks:
            node = 0
            for frame in stack:
                key = (node, frames.setdefault(frame, len(frames)))
                if key not in nodes:
                    nodes[key] = len(self.block.parents)
                    self.block.parents.append(node)
                    self.block.node_frames.append(key[1])
                node = nodes[key]
            self.node_of.append(node)
            self.site_of.append(frames[shown(stack)] if stack else -1)
        self.block.frames = list(frames)

    def totals(self) -> None:
        """The live bytes after each row, the peak, and the instant of each column's maximum."""
        live = self.peak = self.peak_ns = self.peak_row = 0
        self.peak_row = -1
        self.live_after = []
        self.best = [-1] * self.count  # the row of the column's maximum
        self.low = [0] * self.count
        begin = [0] * self.count
        last = 0
        for index, row in enumerate(self.log.rows):
            column = row.time_ns // self.width
            for empty in range(last + 1, column + 1):
                begin[empty] = self.low[empty] = live
                self.best[empty] = index - 1
            last = max(last, column)
            live += row.bytes
            self.live_after.append(live)
            at = self.best[column]
            if at < 0 or live > self.live_after[at]:
                self.best[column] = index
            self.low[column] = min(self.low[column], live)
            if live > self.peak:
                self.peak, self.peak_ns, self.peak_row = live, row.time_ns, index
        for empty in range(last + 1, self.count):
            self.low[empty] = live
            self.best[empty] = len(self.log.rows) - 1

    def own_at(self, index: int) -> dict[int, tuple[int, int]]:
        """Own bytes and blocks of each node after a row."""
        own: dict[int, list[int]] = collections.defaultdict(lambda: [0, 0])
        for row in self.log.rows[: index + 1]:
            entry = own[self.node_of[row.block]]
            entry[0] += row.bytes
            entry[1] += 1 if row.bytes > 0 else -1
        return {node: (b, n) for node, (b, n) in own.items() if b}

    def columns(self) -> None:
        out = Columns(self.width, 0)
        allocations, frees = [0] * self.count, [0] * self.count
        reserved = [0] * self.count
        for row in self.log.rows:
            column = row.time_ns // self.width
            (allocations if row.bytes > 0 else frees)[column] += 1
            reserved[column] = max(reserved[column], row.reserved)
        held = 0
        for column in range(self.count):
            held = reserved[column] = max(reserved[column], 0) or held
            if allocations[column] or frees[column]:
                last = max(r.reserved for r in self.log.rows if r.time_ns // self.width == column)
                held = last
        for column, index in enumerate(self.best):
            high = self.live_after[index] if index >= 0 else 0
            out.high.append(high)
            inside = index >= 0 and self.log.rows[index].time_ns // self.width == column
            out.offset_ns.append(self.log.rows[index].time_ns % self.width if inside else 0)
            out.low.append(min(self.low[column], high))
        out.allocations, out.frees = allocations, frees
        out.reserved = reserved if self.log.rows else [0] * self.count
        out.used = [0] * self.count
        self.block.columns = out

    def values(self, key_of: list[object]) -> dict[object, list[int]]:
        """The bytes of each key at the instant of each column's maximum."""
        now: dict[object, int] = collections.defaultdict(int)
        out: dict[object, list[int]] = collections.defaultdict(lambda: [0] * self.count)
        order = sorted(range(self.count), key=lambda column: self.best[column])
        at = 0
        for column in order:
            while at <= self.best[column]:
                row = self.log.rows[at]
                now[key_of[row.block]] += row.bytes
                at += 1
            for key, value in now.items():
                if value:
                    out[key][column] = value
        return out

    def bands(self) -> None:
        stacks, log = self.log.stacks, self.log
        groups = {
            "site": self.site_of,
            "framework": [shown(s).framework or "own code" if s else "" for s in stacks],
            "stream": log.streams,
            "size": [size_class(self.size_of(block)) for block in range(len(stacks))],
        }
        for name, key_of in groups.items():
            values = self.values(key_of)
            ranked = sorted(values, key=lambda key: (-max(values[key]), str(key)))
            kept, rest = ranked[: self.most_bands], ranked[self.most_bands :]
            kept.sort(key=lambda key: max(values[key]) - min(values[key]))
            out = []
            for slot, key in enumerate(kept):
                site = name == "site"
                frame = key if site and key >= 0 else -1
                kind = UNKNOWN if site and key < 0 else PLAIN
                label = self.label(key) if site else str(key)
                out.append(Band(label, values[key], kind, slot % 12, 1, frame))
            if rest:
                summed = [sum(parts) for parts in zip(*(values[key] for key in rest))]
                out.append(Band("other", summed, OTHER, 0, len(rest)))
            self.block.bands[name] = out

    def label(self, frame: int) -> str:
        if frame < 0:
            return "unknown"
        it = self.block.frames[frame]
        return f"{it.file.rsplit('/', 1)[-1]}:{it.line} {it.function}"

    def size_of(self, block: int) -> int:
        if not hasattr(self, "sizes"):
            self.sizes = {row.block: row.bytes for row in self.log.rows if row.bytes > 0}
        return self.sizes[block]

    def sites(self) -> None:
        born, freed = {}, {}
        for row in self.log.rows:
            (born if row.bytes > 0 else freed)[row.block] = row.time_ns
        by_site = collections.defaultdict(list)
        for block, site in enumerate(self.site_of):
            by_site[site].append(block)
        exit_ns = self.log.exit_ns if self.log.exit_ns is not None else self.end_ns
        self.held = [b for b in born if born[b] < exit_ns and freed.get(b, exit_ns) >= exit_ns]
        held = set(self.held)
        peak_ns, trend_width = self.peak_row, max(1, -(-self.end_ns // 64))
        before_peak = collections.Counter()
        for row in self.log.rows[: peak_ns + 1]:
            before_peak[self.site_of[row.block]] += row.bytes
        trends = self.trends(trend_width)
        for site, blocks in by_site.items():
            sizes = [self.size_of(b) for b in blocks]
            lives = sorted(freed[b] - born[b] for b in blocks if b in freed)
            frame = self.block.frames[site] if site >= 0 else None
            rates = collections.Counter(born[b] // S for b in blocks)
            self.block.sites.append(
                Site(
                    frame=site if site >= 0 else len(self.block.frames),
                    framework=frame.framework if frame else "",
                    peak=before_peak[site],
                    end=sum(self.size_of(b) for b in blocks if b not in freed),
                    held=sum(self.size_of(b) for b in blocks if b in held),
                    total=sum(sizes),
                    count=len(blocks),
                    frees=len(lives),
                    largest=max(sizes),
                    addresses=max(1, len(blocks) // 3),
                    median_ns=lives[len(lives) // 2] if lives else 0,
                    p99_ns=lives[len(lives) * 99 // 100] if lives else 0,
                    rate=max(rates.values()),
                    trend=trends[site],
                )
            )

    def trends(self, width: int) -> dict[int, list[int]]:
        now, out = collections.Counter(), {}
        last = 0
        for site in set(self.site_of):
            out[site] = [0] * 64
        for row in self.log.rows:
            window = min(63, row.time_ns // width)
            for empty in range(last + 1, window + 1):
                for site in out:
                    out[site][empty] = now[site]
            last = window
            site = self.site_of[row.block]
            now[site] += row.bytes
            out[site][window] = max(out[site][window], now[site])
        for empty in range(last + 1, 64):
            for site in out:
                out[site][empty] = now[site]
        return out

    def snaps(self, most: int) -> None:
        block = self.block
        block.peak = self.own_at(self.peak_row)
        total: dict[int, list[int]] = collections.defaultdict(lambda: [0, 0])
        for row in self.log.rows:
            if row.bytes > 0:
                total[self.node_of[row.block]][0] += row.bytes
                total[self.node_of[row.block]][1] += 1
        block.total = {node: (b, n) for node, (b, n) in total.items()}
        held: dict[int, list[int]] = collections.defaultdict(lambda: [0, 0])
        for index in self.held:
            held[self.node_of[index]][0] += self.size_of(index)
            held[self.node_of[index]][1] += 1
        block.exit = {node: (b, n) for node, (b, n) in held.items()}
        if not self.log.rows:
            return
        step = max(1, self.count // most)
        high = block.columns.high
        picked = {
            max(range(start, min(start + step, self.count)), key=lambda column: high[column])
            for start in range(0, self.count, step)
        } | {self.peak_ns // self.width}
        now: dict[int, int] = collections.defaultdict(int)
        at = 0
        for column in sorted(picked):
            if self.best[column] < 0:
                continue
            while at <= self.best[column]:
                row = self.log.rows[at]
                now[self.node_of[row.block]] += row.bytes
                at += 1
            time_ns = column * self.width + block.columns.offset_ns[column]
            block.snaps.append((column, time_ns, {n: b for n, b in now.items() if b}))

    def meta(self) -> None:
        rows = self.log.rows
        block = self.block
        block.marks = sorted(self.log.marks, key=lambda mark: mark.time_ns)
        block.meta = {
            "program": "train.py",
            "command": "python train.py --epochs 3",
            "host": "node7",
            "pid": 4711,
            "parent_pid": 4700,
            "start_unix_ns": 1_763_800_000 * S,
            "format": "binary",
            "tarn": "0.2.0",
            "driver": "13000",
            "gpu": "NVIDIA H200",
            "rows": len(rows),
            "duration_ns": self.end_ns if rows else 0,
            "peak_bytes": self.peak,
            "peak_ns": self.peak_ns,
            "reserved_peak_bytes": max([0, *block.columns.reserved]),
            "device_total_bytes": 140 * GIB,
            "end_bytes": self.live_after[-1] if rows else 0,
            "held_bytes": sum(b for b, _ in block.exit.values()),
            "total_bytes": sum(row.bytes for row in rows if row.bytes > 0),
            "allocations": sum(row.bytes > 0 for row in rows),
            "frees": sum(row.bytes < 0 for row in rows),
            "failures": sum(mark.kind == FAILURE for mark in block.marks),
            "torn": 0,
            "lost": 0,
            "moved": 0,
            "unmatched_frees": 0,
            "double_allocations": 0,
            "problems": 0,
            "is_cut": 0,
            "is_ring": 0,
            "begin_ns": 0,
            "other_sites": 0,
            "column_ns": self.width,
            "has_stacks": 1,
            "has_streams": 1,
            "has_reserved": int(bool(rows)),
            "has_maps": 0,
        } | self.log.meta


# --- programs ---


def frame(function: str, file: str, line: int, framework: str = "", flags: int = 0) -> Frame:
    return Frame(function, file, line, flags, framework)


SITE_PACKAGES = "/opt/venv/lib/python3.11/site-packages"
TRAIN = frame("train", "/home/ann/work/train.py", 88)
STEP = frame("step", "/home/ann/work/loop.py", 31)
CUPY = frame("ndarray.__init__", f"{SITE_PACKAGES}/cupy/_core/core.py", 151, "cupy", LIBRARY)
NUMBA = frame("device_array", f"{SITE_PACKAGES}/numba/cuda/api.py", 92, "numba", LIBRARY)
TORCH = frame("empty", f"{SITE_PACKAGES}/torch/_refs/__init__.py", 4960, "torch", LIBRARY)


def training(seed: int = 1, leak: int = 22 * MIB, steps: int = 60, columns: int = 512) -> Block:
    """A loop with weights, activations, an evaluation, and a list that grows."""
    random.seed(seed)
    log = Log()
    weights = [
        log.allocate(
            (10 + index) * 20 * MS,
            random.choice([96, 128, 192]) * MIB,
            (
                RUNPY,
                MAIN,
                frame("build", "/home/ann/work/model.py", 40 + index % 3, "torch"),
                TORCH,
            ),
        )
        for index in range(24)
    ]
    time_ns = 800 * MS
    for step in range(steps):
        live = []
        for layer in range(12):
            size = (40 + 13 * layer) * MIB + random.randrange(MIB)
            own = frame("forward", "/home/ann/work/model.py", 90 + layer % 5, "torch")
            live.append(log.allocate(time_ns, size, (RUNPY, MAIN, TRAIN, STEP, own, TORCH)))
            time_ns += 15 * MS + random.randrange(MS)
        for _ in range(6):
            own = frame("augment", "/home/ann/work/data.py", 77, "cupy")
            buffer = log.allocate(time_ns, 64 * MIB, (RUNPY, MAIN, TRAIN, own, CUPY), "stream 13")
            time_ns += 2 * MS
            log.free(time_ns, buffer)
        stats = frame("remember", "/home/ann/work/stats.py", 12, "numba")
        log.allocate(time_ns, leak, (RUNPY, MAIN, TRAIN, stats, NUMBA), "stream 13")
        if step % 20 == 19:
            own = frame("evaluate", "/home/ann/work/evaluate.py", 25, "torch")
            for part in range(5):
                live.append(log.allocate(time_ns, (300 + part) * MIB, (RUNPY, MAIN, own, TORCH)))
                time_ns += 30 * MS
        for block in reversed(live):
            time_ns += 9 * MS
            log.free(time_ns, block)
        time_ns += 20 * MS
    log.exit_ns = time_ns + 100 * MS
    log.marks.append(Mark(log.exit_ns, MARK, "<exit>"))
    for index, block in enumerate(weights):
        log.free(log.exit_ns + (index + 1) * MS, block)
    log.duration_ns = log.exit_ns + 60 * MS
    block = Replay(log, columns).block
    leaks = block.exit and max(block.exit, key=lambda node: block.exit[node][0])
    grown = next(n for n, own in block.total.items() if own[0] == leak * steps)
    block.findings = [
        Finding(
            "F1",
            0,
            "stats.py:12 remember grows by 1.2 GiB/min and never shrinks.",
            [f"{steps} blocks of {leak // MIB} MiB were allocated and none was freed",
             "its minimum rose in 15 of 15 windows"],
            "Look for a list or a dictionary that keeps these arrays.",
            grown, time_ns, leak * steps, "stats.py:remember",
        ),
        Finding(
            "F2",
            0,
            "4.4 GiB are held until the interpreter's exit.",
            ["24 blocks of model.py:41 build, the oldest 38 s old", "freed by <exit>"],
            "Expected for weights; list the site as allowed.",
            leaks, -1, block.exit[leaks][0], "model.py:build",
        ),
        Finding(
            "F6",
            1,
            "data.py:77 augment allocates one size again and again.",
            ["360 allocations of 64 MiB, 99 % live for at most 2.1 ms"],
            "Allocate the buffer once, outside of the loop.",
            -1, 2 * S, 64 * MIB, "data.py:augment",
        ),
    ]  # fmt: skip
    return block


def fragmented() -> Block:
    """Two allocations that fail although enough bytes are free, with maps."""
    random.seed(4)
    log = Log()
    serve = frame("serve", "/srv/app/server.py", 210)
    cache = frame("put", "/srv/app/kv_cache.py", 55, "torch")
    batch = frame("collate", "/srv/app/batch.py", 18, "cupy")
    live: list[int] = []
    time_ns = 0
    for _ in range(400):
        time_ns += 20 * MS + random.randrange(30 * MS)
        if live and random.random() < 0.45:
            log.free(time_ns, live.pop(random.randrange(len(live))))
        else:
            own, library = random.choice([(cache, TORCH), (batch, CUPY)])
            stream = random.choice(["stream 7", "stream 13", "legacy"])
            size = random.choice([64, 128, 200, 256, 512]) * MIB
            live.append(log.allocate(time_ns, size, (RUNPY, serve, own, library), stream))
    log.trim(time_ns - 3 * S, log.reserved - 512 * MIB)
    fails = [time_ns - 2 * S, time_ns - S // 2]
    log.marks += [Mark(at, FAILURE, "4.0 GiB requested", 4 * GIB) for at in fails]
    log.duration_ns = time_ns + S
    block = Replay(log).block
    nodes = sorted(block.peak)
    for number, at in enumerate(fails):
        block.maps.append(pool_map(f"failure {number + 1}", at, 1, nodes, number))
        free = sum(
            b.bytes for _, bs in block.maps[-1].segments for b in bs if b.state in (1, 2, 3, 4, 5)
        )
        cached = free - 96 * MIB
        fields = {
            "requested": 4 * GIB, "alignment": 256, "live": 22 * GIB, "thread_cached": 96 * MIB,
            "cached": cached, "unfenced": cached // 4, "captured": 128 * MIB,
            "reserved": 32 * GIB, "maximum": 34 * GIB, "same_stream": cached // 2,
            "other_streams": cached - cached // 2 - cached // 8, "completed": cached // 8,
            "largest_free": block.maps[-1].largest_free, "device_free": 3 * GIB,
            "device_total": 140 * GIB, "attempts": 1, "upstream_status": 2,
        }  # fmt: skip
        block.failures.append(
            Failure(at, nodes[0], fields, "cuda: 4.0 GiB do not fit below the maximum", number)
        )
    block.maps.insert(0, pool_map("peak", block.meta["peak_ns"], 0, nodes, 5))
    for failure in block.failures:
        failure.map += 1
    block.findings = [
        Finding("F7", 0, "Out of memory at 10.4 s: 9.1 GiB were free, in pieces of at most 812 MiB.",
                ["requested 4.0 GiB", "7.9 GiB cached, of these 3.9 GiB on other streams"],
                "Synchronize before the large allocation, or enable compaction.",
                nodes[0], fails[0], 4 * GIB, "kv_cache.py:put"),
    ]  # fmt: skip
    block.meta |= {"failures": 2, "has_maps": 1, "program": "server.py"}
    return block


def pool_map(title: str, time_ns: int, kind: int, nodes: list[int], seed: int) -> Map:
    """An address map of eleven segments, two of which adjoin."""
    rng = random.Random(seed)
    segments, address, largest = [], 0x7F0000000000, 0
    for number in range(11):
        length = (6 * GIB, 2 * GIB, 512 * MIB)[min(2, number // 2)]
        blocks, left = [], length
        while left:
            size = min(left, rng.choice([2, 20, 64, 128, 200, 256, 512]) * MIB)
            state = rng.choices(range(9), [60, 2, 6, 14, 8, 3, 5, 1, 2])[0]
            requested = size - rng.randrange(1, 300 * KIB) if state == 0 else 0
            stream = "" if state in (0, 2, 6) else rng.choice(["stream 7", "stream 13", "legacy"])
            node = rng.choice(nodes) if state == 0 else -1
            if state in (2, 3):
                largest = max(largest, size)
            blocks.append(MapBlock(size, state, requested, stream, node))
            left -= size
        segments.append((address, blocks))
        address += length if number == 0 else length + rng.choice([0, 2 * MIB, 64 * GIB])
    return Map(title, time_ns, kind, largest, segments)


PLANNED_MORE = 123  # blocks of the run that are left out of its picture


def planned() -> Block:
    """A loop beside its plan: the run has gaps, and the plan has none."""
    rng = random.Random(3)
    block = fragmented()
    nodes = sorted(block.peak)
    ends, laid_out, run = [], [], []
    time_ns = 0
    for index in range(120):
        size = rng.choice([64, 128, 200, 256, 512]) * MIB
        ends = [(end, place, bytes_) for end, place, bytes_ in ends if end > time_ns]
        offset = 0
        for _, place, bytes_ in sorted(ends, key=lambda each: each[1]):
            if place - offset >= size:
                break
            offset = max(offset, place + bytes_)
        life = rng.choice([2, 5, 9, 40, 240 - time_ns])
        life = min(life, 240 - time_ns)
        node = rng.choice(nodes) if index % 5 else -1
        ends.append((time_ns + life, offset, size))
        laid_out.append(PictureBlock(time_ns, life, offset, size, offset, node))
        apart = offset + index % 4 * 96 * MIB
        run.append(PictureBlock(time_ns, life, apart, size, 0x7F0000000000 + apart, node))
        time_ns += rng.choice([1, 2])
    height = max(one.offset + one.bytes for one in laid_out)
    high = max(one.offset + one.bytes for one in run)
    pictures = [Picture(240, height, laid_out, len(laid_out)),
                Picture(240, high, run, len(run) + PLANNED_MORE, 9876)]  # fmt: skip
    block.plan = Plan("train.plan", height - 96 * MIB, 4, 17, pictures)
    return block


def workers(count: int = 8) -> list[Block]:
    """Processes of one command, of which one needs far more memory."""
    out = []
    for rank in range(count):
        leak = 120 * MIB if rank == 5 else 4 * MIB
        block = training(rank, leak, steps=14, columns=256)
        block.meta |= {
            "pid": 5000 + rank,
            "program": f"worker.py rank {rank}",
            "gpu": f"NVIDIA H200 GPU-{rank // 4}",
            "start_unix_ns": 1_763_800_000 * S + rank * 300 * MS,
            "device_total_bytes": 16 * GIB,
        }
        out.append(block)
    return out


def before_and_after() -> list[Block]:
    """The training loop with its leak, and without; stats.py has moved by three lines."""
    before, after = training(steps=30), training(leak=2 * MIB, steps=30)
    after.frames = [
        dataclasses.replace(f, line=f.line + 3) if f.file.endswith("stats.py") else f
        for f in after.frames
    ]
    before.meta["program"], after.meta["program"] = "before.tarnlog", "after.tarnlog"
    return [before, after]


def from_midnight(hours: int = 9) -> Block:
    """A log whose times count from midnight, as RMM's do."""
    block, by = without_stacks(), hours * 3600 * S
    block.columns.start_ns += by
    block.meta["peak_ns"] += by
    block.snaps = [(column, time_ns + by, own) for column, time_ns, own in block.snaps]
    return block


def empty() -> Block:
    """A log without any row."""
    block = Replay(Log()).block
    block.columns = Columns()
    block.bands = {}
    return block


def one_row() -> Block:
    """A log with one allocation."""
    log = Log()
    log.allocate(0, 3 * MIB + 1, (RUNPY, MAIN))
    block = Replay(log).block
    block.meta["has_reserved"] = 0
    block.columns.reserved = [0] * len(block.columns.high)
    return block


def failures_only() -> Block:
    """A log in which each allocation failed."""
    block = empty()
    block.frames = [MAIN]
    block.parents, block.node_frames = [0, 0], [0, 0]
    fields = {"requested": 200 * GIB, "failed_attempts": 3,
              "live": 0, "reserved": 0, "cached": 0, "maximum": 2**64 - 1,
              "device_free": 130 * GIB, "device_total": 140 * GIB, "largest_free": 0}  # fmt: skip
    block.failures = [Failure(5 * MS, 1, fields, "cuMemAlloc: out of memory")]
    block.marks = [Mark(5 * MS, FAILURE, "", 200 * GIB)]
    block.meta |= {"failures": 3, "duration_ns": 6 * MS, "rows": 3}
    return block


def without_stacks() -> Block:
    """A CSV log: one frame a row, no stream, no reserved memory."""
    log = Log()
    blocks = []
    for index in range(50):
        place = frame("load", "/home/ann/work/tables.py", 10 + index % 7)
        blocks.append(log.allocate(index * MS, (index % 9 + 1) * MIB, (place,), "none"))
    for index, block in enumerate(blocks[:30]):
        log.free((60 + index) * MS, block)
    block = Replay(log).block
    block.columns.reserved = [0] * len(block.columns.high)
    for name in ("framework", "stream"):
        del block.bands[name]
    block.meta |= {"has_stacks": 0, "has_streams": 0, "has_reserved": 0, "format": "rmm csv",
                   "is_cut": 1, "torn": 3, "moved": 2, "unmatched_frees": 7, "problems": 12,
                   "start_unix_ns": 0, "host": ""}  # fmt: skip
    block.marks = []
    return block


HOSTILE = (
    '"><script>document.title="run"</script>',
    "</script><script>document.title='run'</script><!--<img src=x onerror=document.title='run'>",
    "<!--", "]]>", "nul\0in\1it", "\udcff\udcfe bytes", "\u202eright to left\u2066", "x" * 4096,
    "\U0001f525 emoji", "__proto__", "constructor", "toString", "=cmd|' /C calc'!A0", "@sum", "&amp;",
    "a\u2028b\u200bc", "javascript:alert(1)", "",
)  # fmt: skip


def hostile() -> Block:
    """Names that are no names, everywhere."""
    log = Log()
    for index, name in enumerate(HOSTILE):
        stack = (MAIN, Frame(name, name + "/" + name, index, 0, name), Frame("f", name, 1, 0, name))
        log.allocate(index * MS, (index + 1) * MIB, stack, name)
    block = Replay(log).block
    name = HOSTILE[1]
    block.meta |= dict.fromkeys(("program", "command", "host", "gpu", "driver", "tarn"), name)
    block.findings = [Finding(name, 0, name, [name, name], name, 3, 2, MIB, name)]
    block.failures = [Failure(3 * MS, 2, {"requested": MIB, name: 3, "__proto__": 4}, name)]
    block.marks = [Mark(4 * MS, MARK, name)]
    segments = [(4096, [MapBlock(MIB, 0, MIB - 1, name, 2), MapBlock(MIB, 3, 0, name)])]
    block.maps = [Map(name, 5, 2, MIB, segments)]
    pictures = [Picture(9, 2**63, [PictureBlock(0, 9, 5, 2**62, 2**64 - 1, 2)], 2**63)] * 2
    block.plan = Plan(name, 0, 2**63, 1, pictures)
    return block


def many_sites(count: int = 65_536) -> Block:
    """As many sites as a report keeps, and stacks of depth 200."""
    rng = random.Random(9)
    block = training(steps=10)
    first = len(block.frames)
    for index in range(count - len(block.sites)):
        file = f"/srv/generated/module_{index % 911:03}.py"
        block.frames.append(Frame(f"function_{index % 4001}", file, index % 700 + 1, 0, ""))
        peak = rng.randrange(64 * KIB)
        trend = [index % 100] * 64
        block.sites.append(Site(first + index, "", peak, 0, 0, peak * 4, 4, 4, peak, 1, 900, 2000,
                                4, trend))  # fmt: skip
    node = 0
    for depth in range(200):
        block.parents.append(node)
        block.node_frames.append(first + depth)
        node = len(block.parents) - 1
    block.peak[node] = (64 * MIB, 3)
    node = len(block.parents)
    block.parents.append(1)
    block.node_frames.append(0)
    block.smaller[node] = 4321
    block.peak[node] = (32 * MIB, 4321)
    block.meta["other_sites"] = 17
    return block
