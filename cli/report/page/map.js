/* map.js -- the addresses of a pool at one moment.
 *
 * All rows have the same bytes a pixel, so that holes can be compared. A segment that is
 * longer than a row goes on in the next one. A pixel that has several blocks shows the
 * state with most of its bytes.
 */

const STATES = [
    // as tarn_pool_block_state
    {text: "live", about: "allocated"},
    {text: "thread cache", about: "free, in the cache of a thread", ground: "#cfe3f5"},
    {text: "free", about: "free for every stream", ground: "#bfe6cf"},
    {
        text: "free behind an event",
        about: "free; another stream waits for an event",
        ground: "#dcebf7",
        ink: "#0072b2aa",
        kind: "hatch"
    },
    {
        text: "unfenced",
        about: "free for its own stream alone",
        ground: "#fbe6bd",
        ink: "#a86400",
        kind: "cross"
    },
    {
        text: "captured",
        about: "free for a captured graph alone",
        ground: "#f0dde8",
        ink: "#8d3f72",
        kind: "dots"
    },
    {text: "no memory", about: "addresses without memory"},
    {
        text: "in transit",
        about: "a call was changing it",
        ground: "#d6d6d6",
        ink: "#7a7a7a",
        kind: "lines"
    },
    {text: "not known", about: "the log does not say what is there"},
];
const [LIVE, UNMAPPED, UNKNOWN] = [0, 6, 8];
const GAP = 6;  // pixels between rows
const MOST_SEGMENTS = 40;
const WRAPPED_ROWS = 16;
const LIVE_HUE = "#9aa1ab";
const address = {
    focus: -1,
    rows: [],
    row: 26,
    bar: 20
};

function makeMap() {
    const place = section("map", "Address map");
    const tools = el("div", {class: "tools"});
    const canvas = el("canvas", {tabindex: "0", role: "img", "aria-label": ""});
    const box = el("div", {class: "plot"}, canvas);
    const bars = el("canvas", {"aria-hidden": "true"});
    const barBox = el("div", {class: "plot"}, bars);
    const legend = el("ul", {class: "legend states"});
    const detail = el("p", {class: "caption detail"});
    const caption = el("p", {class: "caption"});
    const table = asTable("Segments",
        ["address", "bytes", "live", "free", "largest free", "blocks"], mapRows);
    place.append(tools, legend, box, detail, barBox, caption, table);
    Object.assign(
        address, {place, tools, canvas, bars, barBox, legend, detail, caption, table});
    listenMap();
    panel(["m"], drawMap);
}

function shownMap(block) {
    return block.maps[state.m] ?? block.maps[0];
}

function drawMap() {
    const block = shownBlock();
    const map = shownMap(block);
    address.place.hidden = !map;
    if (!map) return;
    address.focus = -1;
    address.map = map;
    address.block = block;
    address.tools.replaceChildren(
        choice("moment", block.maps.map((each, index) => [index, cut(each.title)]),
            block.maps.indexOf(map), (value) => select({m: value})),
        button(`select ${momentText(block, map.time)} in the chart`, () => {
            select({t: map.time});
            keepInView(block, map.time);
        }, {class: "quiet"}));
    layOutMap(map);
    drawMapRows();
    drawMapLegend(map);
    drawMapBars(block, map);
    drawMapDetail();
    address.table.refresh();
}

/** Which bytes each row of the picture has: {segment, from, to} and lines of text. */
function layOutMap(map) {
    const shown = new Set(
        [...map.segments].sort((a, b) => b.bytes - a.bytes).slice(0, MOST_SEGMENTS));
    const segments =
        map.segments.filter((segment) => shown.has(segment) && segment.bytes > 0);
    const folded = map.segments.filter((segment) => !shown.has(segment));
    let most = segments.reduce((largest, segment) => Math.max(largest, segment.bytes), 1);
    const rowsOf = (bytes) =>
        segments.reduce((count, segment) => count + Math.ceil(segment.bytes / bytes), 0);
    while (most > 4096 && rowsOf(most / 2) <= WRAPPED_ROWS) most /= 2;
    const rows = [];
    for (const segment of segments)
        for (let from = 0; from < segment.bytes; from += most)
            rows.push({
                segment,
                from: segment.address + from,
                first: from === 0,
                to: segment.address + Math.min(segment.bytes, from + most)
            });
    Object.assign(address, {rows: withoutEmpty(rows), most, folded});
    address.row = address.rows.length > WRAPPED_ROWS + 4 ? 18 : 26;
    address.bar = address.row - GAP;
}

