"""block.py -- encodes the data block of a report page from plain values.

It follows the layout of the block and shares nothing with the writer in cli/report, so that a
mistake of either one shows.
"""

from __future__ import annotations

import base64
import dataclasses
import zlib

MAGIC = b"TARNREP\0"
LIBRARY, NATIVE, INTERPRETER = 1, 2, 4  # flags of frames
MARK, FAILURE, TRIM, GROWTH, RELEASE = range(5)  # kinds of marks
PLAIN, OTHER, UNKNOWN = range(3)  # kinds of bands


@dataclasses.dataclass(frozen=True)
class Frame:
    """A function at a line of a file."""

    function: str
    file: str
    line: int
    flags: int = 0
    framework: str = ""


@dataclasses.dataclass
class Site:
    """What all stacks own that end at one frame."""

    frame: int
    framework: str
    peak: int
    end: int
    held: int
    total: int
    count: int
    frees: int
    largest: int
    addresses: int
    median_ns: int
    p99_ns: int
    rate: int
    trend: list[int]


SITE_FIELDS = [
    "frame",
    "framework",
    "peak",
    "end",
    "held",
    "total",
    "count",
    "frees",
    "largest",
    "addresses",
    "median_ns",
    "p99_ns",
    "rate",
]


@dataclasses.dataclass
class Band:
    """One band of the chart: a value for each column."""

    label: str
    values: list[int]
    kind: int = PLAIN
    slot: int = 0
    members: int = 1
    frame: int = -1


@dataclasses.dataclass
class Columns:
    """The columns of the time axis."""

    width_ns: int = 1
    start_ns: int = 0
    high: list[int] = dataclasses.field(default_factory=list)
    offset_ns: list[int] = dataclasses.field(default_factory=list)
    low: list[int] = dataclasses.field(default_factory=list)
    allocations: list[int] = dataclasses.field(default_factory=list)
    frees: list[int] = dataclasses.field(default_factory=list)
    reserved: list[int] = dataclasses.field(default_factory=list)
    used: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Mark:
    """A moment with a name."""

    time_ns: int
    kind: int
    text: str = ""
    bytes: int = 0


@dataclasses.dataclass
class Failure:
    """An allocation that failed, with the report of its pool."""

    time_ns: int
    node: int
    fields: dict[str, int]
    text: str = ""
    map: int = -1


@dataclasses.dataclass
class MapBlock:
    """A block of an address map; the states are those of tarn_pool_block_state."""

    bytes: int
    state: int = 0
    requested: int = 0
    stream: str = ""
    node: int = -1


@dataclasses.dataclass
class Map:
    """The addresses of a pool at one moment."""

    title: str
    time_ns: int
    kind: int
    largest_free: int
    segments: list[tuple[int, list[MapBlock]]]  # an address, its blocks


@dataclasses.dataclass
class PictureBlock:
    """A block of a picture: by time in operations, and by address."""

    start: int
    life: int
    offset: int
    bytes: int
    address: int = 0
    node: int = -1


@dataclasses.dataclass
class Picture:
    """Blocks in the order of their starts; `all` counts those that are left out, too."""

    operations: int
    height: int
    blocks: list[PictureBlock]
    all: int
    share: int = 10000  # of the bytes and the time that the blocks have, in 10,000 parts


@dataclasses.dataclass
class Plan:
    """A plan, and the run beside it."""

    name: str
    live: int
    streams: int
    waits: int
    pictures: list[Picture]


@dataclasses.dataclass
class Finding:
    """A sentence about the log, and why it holds."""

    rule: str
    severity: int
    sentence: str
    evidence: list[str]
    advice: str
    node: int = -1
    time_ns: int = -1
    bytes: int = 0
    allow: str = ""


Own = dict[int, tuple[int, int]]  # node: own bytes, own blocks


