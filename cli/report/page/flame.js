/* flame.js -- the stacks that own the bytes, as an icicle: the root is at the top, and the
 * width of a box is its bytes.
 *
 * The trie of the data becomes a tree of boxes: hidden frames are taken out, direct
 * recursion is folded, boxes of the same frame below the same parent are one. A comparison
 * puts both sides into one tree. There frames match by file and function, not by line.
 */

const ROW = 21;  // pixels a level
const EDGE = 9;  // pixels at the left of a box that have the full colour of its site
const MOST_LEVELS = 64;
const flame = {
    focus: 0,
    boxes: [],
    hover: -1,
    matches: null
};

// --- the bytes that are shown ---

/** The own bytes of all nodes at a snapshot. */
function snapshotOwn(block, index) {
    const snapshots = block.readSnapshots();
    let cache = block.snapshotCache;
    if (!cache || cache.at > index)
        cache = block.snapshotCache = {at: -1, bytes: new Float64Array(block.trie.count)};
    while (cache.at < index) {
        const {nodes, changes} = snapshots[++cache.at];
        for (let at = 0; at < nodes.length; at++) cache.bytes[nodes[at]] += changes[at];
    }
    const nodes = [];
    for (let node = 0; node < cache.bytes.length; node++)
        if (cache.bytes[node] > 0) nodes.push(node);
    return {nodes, bytes: nodes.map((node) => cache.bytes[node]), blocks: null};
}

/** The snapshot nearest to a time: its index, or -1. */
function nearestSnapshot(block, time) {
    const snapshots = block.readSnapshots();
    let best = -1;
    snapshots.forEach((snapshot, index) => {
        if (best < 0 ||
            Math.abs(snapshot.time - time) < Math.abs(snapshots[best].time - time))
            best = index;
    });
    return best;
}

/** Own bytes at the selected time, or undefined. */
function ownAtSelection(block) {
    if (state.t < 0) return undefined;
    const index = nearestSnapshot(block, state.t);
    return index < 0 ? undefined
                     : {...snapshotOwn(block, index), time: block.snapshots[index].time};
}

function ownOf(block, what) {
    if (what === "time") return ownAtSelection(block) ?? block.peak;
    return what === "exit" ? block.exit : what === "total" ? block.total : block.peak;
}

// --- the tree of boxes ---

const HIDDEN_FLAGS = 7;  // library code, native frames, the interpreter

class BoxTree {
    constructor() {
        this.parent = [0];
        this.key = [-1];
        this.bytes = [0];
        this.before = [0];  // of the other side of a comparison
        this.blocks = [0];
        this.source = [null];  // [block, frame, node]
        this.sourceBefore = [null];
        this.folds = [1];
        this.smaller = [0];
        this.slots = new Int32Array(1024);  // a hash table: the boxes, 0 if it is free
        this.children = null;
    }

    /** The place of a box in the hash table, or the free one where it belongs. */
    slotOf(parent, key) {
        const mask = this.slots.length - 1;
        const hash = Math.imul(Math.imul(parent, 0x9e3779b1) + key, 0x85ebca6b);
        let slot = (hash ^ (hash >>> 15)) & mask;
        for (let box; (box = this.slots[slot]) !== 0; slot = (slot + 1) & mask)
            if (this.parent[box] === parent && this.key[box] === key) break;
        return slot;
    }

    /** Keep half of the hash table free. */
    widen() {
        if (this.parent.length * 2 < this.slots.length) return;
        this.slots = new Int32Array(this.slots.length * 2);
        for (let box = 1; box < this.parent.length; box++)
            this.slots[this.slotOf(this.parent[box], this.key[box])] = box;
    }

