"""Makes logs for the tests of `tarn report`, and reads the data blocks of its pages."""

import base64
import re
import struct
import zlib

from cli_tool import NBEP7

NONE = (1 << 64) - 1  # the stream of a call without one
ALLOCATE, FREE, FAILURE = 0, 1, 2


def seconds(ns):
    """Nanoseconds as the log writes them."""
    return f"{ns // 10**9}.{ns % 10**9:09d}"


def csv(rows):
    """A log of NBEP 7 of (action, address, stream, bytes, start ns, location, end ns)."""
    names = {ALLOCATE: "Alloc", FREE: "Free", FAILURE: "Alloc Failure"}
    lines = [NBEP7]
    for action, address, stream, size, start, location, *end in rows:
        stream = "none" if stream == NONE else stream
        place = '"' + location.replace('"', '""') + '"'
        times = f"{seconds(start)},{seconds(end[0] if end else start)},0"
        lines.append(f"{names[action]},0,{address:#x},{stream},{size},0,0,0,{times},{place}\n")
    return "".join(lines).encode(errors="surrogateescape")


# --- pages ------------------------------------------------------------------------------


class Reader:
    """Reads the numbers of a section."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def v(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def z(self):
        value = self.v()
        return value >> 1 ^ -(value & 1)

    def array(self, count):
        return [self.v() for _ in range(count)]

    def bytes(self, count):
        self.at += count
        assert self.at <= len(self.data)
        return self.data[self.at - count : self.at]


def sections(data):
    """The sections of a data block, each checked against its CRC."""
    magic, major, _minor, count = struct.unpack_from("<8sHHI", data)
    assert magic == b"TARNREP\0" and major == 1
    found = {}
    for i in range(count):
        tag, offset, length, crc = struct.unpack_from("<4sIII", data, 16 + 16 * i)
        part = data[offset : offset + length]
        assert len(part) == length and zlib.crc32(part) == crc
        found[tag.decode()] = Reader(part)
    return found


def _strings(r):
    texts, last = [], b""
    for _ in range(r.v()):
        shared = r.v()
        last = last[:shared] + r.bytes(r.v())
        texts.append(last.decode(errors="surrogateescape"))
    return texts


def _meta(r):
    pairs = {}
    for _ in range(r.v()):
        key = r.bytes(r.v()).decode()
        pairs[key] = r.bytes(r.v()).decode(errors="surrogateescape")
    return {key: int(text) if text.isdigit() else text for key, text in pairs.items()}


def _entries(r):
    node, found = 0, {}
    for _ in range(r.v()):
        node += r.v()
        found[node] = (r.v(), r.v())
    return found


def _snapshots(r):
    found, values = [], {}
    for _ in range(r.v()):
        column, time, node = r.v(), r.v(), 0
        for _ in range(r.v()):
            node += r.v()
            values[node] = values.get(node, 0) + r.z()
        found.append((column, time, {node: size for node, size in values.items() if size}))
    return found


def _bands(r, s, columns):
    found = {}
    for _ in range(r.v()):
        name, bands = s[r.v()], []
        for _ in range(r.v()):
            band = dict(zip(["label", "kind", "colour", "members", "frame"], r.array(5)))
            band["label"], band["frame"] = s[band["label"]], band["frame"] - 1
            band["bytes"], value = [], 0
            for _ in range(columns):
                value += r.z()
                band["bytes"].append(value)
            bands.append(band)
        found[name] = bands
    return found


SITE = [
    "peak",
    "end",
    "held",
    "total",
    "count",
    "frees",
    "largest",
    "distinct",
    "median",
    "p99",
    "rate",
]


def _sites(r, s):
    count = r.v()
    frames, frameworks = r.array(count), [s[r.v()] for _ in range(count)]
    fields = [r.array(count) for _ in SITE]
    sites = [dict(zip(SITE, values)) for values in zip(*fields)]
    for site, frame, framework in zip(sites, frames, frameworks):
        site.update(frame=frame, framework=framework, parts=r.array(64))
    return sites


def _failures(r, s):
    found = []
    for _ in range(r.v()):
        failure = {"time": r.v(), "node": r.v()}
        failure["fields"] = {s[r.v()]: r.v() for _ in range(r.v())}
        failure["text"], failure["map"] = s[r.v()], r.v() - 1
        found.append(failure)
    return found


def _maps(r, s):
    found = []
    for _ in range(r.v()):
        one = {"title": s[r.v()], "time": r.v(), "kind": r.v(), "largest": r.v(), "segments": []}
        end = 0
        for _ in range(r.v()):
            begin = end + r.v()
            size, blocks = r.v(), []
            for _ in range(r.v()):
                blocks.append((r.v(), r.v(), r.v(), s[r.v()], r.v() - 1))
            assert sum(block[0] for block in blocks) == size
            end = begin + size
            one["segments"].append((begin, size, blocks))
        found.append(one)
    return found


def _plan(r, s):
    if r.v() == 0:
        return None
    plan = {"name": s[r.v()], "live": r.v(), "streams": r.v(), "waits": r.v(), "pictures": []}
    for _ in range(2):
        one = {"operations": r.v(), "height": r.v(), "all": r.v(), "share": r.v()}
        count = r.v()
        fields = ["start", "life", "offset", "bytes", "address", "node"]
        arrays = [r.array(count) for _ in fields]
        one["blocks"] = [dict(zip(fields, values)) for values in zip(*arrays)]
        start = 0
        for block in one["blocks"]:
            start += block["start"]
            block["start"], block["node"] = start, block["node"] - 1
        plan["pictures"].append(one)
    return plan


def _findings(r, s):
    found = []
    for _ in range(r.v()):
        one = {"rule": s[r.v()], "hint": bool(r.v()), "sentence": s[r.v()]}
        one["evidence"] = [s[r.v()] for _ in range(r.v())]
        one.update(advice=s[r.v()], node=r.v() - 1, time=r.v() - 1, bytes=r.v(), allow=s[r.v()])
        found.append(one)
    return found


def decode(data):
    """Everything that a data block says."""
    found = sections(data)
    s = _strings(found["STRS"])
    block = {"meta": _meta(found["META"])}
    r = found["FRAM"]
    count = r.v()
    names = [[s[r.v()] for _ in range(count)] for _ in range(2)]
    lines, flags = r.array(count), r.array(count)
    frameworks = [s[r.v()] for _ in range(count)]
    block["frames"] = list(zip(*names, lines, flags, frameworks))
    r = found["TRIE"]
    count = r.v()
    parents = [0] + [i - r.v() for i in range(1, count)]
    nodes = [(0, None, 0)]
    for parent in parents[1:]:
        frame = r.v()
        nodes.append((parent, frame, r.v() if frame == len(block["frames"]) else 0))
    block["nodes"] = nodes
    r = found["COLS"]
    count, block["width"], block["start"] = r.v(), r.v(), r.v()
    fields = ["max", "offset", "min", "allocations", "frees", "reserved", "used"]
    arrays = [r.array(count) for _ in fields]
    block["columns"] = [dict(zip(fields, values)) for values in zip(*arrays)]
    block["sites"] = _sites(found["SITE"], s)
    block["bands"] = _bands(found["BAND"], s, count)
    block["snapshots"] = _snapshots(found["SNAP"])
    for name, tag in ("peak", "PEAK"), ("held", "EXIT"), ("total", "TOTL"):
        block[name] = _entries(found[tag])
    r = found["MARK"]
    block["marks"] = [(r.v(), r.v(), s[r.v()], r.v()) for _ in range(r.v())]
    block["failures"] = _failures(found["FAIL"], s)
    block["maps"] = _maps(found["MAPS"], s)
    block["plan"] = _plan(found["PLAN"], s) if "PLAN" in found else None
    block["findings"] = _findings(found["FIND"], s)
    assert all(part.at == len(part.data) for part in found.values())
    return block


def blocks(page):
    """The data blocks of a page."""
    found = re.findall(rb'<script type="text/plain" id="tarn-data-\d+">([^<]*)</script>', page)
    return [decode(base64.b64decode(one, validate=True)) for one in found]


def path_of(block, node):
    """The frames of a node, the outermost first: (function, file, line)."""
    path = []
    while node:
        parent, frame, smaller = block["nodes"][node]
        path.insert(0, f"{smaller} smaller" if smaller else block["frames"][frame][:3])
        node = parent
    return path