@dataclasses.dataclass
class Block:
    """All that one process has in a page."""

    meta: dict[str, object] = dataclasses.field(default_factory=dict)
    frames: list[Frame] = dataclasses.field(default_factory=list)
    parents: list[int] = dataclasses.field(default_factory=lambda: [0])
    node_frames: list[int] = dataclasses.field(default_factory=lambda: [0])
    smaller: dict[int, int] = dataclasses.field(default_factory=dict)  # node: n
    sites: list[Site] = dataclasses.field(default_factory=list)
    columns: Columns = dataclasses.field(default_factory=Columns)
    bands: dict[str, list[Band]] = dataclasses.field(default_factory=dict)
    snaps: list[tuple[int, int, dict[int, int]]] = dataclasses.field(default_factory=list)
    peak: Own = dataclasses.field(default_factory=dict)
    exit: Own = dataclasses.field(default_factory=dict)
    total: Own = dataclasses.field(default_factory=dict)
    marks: list[Mark] = dataclasses.field(default_factory=list)
    failures: list[Failure] = dataclasses.field(default_factory=list)
    maps: list[Map] = dataclasses.field(default_factory=list)
    plan: Plan | None = None
    findings: list[Finding] = dataclasses.field(default_factory=list)


def as_bytes(text: str) -> bytes:
    """UTF-8; a lone surrogate of `surrogateescape` becomes the byte that it stands for."""
    return text.encode("utf-8", "surrogateescape")


def varint(value: int) -> bytes:
    """Encode an unsigned integer as LEB128."""
    assert 0 <= value < 2**64, value
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


class Stream:
    """The bytes of one section."""

    def __init__(self, strings: dict[bytes, int]) -> None:
        self.strings, self.parts = strings, []

    def v(self, *values: int) -> None:
        if values and min(values) >= 0 and max(values) < 128:
            self.parts.append(bytes(values))
        else:
            self.parts += [varint(value) for value in values]

    def z(self, value: int) -> None:
        self.parts.append(varint(value * 2 if value >= 0 else -value * 2 - 1))

    def s(self, text: str) -> None:
        self.v(self.strings.setdefault(as_bytes(text), len(self.strings)))

    def text(self, text: str) -> None:
        data = as_bytes(text)
        self.v(len(data))
        self.parts.append(data)

    def own(self, entries: Own) -> None:
        self.v(len(entries))
        before = 0
        for node in sorted(entries):
            self.v(node - before, *entries[node])
            before = node


def meta(out: Stream, block: Block) -> None:
    out.v(len(block.meta))
    for key, value in block.meta.items():
        out.text(key)
        out.text(str(value))


def frames(out: Stream, block: Block) -> None:
    out.v(len(block.frames))
    for field in ("function", "file"):
        for frame in block.frames:
            out.s(getattr(frame, field))
    out.v(*(frame.line for frame in block.frames))
    out.v(*(frame.flags for frame in block.frames))
    for frame in block.frames:
        out.s(frame.framework)


def trie(out: Stream, block: Block) -> None:
    out.v(len(block.parents))
    nodes = range(1, len(block.parents))
    out.v(*(node - block.parents[node] for node in nodes))
    for node in nodes:
        if node in block.smaller:
            out.v(len(block.frames), block.smaller[node])
        else:
            out.v(block.node_frames[node])


def sites(out: Stream, block: Block) -> None:
    out.v(len(block.sites))
    for field in SITE_FIELDS:
        for site in block.sites:
            value = getattr(site, field)
            if field == "framework":
                out.s(value)
            else:
                out.v(value)
    for site in block.sites:
        assert len(site.trend) == 64
        out.v(*site.trend)


def columns(out: Stream, block: Block) -> None:
    it = block.columns
    out.v(len(it.high), it.width_ns, it.start_ns)
    for array in (it.high, it.offset_ns, it.low, it.allocations, it.frees, it.reserved, it.used):
        assert len(array) == len(it.high)
        out.v(*array)


def bands(out: Stream, block: Block) -> None:
    out.v(len(block.bands))
    for name, group in block.bands.items():
        out.s(name)
        out.v(len(group))
        for band in group:
            out.s(band.label)
            out.v(band.kind, band.slot, band.members, band.frame + 1)
            before = 0
            for value in band.values:
                out.z(value - before)
                before = value


def snaps(out: Stream, block: Block) -> None:
    out.v(len(block.snaps))
    last: dict[int, int] = {}
    for column, time_ns, own in block.snaps:
        changed = [n for n in sorted({*own, *last}) if own.get(n, 0) != last.get(n, 0)]
        out.v(column, time_ns, len(changed))
        before = 0
        for node in changed:
            out.v(node - before)
            out.z(own.get(node, 0) - last.get(node, 0))
            before = node
        last = own