    child(parent, key, source, isBefore) {
        this.widen();
        const slot = this.slotOf(parent, key);
        let box = this.slots[slot];
        if (box === 0) {
            box = this.slots[slot] = this.parent.length;
            this.parent.push(parent);
            this.key.push(key);
            for (const array of [this.bytes, this.before, this.blocks, this.smaller])
                array.push(0);
            this.source.push(null);
            this.sourceBefore.push(null);
            this.folds.push(1);
        }
        const sources = isBefore ? this.sourceBefore : this.source;
        sources[box] ??= source;
        return box;
    }

    add(box, bytes, blocks, isBefore) {
        if (isBefore)
            this.before[box] += bytes;
        else {
            this.bytes[box] += bytes;
            this.blocks[box] += blocks;
        }
    }

    /** Add up own bytes to those of whole boxes, and sort: the largest first. */
    finish() {
        const {parent, bytes} = this;
        for (let box = parent.length - 1; box > 0; box--)
            for (const array of [bytes, this.before, this.blocks])
                array[parent[box]] += array[box];
        this.children = parent.map(() => []);
        for (let box = 1; box < parent.length; box++)
            this.children[parent[box]].push(box);
        const names = new Map();
        const nameOf = (box) => {
            if (!names.has(box)) names.set(box, boxName(this, box));
            return names.get(box);
        };
        for (const list of this.children)
            list.sort((a, b) => bytes[b] - bytes[a] || this.before[b] - this.before[a] ||
                    (nameOf(a) < nameOf(b) ? -1 : 1));
        this.depth = new Uint16Array(parent.length);
        for (let box = 1; box < parent.length; box++)
            this.depth[box] = Math.min(65535, this.depth[parent[box]] + 1);
    }

    path(box) {
        const keys = [];
        for (; box > 0; box = this.parent[box]) keys.unshift(this.key[box]);
        return keys.join(".");
    }

    /** The box of a path, or its deepest ancestor that is there. */
    find(path) {
        let box = 0;
        for (const key of path ? path.split(".") : []) {
            const next = this.slots[this.slotOf(box, Number(key))];
            if (next === 0 || this.bytes[next] === 0) break;
            box = next;
        }
        return box;
    }
}

const NO_LOCATION = -2;  // keys of boxes that are no frame
const SMALLER = -3;

/** Put the own bytes of a block into a tree. `keyOf` says which frames are the same. */
function growTree(tree, block, own, keyOf, isBefore, factor = 1) {
    const {trie, frames} = block;
    const boxOf = new Int32Array(trie.count).fill(-1);
    const runs = new Map();  // node: how often its frame recurred directly up to it
    boxOf[0] = 0;
    const hidden = (frame) => state.h === 1 && (frames.flags[frame] & HIDDEN_FLAGS) !== 0;
    const below = (box, node, last) => {
        const frame = trie.frame[node];
        if (frame === frames.count) {
            const small = tree.child(box, SMALLER, [block, -1, node], isBefore);
            if (!isBefore) tree.smaller[small] += trie.smaller.get(node) ?? 0;
            return small;
        }
        if (hidden(frame)) {
            if (runs.has(last)) runs.set(node, runs.get(last));
            return box;
        }
        const key = keyOf(frame);
        if (box > 0 && tree.key[box] === key) {
            runs.set(node, (runs.get(last) ?? 1) + 1);
            tree.folds[box] = Math.max(tree.folds[box], runs.get(node));
            return box;
        }
        return tree.child(box, key, [block, frame, node], isBefore);
    };
    const fromRoot = (node) => {
        const pending = [];
        for (; boxOf[node] < 0; node = trie.parent[node]) pending.push(node);
        let box = boxOf[node];
        while (pending.length) {
            node = pending.pop();
            box = boxOf[node] = below(box, node, trie.parent[node]);
        }
        return box;
    };
    const fromLeaf = (node) => {
        let box = 0;
        runs.clear();
        for (let last = -1; node > 0; last = node, node = trie.parent[node])
            box = below(box, node, last);
        return box;
    };
    for (let at = 0; at < own.nodes.length; at++) {
        let box = (state.v === "callees" ? fromLeaf : fromRoot)(own.nodes[at]);
        if (box === 0) box = tree.child(0, NO_LOCATION, [block, -1, 0], isBefore);
        tree.add(box, own.bytes[at] * factor, own.blocks ? own.blocks[at] : 0, isBefore);
    }
}

