"use strict";
/* decode.js -- reads the data blocks of the page into arrays.
 *
 * Little endian; sections with a tag, an offset, a length and a CRC-32. Numbers are LEB128,
 * read as doubles: figures above 2^53 lose their last digits. Each count is compared with
 * the bytes that are left before anything is allocated, so damaged bytes give a Damage and
 * neither a long loop nor a large array.
 */

const MAGIC = "TARNREP\0";
const MAJOR = 1;

/** Bytes that are no data block, and why. */
class Damage extends Error {}

const CRC_TABLE = Uint32Array.from({length: 256}, (_, value) => {
    for (let bit = 0; bit < 8; bit++)
        value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
    return value >>> 0;
});

function crc32(bytes, begin, end) {
    let crc = 0xffffffff;
    for (let at = begin; at < end; at++)
        crc = (crc >>> 8) ^ CRC_TABLE[(crc ^ bytes[at]) & 255];
    return (crc ^ 0xffffffff) >>> 0;
}

/** Reads one section. */
class Reader {
    constructor(bytes, begin, end, tag) {
        this.bytes = bytes;
        this.at = begin;
        this.end = end;
        this.tag = tag;
    }

    fail(what) {
        throw new Damage(`section ${this.tag}: ${what}`);
    }

    /** An unsigned number. */
    v() {
        let byte =
            this.at < this.end ? this.bytes[this.at++] : this.fail("it ends too early");
        if (byte < 128) return byte;
        let value = byte & 127;
        for (let scale = 128; byte > 127; scale *= 128) {
            if (this.at >= this.end || scale > 2 ** 63)
                this.fail("a number does not end");
            byte = this.bytes[this.at++];
            value += (byte & 127) * scale;
        }
        return value;
    }

    /** A signed number, zigzag. */
    z() {
        const value = this.v();
        return value % 2 ? -(value + 1) / 2 : value / 2;
    }

    /** A number below a bound. */
    below(bound, what) {
        const value = this.v();
        return value < bound ? value : this.fail(`${what} ${value} of ${bound}`);
    }

    /** A count of things that have at least `least` bytes each. */
    count(least = 1) {
        const count = this.v();
        if (count * least > this.end - this.at)
            this.fail(`${count} entries in ${this.end - this.at} bytes`);
        return count;
    }

    /** An array of numbers. */
    numbers(count, out = new Float64Array(count)) {
        if (count > this.end - this.at)
            this.fail(`${count} numbers in ${this.end - this.at} bytes`);
        for (let index = 0; index < count; index++) out[index] = this.v();
        return out;
    }

    /** An array of indexes below a bound. */
    indexes(count, bound, what) {
        if (count > this.end - this.at)
            this.fail(`${count} numbers in ${this.end - this.at} bytes`);
        const out = new Uint32Array(count);
        for (let index = 0; index < count; index++) out[index] = this.below(bound, what);
        return out;
    }

    take(length) {
        if (length > this.end - this.at)
            this.fail(`${length} bytes of ${this.end - this.at}`);
        this.at += length;
        return this.bytes.subarray(this.at - length, this.at);
    }
}

/** The bytes of base64 text. */
function fromBase64(text) {
    let binary;
    try {
        binary = atob(text);
    } catch {
        throw new Damage("the data is no base64 text");
    }
    const bytes = new Uint8Array(binary.length);
    for (let at = 0; at < bytes.length; at++) bytes[at] = binary.charCodeAt(at);
    return bytes;
}