def marks(out: Stream, block: Block) -> None:
    out.v(len(block.marks))
    for mark in block.marks:
        out.v(mark.time_ns, mark.kind)
        out.s(mark.text)
        out.v(mark.bytes)


def failures(out: Stream, block: Block) -> None:
    out.v(len(block.failures))
    for failure in block.failures:
        out.v(failure.time_ns, failure.node, len(failure.fields))
        for key, value in failure.fields.items():
            out.s(key)
            out.v(value)
        out.s(failure.text)
        out.v(failure.map + 1)


def maps(out: Stream, block: Block) -> None:
    out.v(len(block.maps))
    for each in block.maps:
        out.s(each.title)
        out.v(each.time_ns, each.kind, each.largest_free, len(each.segments))
        end = 0
        for address, blocks in each.segments:
            length = sum(one.bytes for one in blocks)
            out.v(address - end, length, len(blocks))
            end = address + length
            for one in blocks:
                out.v(one.bytes, one.requested, one.state)
                out.s(one.stream)
                out.v(one.node + 1)


def plan(out: Stream, block: Block) -> None:
    if block.plan is None:
        out.v(0)
        return
    out.v(len(block.plan.pictures))
    out.s(block.plan.name)
    out.v(block.plan.live, block.plan.streams, block.plan.waits)
    for it in block.plan.pictures:
        out.v(it.operations, it.height, it.all, it.share, len(it.blocks))
        before = 0
        for one in it.blocks:
            out.v(one.start - before)
            before = one.start
        for field in ("life", "offset", "bytes", "address"):
            out.v(*(getattr(one, field) for one in it.blocks))
        out.v(*(one.node + 1 for one in it.blocks))


def findings(out: Stream, block: Block) -> None:
    out.v(len(block.findings))
    for finding in block.findings:
        out.s(finding.rule)
        out.v(finding.severity)
        out.s(finding.sentence)
        out.v(len(finding.evidence))
        for line in finding.evidence:
            out.s(line)
        out.s(finding.advice)
        out.v(finding.node + 1, finding.time_ns + 1, finding.bytes)
        out.s(finding.allow)


def strings(out: Stream, table: list[bytes]) -> None:
    out.v(len(table))
    before = b""
    for text in table:
        shared = 0
        while shared < min(len(before), len(text)) and before[shared] == text[shared]:
            shared += 1
        out.v(shared, len(text) - shared)
        out.parts.append(text[shared:])
        before = text


SECTIONS = {
    "META": meta,
    "FRAM": frames,
    "TRIE": trie,
    "SITE": sites,
    "COLS": columns,
    "BAND": bands,
    "SNAP": snaps,
    "PEAK": lambda out, block: out.own(block.peak),
    "EXIT": lambda out, block: out.own(block.exit),
    "TOTL": lambda out, block: out.own(block.total),
    "MARK": marks,
    "FAIL": failures,
    "MAPS": maps,
    "PLAN": plan,
    "FIND": findings,
}


def encode(block: Block, major: int = 1, extra: dict[str, bytes] | None = None) -> bytes:
    """Return the bytes of a block; `extra` are further sections."""
    found: dict[bytes, int] = {b"": 0}
    for write in SECTIONS.values():  # once for its strings
        write(Stream(found), block)
    table = sorted(found)
    places = {text: index for index, text in enumerate(table)}
    texts = Stream({})
    strings(texts, table)
    parts = {"STRS": b"".join(texts.parts)}
    for tag, write in SECTIONS.items():
        out = Stream(places)
        write(out, block)
        parts[tag] = b"".join(out.parts)
    parts |= extra or {}
    offset = len(MAGIC) + 8 + 16 * len(parts)
    head = MAGIC + major.to_bytes(2, "little") + (0).to_bytes(2, "little")
    head += len(parts).to_bytes(4, "little")
    for tag, data in parts.items():
        head += tag.encode()
        for number in (offset, len(data), zlib.crc32(data)):
            head += number.to_bytes(4, "little")
        offset += len(data)
    return head + b"".join(parts.values())


def encode_text(block: Block) -> str:
    """Return a block as the text of its element."""
    return base64.b64encode(encode(block)).decode()