/** The tree of what is selected. */
function treeOf() {
    const tree = new BoxTree();
    if (state.f === "diff" && page.compare) {
        const [before, after] = [blockAt(0), blockAt(1)];
        const ids = new Map();
        const keyIn = (block) => (frame) => {
            const {strings, frames} = block;
            const text = `${lastParts(strings[frames.file[frame]], 2)} ` +
                strings[frames.function [frame]];
            if (!ids.has(text)) ids.set(text, ids.size);
            return ids.get(text);
        };
        const peaks = [before, after].map((block) => figure(block, "peak_bytes") || 1);
        const factor = state.d === "share" ? peaks[1] / peaks[0] : 1;
        growTree(tree, after, ownOf(after, state.e), keyIn(after), false);
        growTree(tree, before, ownOf(before, state.e), keyIn(before), true, factor);
    } else {
        const block = shownBlock();
        growTree(tree, block, ownOf(block, state.f), (frame) => frame, false);
    }
    tree.finish();
    return tree;
}

function isDiff() {
    return state.f === "diff" && page.compare;
}

function boxName(tree, box, whole = false) {
    if (box === 0) return "all";
    if (tree.key[box] === NO_LOCATION)
        return state.h ? "without frames of your own" : "no location";
    if (tree.key[box] === SMALLER) return `${plural(tree.smaller[box], "smaller stack")}`;
    const [block, frame] = tree.source[box] ?? tree.sourceBefore[box];
    const before = tree.sourceBefore[box];
    let text = frameName(block, frame, whole, whole || !isDiff());
    if (whole && tree.source[box] && before &&
        block.frames.line[frame] !== before[0].frames.line[before[1]])
        text += ` (line ${before[0].frames.line[before[1]]} in A)`;
    return tree.folds[box] > 1 ? `${text} ×${tree.folds[box]}` : text;
}

// --- the panel ---

function makeFlame() {
    const place = section("flame", "Stacks");
    const tools = el("div", {class: "tools inner"});
    const search = el("input", {
        type: "search",
        id: "tarn-search",
        placeholder: "search",
        "aria-label": "search stacks: text, or /regular expression/",
        spellcheck: "false",
        input: () => select({q: search.value}),
        keydown: (event) => {
            if (event.key === "Enter") nextMatch(event.shiftKey ? -1 : 1);
        }
    });
    const found = el("span", {class: "found", role: "status"});
    const canvas = el("canvas", {"aria-hidden": "true"});
    const mirror = el("div", {class: "hidden-text", role: "group"});
    const box = el("div", {
        class: "plot flame-box",
        tabindex: "0",
        role: "tree",
        "aria-label": "stacks; arrow keys move, Enter magnifies"
    },
        canvas, mirror);
    const detail = el("p", {class: "caption detail"});
    const note = el("p", {class: "caption"});
    const gone = el("div", {class: "gone"});
    const table = asTable(
        "The largest boxes", ["frame", "level", "bytes", "share", "blocks"], flameRows);
    place.append(el("div", {class: "tools"}, tools, search, found), box, detail, gone,
        note, table);
    Object.assign(flame,
        {place, tools, search, found, canvas, mirror, box, detail, note, gone, table});
    listenFlame();
    panel(["f", "v", "h", "d", "e", "t"], drawFlame);
    panel(["n", "q", "by"], drawBoxes);
}

function flameModes(block) {
    const modes = [["peak", "at the peak"]];
    if (state.t >= 0 && block.readSnapshots().length)
        modes.push(["time", `at ${momentText(block, state.t)}`]);
    if (block.exit.nodes.length) modes.push(["exit", "held until exit"]);
    if (block.total.nodes.length) modes.push(["total", "all bytes"]);
    if (page.compare) modes.push(["diff", "A → B"]);
    return modes;
}