/** The sections of a block, by tag; each CRC is compared. */
function sectionsOf(bytes) {
    const view = new DataView(bytes.buffer);
    if (bytes.length < 16 ||
        !MAGIC.split("").every((c, at) => bytes[at] === c.charCodeAt(0)))
        throw new Damage("the data does not begin as a report's does");
    const major = view.getUint16(8, true);
    if (major !== MAJOR)
        throw new Damage(
            `the data has version ${major}, this page's script reads ${MAJOR}`);
    const count = view.getUint32(12, true);
    if (count * 16 > bytes.length - 16) throw new Damage(`${count} sections do not fit`);
    const sections = new Map();
    for (let at = 16; at < 16 + count * 16; at += 16) {
        const tag = String.fromCharCode(...bytes.subarray(at, at + 4));
        const [begin, length, crc] = [4, 8, 12].map((o) => view.getUint32(at + o, true));
        if (begin + length > bytes.length) throw new Damage(`section ${tag} is cut off`);
        if (crc32(bytes, begin, begin + length) !== crc)
            throw new Damage(`section ${tag} is damaged: its checksum differs`);
        sections.set(tag, new Reader(bytes, begin, begin + length, tag));
    }
    return sections;
}

const UTF8 = new TextDecoder("utf-8", {ignoreBOM: true});

/** The text of bytes, made fit to be shown. */
function textOf(bytes) {
    return visible(UTF8.decode(bytes));
}

function readMeta(reader) {
    const meta = new Map();
    for (let left = reader.count(2); left > 0; left--) {
        const key = textOf(reader.take(reader.v()));
        meta.set(key, textOf(reader.take(reader.v())));
    }
    return meta;
}

function readStrings(reader) {
    const strings = new Array(reader.count(2));
    let before = new Uint8Array(256);
    let length = 0;
    for (let index = 0; index < strings.length; index++) {
        const shared = reader.v();
        const further = reader.take(reader.v());
        if (shared > length)
            reader.fail(`${shared} bytes of a text of ${length} are shared`);
        length = shared + further.length;
        if (length > before.length) {
            const grown = new Uint8Array(length * 2);
            grown.set(before.subarray(0, shared));
            before = grown;
        }
        before.set(further, shared);
        strings[index] = textOf(before.subarray(0, length));
    }
    return strings;
}

function readFrames(reader, block) {
    const count = reader.count(5);
    const texts = () => reader.indexes(count, block.strings.length, "text");
    return {
        count,
        function: texts(),
        file: texts(),
        line: reader.numbers(count),
        flags: reader.numbers(count, new Uint8Array(count)),
        framework: texts(),
    };
}

/** The trie of stacks: for each node its parent and its frame; node 0 is the root. */
function readTrie(reader, block) {
    const count = reader.v();
    if (count < 1 || (count - 1) * 2 > reader.end - reader.at)
        reader.fail(`${count} nodes`);
    const trie = {
        count,
        parent: new Uint32Array(count),
        frame: new Uint32Array(count),
        smaller: new Map(),
    };
    for (let node = 1; node < count; node++) {
        const delta = reader.v();
        if (delta < 1 || delta > node) reader.fail(`a node before the root`);
        trie.parent[node] = node - delta;
    }
    trie.frame[0] = block.frames.count;
    for (let node = 1; node < count; node++) {
        trie.frame[node] = reader.below(block.frames.count + 1, "frame");
        if (trie.frame[node] === block.frames.count) trie.smaller.set(node, reader.v());
    }
    return trie;
}

const SITE_FIELDS = [
    "peak", "end", "held", "total", "allocations", "frees", "largest", "addresses",
    "median", "p99", "rate"
];
const TREND = 64;  // windows of a site's trend

function readSites(reader, block) {
    const count = reader.count(13 + TREND);
    const sites = {
        count,
        frame: reader.indexes(count, block.frames.count + 1, "frame"),
        framework: reader.indexes(count, block.strings.length, "text"),
    };
    for (const field of SITE_FIELDS) sites[field] = reader.numbers(count);
    sites.trend = reader.numbers(count * TREND);
    return sites;
}

function readColumns(reader) {
    const count = reader.count(7);
    const columns = {count, width: Math.max(1, reader.v()), start: reader.v()};
    for (const field
             of ["high", "offset", "low", "allocations", "frees", "reserved", "used"])
        columns[field] = reader.numbers(count);
    return columns;
}