/** Rows without any memory become one. */
function withoutEmpty(rows) {
    const kept = [];
    for (const row of rows) {
        const {blocks} = row.segment;
        const at = blockAtAddress(blocks, row.from);
        const empty =
            at >= 0 && blocks.state[at] === UNMAPPED && blocks.at[at + 1] >= row.to;
        const before = kept[kept.length - 1];
        if (empty && before?.empty && before.segment === row.segment)
            before.to = row.to;
        else
            kept.push({...row, empty});
    }
    return kept;
}

/** The index of the block with an address. */
function blockAtAddress(blocks, at) {
    let low = 0;
    let high = blocks.count - 1;
    while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (blocks.at[middle] <= at)
            low = middle;
        else
            high = middle - 1;
    }
    return blocks.count ? low : -1;
}

/** The site of a block: its colour slot, or undefined. */
function slotOfNode(block, node) {
    const slots = slotsOfFrames(block);
    for (; node > 0; node = block.trie.parent[node]) {
        const slot = slots.get(block.trie.frame[node]);
        if (slot !== undefined) return slot;
    }
    return undefined;
}

function stateFill(context, block, state, node) {
    if (state === LIVE) {
        const slot = slotOfNode(block, node);
        return slot === undefined ? LIVE_HUE : slotFill(context, slot);
    }
    const {ground, ink, kind} = STATES[state];
    if (state === UNKNOWN) return pattern(context, theme().paper, theme().line, "hatch");
    if (!ground) return theme().paper;
    return kind ? pattern(context, ground, ink, kind) : ground;
}

function drawMapRows() {
    const {rows, most, block, canvas, map} = address;
    const shot = prepare(canvas, Math.max(1, rows.length) * address.row + 2);
    const {context, colours} = shot;
    const left = isNarrow() ? 0 : 132;
    const right = shot.width - (isNarrow() ? 1 : 68);
    const scale = (right - left) / most;
    Object.assign(address, {left, right, scale});
    context.font = SMALL_FONT;
    let bracket = map.largestFree > 0;
    rows.forEach((row, index) => {
        const y = index * address.row + 2;
        const wide = (row.to - row.from) * scale;
        context.fillStyle = row.first ? colours.ink : colours.muted;
        if (!isNarrow()) {
            context.textAlign = "right";
            context.fillText(addressText(row.from), left - 8, y + address.bar - 6);
            context.textAlign = "left";
            if (row.first)
                context.fillText(
                    sizeText(row.segment.bytes), right + 6, y + address.bar - 6);
        }
        if (row.empty) {
            context.textAlign = "left";
            context.fillText(`⋯ no memory for ${sizeText(row.to - row.from)} ⋯`, left + 6,
                y + address.bar - 6);
            return;
        }
        drawRowBlocks(shot, row, y);
        context.strokeStyle = colours.ink;
        context.lineWidth = 1;
        context.globalAlpha = 0.55;
        context.strokeRect(left + 0.5, y + 0.5, Math.max(1, wide - 1), address.bar - 1);
        context.globalAlpha = 1;
        if (bracket) bracket = !bracketLargest(shot, row, y);
    });
    const live = sumOfState(map, LIVE);
    canvas.setAttribute("aria-label",
        `Address map “${cut(map.title)}” at ` +
            `${momentText(address.block, map.time)}: ${
                plural(map.segments.length, "segment")}, ` +
            `${sizeText(live)} live, largest free block ${
                map.largestFree ? sizeText(map.largestFree) : "not known"}. ` +
            "Arrow keys step through the blocks.");
}

function drawRowBlocks({context, colours}, row, y) {
    const {left, scale, block} = address;
    const {blocks} = row.segment;
    const pixels = new Map();  // pixel: bytes by state, of blocks narrower than a pixel
    for (let at = blockAtAddress(blocks, row.from); at < blocks.count; at++) {
        const from = Math.max(row.from, blocks.at[at]);
        const to = Math.min(row.to, blocks.at[at + 1]);
        if (from >= row.to) break;
        if (to <= from) continue;
        const x = left + (from - row.from) * scale;
        const wide = (to - from) * scale;
        if (wide < 1) {
            const pixel = Math.floor(x);
            if (!pixels.has(pixel))
                pixels.set(pixel, {bytes: new Float64Array(STATES.length), node: -1});
            const found = pixels.get(pixel);
            found.bytes[blocks.state[at]] += to - from;
            if (blocks.state[at] === LIVE) found.node = blocks.node[at];
            continue;
        }
        context.fillStyle = stateFill(context, block, blocks.state[at], blocks.node[at]);
        context.fillRect(x, y, wide, address.bar);
        const rounding = blocks.state[at] === LIVE && blocks.requested[at] > 0
            ? (blocks.bytes[at] - blocks.requested[at]) * scale
            : 0;
        context.fillStyle = "#00000055";
        if (rounding >= 1)
            context.fillRect(x + wide - rounding, y, rounding, address.bar);
        context.fillStyle = colours.paper;
        if (wide > 4) context.fillRect(x + wide - 0.75, y, 0.75, address.bar);
    }
    for (const [pixel, found] of pixels) {
        let best = LIVE;
        for (let each = 1; each < STATES.length; each++)
            if (found.bytes[each] > found.bytes[best]) best = each;
        context.fillStyle = stateFill(context, block, best, found.node);
        context.fillRect(pixel, y, 1, address.bar);
    }
}