function drawFlame() {
    const block = shownBlock();
    flame.tree = treeOf();
    const {tree} = flame;
    const modes = flameModes(block);
    flame.place.hidden =
        ![block.peak, block.exit, block.total].some((own) => own.nodes.length);
    const toggles = [
        choice("bytes of", modes, state.f, (value) => select({f: value, n: ""})),
        choice("first", [["callers", "callers first"], ["callees", "callees first"]],
            state.v, (value) => select({v: value, n: ""})),
        button("own code only", () => select({h: 1 - state.h, n: ""}),
            {"aria-pressed": String(state.h === 1), class: "toggle"})
    ];
    if (isDiff())
        toggles.push(choice("compared at",
                         [["peak", "peaks"], ["exit", "exits"], ["total", "all bytes"]],
                         state.e, (value) => select({e: value, n: ""})),
            choice("compared in", [["bytes", "bytes"], ["share", "share of peak"]],
                state.d, (value) => select({d: value, n: ""})));
    flame.tools.replaceChildren(...toggles);
    drawBoxes();
}

/** What the boxes show, as a sentence. */
function flameNote(block) {
    const parts = [];
    if (state.f === "time") {
        const own = ownAtSelection(block);
        if (own)
            parts.push(`Snapshot of ${momentText(block, own.time)}, the nearest one to ` +
                `${momentText(block, state.t)}`);
    }
    if (state.f === "total") parts.push("Bytes of all allocations, freed ones too");
    if (state.f === "exit")
        parts.push("Bytes that only the end of the process freed, or nothing");
    if (isDiff())
        parts.push(
            "Width: B. Red: more than in A, blue: less, grey: within 1 % and 1 MiB. " +
            "An outline: only in B" +
            (state.d === "share" ? ". A is scaled to the peak of B" : ""));
    else if (state.by === "framework")
        parts.push("Colours are those of the frameworks in the chart");
    else
        parts.push("Coloured boxes are the sites with bands in the chart; " +
            "the stronger grey is own code, the fainter one libraries");
    if (figure(block, "has_stacks") === 0)
        parts.push(
            "This log has one frame a row; record with --stacks 16 to see callers");
    return parts.join(". ") + ".";
}

function drawBoxes() {
    const {tree, place} = flame;
    if (!tree || place.hidden) return;
    const block = shownBlock();
    if (flame.search.value !== state.q) flame.search.value = state.q;
    const zoom = tree.find(state.n);
    flame.zoom = zoom;
    if (flame.focus >= tree.parent.length || tree.bytes[flame.focus] === 0)
        flame.focus = zoom;
    flame.matches = matchesOf(tree);
    flame.boxes = [];
    const width = Math.max(40, flame.canvas.parentElement.clientWidth);
    layOut(tree, zoom, width);
    const levels = shownLevels();
    paintBoxes(levels);
    const deeper =
        flame.boxes.reduce((most, each) => Math.max(most, each.level + 1), 0) - levels;
    flame.note.textContent = flameNote(block) +
        (deeper > 0 ? ` ${plural(deeper, "more level")} ` +
                    "of narrow boxes: magnify one to see them."
                    : "");
    drawGone(tree);
    drawFound(tree);
    drawDetail(flame.hover >= 0 ? flame.hover : flame.focus);
    mirrorTree();
    flame.table.refresh();
}

function paintBoxes(levels) {
    const {tree} = flame;
    const shot = prepare(flame.canvas, levels * ROW + 1);
    const largest = largestChange(tree);
    for (const each of flame.boxes) drawBox(shot, tree, each, largest);
    drawFocus(shot);
}