function readText(reader, block) {
    return block.strings[reader.below(block.strings.length, "text")];
}

function readGroupings(reader, block) {
    const groupings = new Map();
    const columns = block.columns.count;
    for (let left = reader.count(2); left > 0; left--) {
        const name = readText(reader, block);
        const bands = [];
        for (let more = reader.count(5 + columns); more > 0; more--) {
            const band = {
                label: readText(reader, block),
                kind: reader.below(3, "kind"),
                slot: reader.below(12, "colour"),
                members: reader.v(),
                frame: reader.below(block.frames.count + 1, "frame") - 1,
                values: new Float64Array(columns),
            };
            band.label ||= frameName(block, band.frame);
            let value = 0;
            for (let column = 0; column < columns; column++)
                band.values[column] = value += reader.z();
            bands.push(band);
        }
        groupings.set(name, bands);
    }
    return groupings;
}

/** A list of nodes with own bytes and own blocks. */
function readOwn(reader, block) {
    const count = reader.count(3);
    const own = {
        nodes: new Uint32Array(count),
        bytes: new Float64Array(count),
        blocks: new Float64Array(count)
    };
    let node = 0;
    for (let index = 0; index < count; index++) {
        node += reader.v();
        if (node >= block.trie.count) reader.fail(`node ${node} of ${block.trie.count}`);
        own.nodes[index] = node;
        own.bytes[index] = reader.v();
        own.blocks[index] = reader.v();
    }
    return own;
}

function readSnapshots(reader, block) {
    const snapshots = [];
    for (let left = reader.count(3); left > 0; left--) {
        const column = reader.below(block.columns.count, "column");
        const time = reader.v();
        const count = reader.count(2);
        const snapshot = {
            column,
            time,
            nodes: new Uint32Array(count),
            changes: new Float64Array(count)
        };
        let node = 0;
        for (let index = 0; index < count; index++) {
            node += reader.v();
            if (node >= block.trie.count)
                reader.fail(`node ${node} of ${block.trie.count}`);
            snapshot.nodes[index] = node;
            snapshot.changes[index] = reader.z();
        }
        snapshots.push(snapshot);
    }
    return snapshots;
}

/** A list of records, each read by `read`. */
function readList(reader, least, read) {
    const list = [];
    for (let left = reader.count(least); left > 0; left--) list.push(read());
    return list;
}

function readMarks(reader, block) {
    return readList(reader, 4, () => ({
        time: reader.v(),
        kind: reader.below(5, "kind"),
        text: readText(reader, block),
        bytes: reader.v()
    }));
}

function readFailures(reader, block) {
    return readList(reader, 5, () => ({
        time: reader.v(),
        node: reader.below(block.trie.count, "node"),
        fields: new Map(readList(reader, 2, () => [readText(reader, block), reader.v()])),
        text: readText(reader, block),
        map: reader.v() - 1,
    }));
}

function readMaps(reader, block) {
    return readList(reader, 5, () => {
        const map = {
            title: readText(reader, block),
            time: reader.v(),
            kind: reader.v(),
            largestFree: reader.v()
        };
        let end = 0;
        map.segments = readList(reader, 3, () => {
            const segment = {address: end + reader.v(), bytes: reader.v()};
            end = segment.address + segment.bytes;
            segment.blocks = readMapBlocks(reader, block, segment.address);
            return segment;
        });
        return map;
    });
}

/** The blocks of a segment, as arrays; `at` has their addresses, and the end. */
function readMapBlocks(reader, block, address) {
    const count = reader.count(5);
    const blocks = {
        count,
        at: new Float64Array(count + 1),
        bytes: new Float64Array(count),
        requested: new Float64Array(count),
        state: new Uint8Array(count),
        stream: new Uint32Array(count),
        node: new Int32Array(count)
    };
    blocks.at[0] = address;
    for (let index = 0; index < count; index++) {
        blocks.bytes[index] = reader.v();
        blocks.requested[index] = reader.v();
        blocks.state[index] = reader.below(9, "state");
        blocks.stream[index] = reader.below(block.strings.length, "text");
        blocks.node[index] = reader.below(block.trie.count + 1, "node") - 1;
        blocks.at[index + 1] = blocks.at[index] + blocks.bytes[index];
    }
    return blocks;
}