/** Outline the largest free block, if it is in a row. */
function bracketLargest({context, colours}, row, y) {
    const {left, scale, map} = address;
    const {blocks} = row.segment;
    for (let at = blockAtAddress(blocks, row.from); at < blocks.count; at++) {
        if (blocks.at[at] >= row.to) return false;
        if (blocks.bytes[at] !== map.largestFree ||
            [LIVE, UNMAPPED, UNKNOWN].includes(blocks.state[at]))
            continue;
        if (blocks.at[at] < row.from) continue;
        context.strokeStyle = colours.ink;
        context.lineWidth = 2.5;
        context.strokeRect(left + (blocks.at[at] - row.from) * scale, y + 0.5,
            Math.max(3, (Math.min(row.to, blocks.at[at + 1]) - blocks.at[at]) * scale),
            address.bar - 1);
        return true;
    }
    return false;
}

function addressText(value) {
    const hex = value.toString(16).padStart(12, "0");
    return `0x${hex.slice(0, -8)}_${hex.slice(-8, -4)}_${hex.slice(-4)}`;
}

function sumOfState(map, wanted) {
    let sum = 0;
    for (const {blocks} of map.segments)
        for (let at = 0; at < blocks.count; at++)
            if (blocks.state[at] === wanted) sum += blocks.bytes[at];
    return sum;
}

function drawMapLegend(map) {
    const items =
        STATES.map((state, index) => [index, sumOfState(map, index)])
            .filter(([, bytes]) => bytes > 0)
            .map(([index, bytes]) => {
                const swatch = el("canvas", {class: "swatch", width: "14", height: "12"});
                const context = swatch.getContext("2d");
                context.fillStyle = stateFill(context, address.block, index, -1);
                context.fillRect(0, 0, 14, 12);
                return el("li", {title: STATES[index].about, "data-state": String(index)},
                    swatch, el("span", {}, STATES[index].text),
                    size(bytes, "span", {class: "n"}));
            });
    address.legend.replaceChildren(...items);
}

/** The largest free block beside the requested bytes, in the scale of the map. */
function drawMapBars(block, map) {
    const failure = block.failures.find((each) => block.maps[each.map] === map);
    const wanted = failure?.fields.get("requested");
    address.barBox.hidden = !(wanted > 0);
    const parts = [];
    if (map.largestFree > 0)
        parts.push(`Outlined: the largest free block, ${sizeText(map.largestFree)}`);
    if (address.folded.length)
        parts.push(`${plural(address.folded.length, "smaller segment")} of ` +
            `${
                sizeText(address.folded.reduce(
                    (sum, each) => sum + each.bytes, 0))} not drawn`);
    parts.push(`a row has at most ${sizeText(address.most)}; all rows have one scale`);
    parts.push("live blocks have the colour of their site");
    address.caption.textContent =
        parts.map((part) => part[0].toUpperCase() + part.slice(1)).join(". ") + ".";
    if (address.barBox.hidden) return;
    const {context, colours} = prepare(address.bars, 46);
    const {left, right} = address;
    const widest = Math.max(wanted, map.largestFree);
    const scale = Math.min(address.scale, (right - left) / widest);
    if (scale < address.scale)
        address.caption.append(" The two bars have a scale of their own.");
    const bar = (y, bytes, text, fillStyle) => {
        const wide = Math.min(right - left, Math.max(1, bytes * scale));
        context.fillStyle = fillStyle;
        context.fillRect(left, y, wide, 14);
        context.strokeStyle = colours.ink;
        context.setLineDash([4, 3]);
        context.lineWidth = 1;
        context.strokeRect(left + 0.5, y + 0.5, wide - 1, 13);
        context.setLineDash([]);
        context.font = SMALL_FONT;
        context.fillStyle = colours.ink;
        context.textAlign = "left";
        const label = `${text} ${sizeText(bytes)}`;
        const fits = left + wide + 8 + context.measureText(label).width < right;
        if (!fits) {
            context.fillStyle = colours.paper;
            context.fillRect(left + 6, y + 1, context.measureText(label).width + 6, 12);
            context.fillStyle = colours.ink;
        }
        context.fillText(label, fits ? left + wide + 6 : left + 9, y + 11);
    };
    bar(4, wanted, "requested", "#b3261e33");
    if (map.largestFree > 0)
        bar(26, map.largestFree, "largest free block", STATES[2].ground);
}