/** Place the boxes: the ancestors of the magnified one, it, and all below. */
function layOut(tree, zoom, width) {
    const {boxes} = flame;
    const chain = [];
    for (let box = zoom;; box = tree.parent[box]) {
        chain.unshift(box);
        if (box === 0) break;
    }
    chain.forEach(
        (box, level) => boxes.push({box, level, left: 0, width, above: box !== zoom}));
    const whole = tree.bytes[zoom];
    if (!(whole > 0)) return;
    const scale = width / whole;
    const pending = [[zoom, 0, chain.length]];
    while (pending.length) {
        const [box, begin, level] = pending.pop();
        if (level >= MOST_LEVELS) continue;
        let left = begin;
        let rest = 0;
        let count = 0;
        for (const child of tree.children[box]) {
            const wide = tree.bytes[child] * scale;
            if (wide < 1 || tree.key[child] === SMALLER) {
                rest += tree.bytes[child];
                count += tree.key[child] === SMALLER ? tree.smaller[child]
                    : tree.bytes[child] > 0          ? 1
                                                     : 0;
                continue;
            }
            boxes.push({box: child, level, left, width: wide});
            pending.push([child, left, level + 1]);
            left += wide;
        }
        if (rest * scale >= 0.5)
            boxes.push({box, level, left, width: rest * scale, rest, count});
    }
}

/** The levels that are drawn: those that have a box with room for text, and two more. */
function shownLevels() {
    let [deepest, wide] = [0, 0];
    for (const {level, width} of flame.boxes) {
        deepest = Math.max(deepest, level + 1);
        if (width >= 30) wide = Math.max(wide, level + 1);
    }
    return Math.min(deepest, Math.max(wide + 2, 8));
}

function largestChange(tree) {
    if (!isDiff()) return 0;
    let largest = 1;
    for (let box = 1; box < tree.parent.length; box++)
        largest = Math.max(largest, Math.abs(tree.bytes[box] - tree.before[box]));
    return largest;
}

/** The fill of a box, the ink over it, and its colour slot if it has one. */
function boxFill(tree, each, largest) {
    const colours = theme();
    const {box} = each;
    if (each.rest !== undefined || box === 0 || tree.key[box] === NO_LOCATION)
        return [colours.panel, colours.ink];
    const [block, frame] = tree.source[box] ?? tree.sourceBefore[box];
    if (isDiff()) {
        const change = tree.bytes[box] - tree.before[box];
        const neutral = Math.max(tree.bytes[0] / 100, 2 ** 20);
        if (Math.abs(change) <= neutral) return [colours.same, colours.ink];
        const part = 0.25 + 0.75 * Math.sqrt(Math.abs(change) / largest);
        const full = change > 0 ? colours.more : colours.less;
        const dark = colours === THEMES.dark;
        return [
            mixed(colours.same, full, part),
            part > 0.6 ? (dark ? "#000000" : "#ffffff") : colours.ink
        ];
    }
    const slot = state.by === "framework"
        ? slotsOfFrameworks(block).get(block.strings[block.frames.framework[frame]])
        : slotsOfFrames(block).get(frame);
    if (slot !== undefined) return [slotTint(slot), colours.ink, slot];
    return [
        block.frames.flags[frame] & HIDDEN_FLAGS ? colours.library : colours.own,
        colours.ink
    ];
}