/** The blocks of a picture, as arrays. Offsets are in bytes from its lower edge. */
function readPicture(reader, block) {
    const [operations, height, all, share] = reader.numbers(4);
    const count = reader.count(6);
    const picture = {operations, height, all, share: share / 10000, count};
    const start = picture.start = reader.numbers(count);
    for (let index = 1; index < count; index++) start[index] += start[index - 1];
    for (const field of ["life", "offset", "bytes", "address"])
        picture[field] = reader.numbers(count);
    picture.node = Int32Array.from(
        reader.indexes(count, block.trie.count + 1, "node"), (node) => node - 1);
    for (let index = 0; index < count; index++)
        if (start[index] + picture.life[index] > operations ||
            picture.offset[index] + picture.bytes[index] > height * (1 + 1e-9))
            reader.fail(`block ${index} is outside of the picture`);
    return picture;
}

/** A plan and the run beside it; undefined if the page has none. */
function readPlan(reader, block) {
    const count = reader.v();
    if (count === 0) return undefined;
    if (count !== 2) reader.fail(`${count} pictures`);
    return {
        name: readText(reader, block),
        live: reader.v(),
        streams: reader.v(),
        waits: reader.v(),
        pictures: [readPicture(reader, block), readPicture(reader, block)]
    };
}

function readFindings(reader, block) {
    return readList(reader, 9, () => ({
        rule: readText(reader, block),
        severity: reader.v(),
        sentence: readText(reader, block),
        evidence: readList(reader, 1, () => readText(reader, block)),
        advice: readText(reader, block),
        node: reader.below(block.trie.count + 1, "node") - 1,
        time: reader.v() - 1,
        bytes: reader.v(),
        allow: readText(reader, block),
    }));
}

/** What a section's absence means. */
const EMPTY = {
    META: [0],
    STRS: [1, 0, 0],
    FRAM: [0],
    TRIE: [1],
    SITE: [0],
    COLS: [0, 1, 0],
    BAND: [0],
    SNAP: [0],
    PEAK: [0],
    EXIT: [0],
    TOTL: [0],
    MARK: [0],
    FAIL: [0],
    MAPS: [0],
    PLAN: [0],
    FIND: [0],
};

/** Decode a block. Snapshots are decoded when a time is selected first. */
function decodeBlock(text) {
    const sections = sectionsOf(fromBase64(text));
    const of = (tag) => sections.get(tag) ??
        new Reader(Uint8Array.from(EMPTY[tag]), 0, EMPTY[tag].length, tag);
    const block = {meta: readMeta(of("META")), strings: readStrings(of("STRS"))};
    if (block.strings.length === 0) block.strings.push("");
    block.frames = readFrames(of("FRAM"), block);
    block.trie = readTrie(of("TRIE"), block);
    block.sites = readSites(of("SITE"), block);
    block.columns = readColumns(of("COLS"));
    block.groupings = readGroupings(of("BAND"), block);
    block.peak = readOwn(of("PEAK"), block);
    block.exit = readOwn(of("EXIT"), block);
    block.total = readOwn(of("TOTL"), block);
    block.marks = readMarks(of("MARK"), block);
    block.failures = readFailures(of("FAIL"), block);
    block.maps = readMaps(of("MAPS"), block);
    block.plan = readPlan(of("PLAN"), block);
    block.findings = readFindings(of("FIND"), block);
    block.readSnapshots = () => (block.snapshots ??= readSnapshots(of("SNAP"), block));
    return block;
}

/** A figure of META, or undefined if the block does not have it. */
function figure(block, key) {
    const text = block.meta.get(key);
    return text !== undefined && /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : undefined;
}