// --- one block ---

function drawMapDetail(found) {
    const {detail, block} = address;
    if (!found) {
        detail.replaceChildren(el("span", {class: "muted"},
            "Point at a block, or step through them with the arrow keys."));
        return;
    }
    const {blocks, at} = found;
    const node = blocks.node[at];
    const stream = block.strings[blocks.stream[at]];
    const frame = node > 0 ? block.trie.frame[siteNode(block, node)] : -1;
    detail.replaceChildren(addressText(blocks.at[at]), ": ", size(blocks.bytes[at], "b"),
        " ", STATES[blocks.state[at]].text,
        blocks.requested[at] ? `, ${sizeText(blocks.requested[at])} requested` : "",
        stream ? ", stream " : "", stream ? name(cut(stream)) : "", node > 0 ? ", " : "",
        node > 0 ? name(frameName(block, frame)) : "");
}

function mapBlockAt(event) {
    const {canvas, rows, left, scale} = address;
    const place = canvas.getBoundingClientRect();
    const row = rows[Math.floor((event.clientY - place.top) / address.row)];
    const bytes = (event.clientX - place.left - left) / scale;
    if (!row || bytes < 0 || row.from + bytes >= row.to) return undefined;
    return {
        blocks: row.segment.blocks,
        at: blockAtAddress(row.segment.blocks, row.from + bytes)
    };
}

/** Move the focus over the blocks of all segments. */
function stepMap(by) {
    const {map} = address;
    const starts = [];
    let count = 0;
    for (const segment of map.segments) {
        starts.push(count);
        count += segment.blocks.count;
    }
    if (count === 0) return;
    address.focus = Math.max(0, Math.min(count - 1, address.focus + by));
    const index = starts.findLastIndex((start) => start <= address.focus);
    const {blocks} = map.segments[index];
    const found = {blocks, at: address.focus - starts[index]};
    drawMapRows();
    drawMapDetail(found);
    outlineBlock(found);
    announce(address.detail.textContent);
}

function outlineBlock({blocks, at}) {
    const {rows, left, scale, canvas} = address;
    const index = rows.findIndex((row) => row.segment.blocks === blocks &&
            blocks.at[at] >= row.from && blocks.at[at] < row.to);
    if (index < 0) return;
    const context = canvas.getContext("2d");
    context.strokeStyle = theme().accent;
    context.lineWidth = 3;
    context.strokeRect(left + (blocks.at[at] - rows[index].from) * scale,
        index * address.row + 1, Math.max(3, blocks.bytes[at] * scale), address.bar + 2);
}

function listenMap() {
    const {canvas} = address;
    canvas.addEventListener("pointermove", (event) => {
        const found = mapBlockAt(event);
        if (!found) return hideTip();
        drawMapDetail(found);
        return showTip(
            event, ...[...address.detail.childNodes].map((node) => node.cloneNode(true)));
    });
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("keydown", (event) => {
        const by = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10}[event.key];
        if (!by) return;
        event.preventDefault();
        event.stopPropagation();
        stepMap(by);
    });
}

function mapRows() {
    return address.map.segments.slice(0, 200).map(({address: at, bytes, blocks}) => {
        let [live, free, largest] = [0, 0, 0];
        for (let each = 0; each < blocks.count; each++) {
            if (blocks.state[each] === LIVE)
                live += blocks.bytes[each];
            else if (![UNMAPPED, UNKNOWN].includes(blocks.state[each])) {
                free += blocks.bytes[each];
                largest = Math.max(largest, blocks.bytes[each]);
            }
        }
        return [
            addressText(at),
            ...[bytes, live, free, largest].map(
                (value) => size(value, "td", {class: "n"})),
            el("td", {class: "n"}, grouped(blocks.count))
        ];
    });
}