function drawBox({context, colours}, tree, each, largest) {
    const y = each.level * ROW;
    const [fillStyle, ink, slot] = boxFill(tree, each, largest);
    const faded =
        flame.matches && (each.rest !== undefined || !flame.matches.set.has(each.box));
    context.globalAlpha = faded ? 0.35 : each.above ? 0.6 : 1;
    context.fillStyle = fillStyle;
    context.fillRect(each.left, y, each.width, ROW - 1);
    if (slot !== undefined) {
        context.fillStyle = slotFill(context, slot);
        context.fillRect(
            each.left, y, each.width < 2 * EDGE ? each.width : EDGE, ROW - 1);
    }
    context.globalAlpha = faded ? 0.2 : 0.4;
    context.strokeStyle = colours.ink;
    context.lineWidth = 1;
    if (each.width > 3)
        context.strokeRect(
            each.left + 0.5, y + 0.5, Math.max(1, each.width - 1), ROW - 2);
    context.globalAlpha = 1;
    if (isDiff() && each.box && each.rest === undefined && tree.before[each.box] === 0) {
        context.lineWidth = 2;
        context.strokeRect(each.left + 1, y + 1, Math.max(1, each.width - 2), ROW - 3);
    }
    if (each.width < (isNarrow() ? 40 : 30)) return;
    context.globalAlpha = faded ? 0.6 : 1;
    context.fillStyle = ink;
    context.font = FONT;
    context.textAlign = "left";
    const text = each.rest !== undefined ? restName(each) : boxName(tree, each.box);
    const bytes = each.rest ?? tree.bytes[each.box];
    const indent = slot === undefined ? 4 : EDGE + 4;
    const room = each.width - indent - 4;
    const figures = isDiff() && each.rest === undefined
        ? `${sizeText(bytes)} (${changeText(bytes - tree.before[each.box])})`
        : sizeText(bytes);
    const wide = context.measureText(figures).width;
    const textWide = Math.min(context.measureText(text).width, room);
    const both = textWide + wide + 10 < room;
    const shown = fitText(context, text, room);
    context.fillText(shown, each.left + indent, y + 15);
    if (both) {
        context.globalAlpha *= 0.8;
        context.fillText(figures, each.left + indent + textWide + 8, y + 15);
    }
    context.globalAlpha = 1;
}

function restName(each) {
    return `${grouped(each.count)} smaller`;
}

function drawFocus({context, colours}) {
    if (document.activeElement !== flame.box) return;
    const each =
        flame.boxes.find((one) => one.box === flame.focus && one.rest === undefined);
    if (!each) return;
    context.strokeStyle = colours.accent;
    context.lineWidth = 3;
    context.strokeRect(
        each.left + 1.5, each.level * ROW + 1.5, Math.max(2, each.width - 3), ROW - 4);
}

/** What exists in A alone: no box of B is above it. */
function drawGone(tree) {
    flame.gone.replaceChildren();
    if (!isDiff()) return;
    const gone = [];
    for (let box = 1; box < tree.parent.length; box++)
        if (tree.bytes[box] === 0 && tree.before[box] > 0 &&
            (tree.parent[box] === 0 || tree.bytes[tree.parent[box]] > 0))
            gone.push(box);
    gone.sort((a, b) => tree.before[b] - tree.before[a]);
    const sum = gone.reduce((total, box) => total + tree.before[box], 0);
    flame.gone.append(
        el("h3", {}, "Gone, only in A: ", size(sum, "span", {id: "tarn-gone"})));
    if (gone.length)
        flame.gone.append(el("ul", {class: "plain-list"},
            ...gone.slice(0, 8).map(
                (box) => el("li", {}, size(tree.before[box], "b"), " ",
                    name(boxName(tree, box), boxName(tree, box, true))))));
    if (gone.length > 8) flame.gone.append(el("p", {}, `and ${gone.length - 8} more`));
}

// --- search ---

/** The boxes whose names match: a set, their sum without what lies in another, a count. */
function matchesOf(tree) {
    if (state.q === "") return null;
    const test = matcherOf(state.q);
    if (!test) return {set: new Set(), list: [], bytes: 0, wrong: true};
    const set = new Set();
    const list = [];
    let bytes = 0;
    const begin = performance.now();
    const pending = [[0, false]];
    while (pending.length) {
        const [box, inside] = pending.pop();
        if (tree.bytes[box] === 0 && tree.before[box] === 0) continue;
        const hit = box > 0 && test(boxName(tree, box, true));
        if (hit) {
            set.add(box);
            if (tree.bytes[box] > 0) list.push(box);
            if (!inside) bytes += tree.bytes[box];
        }
        for (const child of tree.children[box]) pending.push([child, inside || hit]);
        if (performance.now() - begin > 100) return {set, list, bytes, cut: true};
    }
    return {set, list: list.sort((a, b) => tree.bytes[b] - tree.bytes[a]), bytes};
}

/** A test for a text or a /regular expression/; undefined if it is none. */
function matcherOf(query) {
    const regular = /^\/(.+)\/$/.exec(query);
    if (!regular) {
        const low = query.toLowerCase();
        return (text) => text.toLowerCase().includes(low);
    }
    try {
        const expression = new RegExp(regular[1], "i");
        return (text) => expression.test(text.slice(0, SHORTEST));
    } catch {
        return undefined;
    }
}

function drawFound(tree) {
    const {matches, found} = flame;
    found.replaceChildren();
    if (!matches) return;
    if (matches.wrong) return void found.append("no regular expression");
    found.append("matched ", size(matches.bytes),
        ` (${shareText(matches.bytes, tree.bytes[0])}), ` +
            plural(matches.list.length, "box", "boxes") +
            (matches.cut ? ", search cut short" : ""));
}

function nextMatch(by) {
    const list = flame.matches?.list ?? [];
    if (list.length === 0) return;
    const at = list.indexOf(flame.focus);
    focusBox(list[(at + by + list.length) % list.length]);
}

// --- focus, detail and the mirror for screen readers ---

function focusBox(box) {
    flame.focus = box;
    flame.hover = -1;
    if (!isBelow(box, flame.zoom)) select({n: flame.tree.path(box)});
    drawBoxes();
}

function isBelow(box, above) {
    while (box > above) box = flame.tree.parent[box];
    return box === above;
}

function drawDetail(box) {
    const {tree, detail} = flame;
    const node = (tree.source[box] ?? tree.sourceBefore[box])?.[2];
    const whole = boxName(tree, box, true);
    detail.replaceChildren(name(cut(whole), whole), " ", size(tree.bytes[box], "b"),
        ` ${shareText(tree.bytes[box], tree.bytes[0])} of ${sizeText(tree.bytes[0])}`,
        tree.blocks[box] ? `, ${plural(tree.blocks[box], "block")}` : "",
        isDiff() ? `, ${changeText(tree.bytes[box] - tree.before[box])} against A` : "",
        box > 0 && node
            ? button("copy stack", () => copyText(pathText(tree, box)), {class: "quiet"})
            : "",
        flame.zoom ? button("show all", () => select({n: ""}), {class: "quiet"}) : "");
}

function pathText(tree, box) {
    const lines = [];
    for (; box > 0; box = tree.parent[box]) lines.push(boxName(tree, box, true));
    return lines.join("\n");
}

function copyText(text) {
    const done = () => announce("copied");
    const area = el("textarea", {class: "hidden-text", "aria-hidden": "true"});
    area.value = text;
    document.body.append(area);
    area.select();
    let good = false;
    try {
        good = document.execCommand("copy");
    } catch {
        // then by the clipboard
    }
    area.remove();
    if (good)
        done();
    else
        navigator.clipboard?.writeText(text).then(done, () => announce("cannot copy"));
}

/** Elements for the boxes near the focus: its ancestors, siblings and children. */
function mirrorTree() {
    const {tree, mirror, focus} = flame;
    const near = new Set([0]);
    for (let box = focus; box > 0; box = tree.parent[box]) near.add(box);
    const some = (list) => list.filter((box) => tree.bytes[box] > 0).slice(0, 90);
    for (const box of some(tree.children[tree.parent[focus]])) near.add(box);
    for (const box of some(tree.children[focus])) near.add(box);
    mirror.replaceChildren(...[...near].sort((a, b) => a - b).map((box) => {
        const siblings = tree.children[tree.parent[box]];
        return el("div", {
            role: "treeitem",
            id: `tarn-box-${box}`,
            "aria-level": String(tree.depth[box] + 1),
            "aria-posinset": String(box ? siblings.indexOf(box) + 1 : 1),
            "aria-setsize": String(box ? siblings.length : 1),
            "aria-selected": String(box === focus),
            "data-bytes": String(tree.bytes[box])
        },
            `${boxName(tree, box)}, ${sizeText(tree.bytes[box])}, ` +
                shareText(tree.bytes[box], tree.bytes[0]));
    }));
    flame.box.setAttribute("aria-activedescendant", `tarn-box-${focus}`);
}

function flameRows() {
    const {tree} = flame;
    return tree.bytes.map((_, box) => box)
        .filter((box) => tree.bytes[box] > 0)
        .sort((a, b) => tree.bytes[b] - tree.bytes[a] || a - b)
        .slice(0, 50)
        .map((box) => [name(boxName(tree, box), boxName(tree, box, true)),
                 el("td", {class: "n"}, String(tree.depth[box])),
                 size(tree.bytes[box], "td", {class: "n"}),
                 el("td", {class: "n"}, shareText(tree.bytes[box], tree.bytes[0])),
                 el("td", {class: "n"},
                     tree.blocks[box] ? grouped(tree.blocks[box]) : "–")]);
}

function boxAt(event) {
    const place = flame.canvas.getBoundingClientRect();
    const level = Math.floor((event.clientY - place.top) / ROW);
    const x = event.clientX - place.left;
    return flame.boxes.find(
        (each) => each.level === level && x >= each.left && x < each.left + each.width);
}

function listenFlame() {
    const {canvas, box} = flame;
    canvas.addEventListener("pointermove", (event) => {
        const each = boxAt(event);
        canvas.style.cursor = each ? "pointer" : "";
        if (!each) return hideTip();
        const {tree} = flame;
        flame.hover = each.rest === undefined ? each.box : -1;
        const bytes = each.rest ?? tree.bytes[each.box];
        showTip(event,
            el("b", {},
                name(each.rest !== undefined
                        ? `${restName(each)} below ${boxName(tree, each.box)}`
                        : boxName(tree, each.box))),
            el("div", {},
                `${sizeText(bytes)}, ${shareText(bytes, tree.bytes[0])} of all`),
            el("div", {}, exactText(bytes)),
            isDiff() && each.rest === undefined
                ? el("div", {}, `A: ${sizeText(tree.before[each.box])}`)
                : "",
            each.rest === undefined && each.box > 0
                ? el("div", {class: "path"}, name(cut(boxName(tree, each.box, true))))
                : "");
        if (each.rest === undefined) drawDetail(each.box);
        return undefined;
    });
    canvas.addEventListener("pointerleave", () => {
        flame.hover = -1;
        hideTip();
    });
    canvas.addEventListener("click", (event) => {
        const each = boxAt(event);
        if (!each) return;
        flame.focus = each.box;
        hideTip();
        select({n: flame.tree.path(each.box)});
        drawBoxes();
    });
    for (const what of ["focus", "blur"])
        box.addEventListener(what, () => paintBoxes(shownLevels()));
    box.addEventListener("keydown", flameKey);
}

function flameKey(event) {
    const {tree, focus} = flame;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const siblings =
        tree.children[tree.parent[focus]].filter((each) => tree.bytes[each] > 0);
    const moves = {
        ArrowDown: () => tree.children[focus].find((each) => tree.bytes[each] > 0),
        ArrowUp: () => tree.parent[focus],
        ArrowLeft: () => siblings[siblings.indexOf(focus) - 1],
        ArrowRight: () => (focus ? siblings[siblings.indexOf(focus) + 1] : undefined),
        Home: () => 0,
    };
    if (moves[event.key]) {
        const next = moves[event.key]();
        if (next !== undefined) focusBox(next);
    } else if (event.key === "Enter")
        select({n: tree.path(focus)});
    else if ((event.key === "Escape" || event.key === "Backspace") && flame.zoom) {
        flame.focus = flame.zoom;
        select({n: tree.path(tree.parent[flame.zoom])});
    } else
        return;
    event.preventDefault();
    event.stopPropagation();
}
