/* many.js -- two logs compared, and the processes of a run.
 *
 * Processes share one axis of wall-clock time. Their columns have different widths and
 * instants, so the sum of a GPU is that of column maxima: an upper bound.
 */

const MOST_PROCESSES = 32;
const MOST_TABLE_ROWS = 1000;
const SUM_STEPS = 512;

// --- comparison ---

const COMPARED = [
    // key of META, text, kind
    ["peak_bytes", "peak", "bytes"],
    ["reserved_peak_bytes", "reserved at most", "bytes"],
    ["end_bytes", "live at the end", "bytes"],
    ["held_bytes", "held until exit", "bytes"],
    ["total_bytes", "allocated in all", "bytes"],
    ["allocations", "allocations", "count"],
    ["frees", "frees", "count"],
    ["failures", "out of memory", "count"],
    ["duration_ns", "duration", "time"],
];
const KIND_TEXT = {
    bytes: sizeText,
    count: grouped,
    time: timeText
};

function makeCompare() {
    const place = section("compare", "A and B");
    place.hidden = !page.compare;
    if (!page.compare) return;
    const [before, after] = [blockAt(0), blockAt(1)];
    const label = (block, side) => el("li", {}, el("b", {}, side), " ",
        name(cut(block.meta.get("program") ?? ""), block.meta.get("command") ?? ""));
    place.append(el("ul", {class: "plain-list"}, label(before, "A"), label(after, "B")),
        el("div", {class: "columns"},
            el("table", {class: "plain compare"}, compareHead("figure"),
                el("tbody", {},
                    ...COMPARED
                        .map(([key, text, kind]) => [text, figure(before, key),
                                 figure(after, key), kind])
                        .filter(([, a, b]) => a !== undefined && b !== undefined)
                        .map((row) => compareRow(...row)))),
            el("table", {class: "plain compare"},
                compareHead("largest changes at the peak"),
                el("tbody", {}, ...changedSites(before, after).map(([text, a,
                    b]) => compareRow(name(text), a, b, "bytes"))))));
}

function compareHead(text) {
    return el("thead", {},
        el("tr", {},
            ...[text, "A", "B", "B − A", ""].map(
                (each) => el("th", {scope: "col"}, each))));
}

function compareRow(text, before, after, kind) {
    const change = after - before;
    const cell = (value) => kind === "bytes"
        ? size(value, "td", {class: "n"})
        : el("td", {class: "n", "data-value": String(value)}, KIND_TEXT[kind](value));
    const neutral =
        Math.abs(change) <= Math.max(before / 100, kind === "bytes" ? 2 ** 20 : 0);
    const sign = change > 0 ? "+" : change < 0 ? "−" : "";
    return el("tr", {}, el("th", {scope: "row"}, text), cell(before), cell(after),
        el("td", {
            class: `n ${
                neutral          ? "muted"
                    : change > 0 ? "more"
                                 : "less"}`,
            "data-change": String(change)
        },
            change === 0 ? "–" : sign + KIND_TEXT[kind](Math.abs(change))),
        el("td", {class: "n muted"},
            before > 0 && change !== 0 ? sign + shareText(Math.abs(change), before)
                                       : ""));
}

/** The sites whose bytes at the peak differ most, matched by file and function. */
function changedSites(before, after) {
    const sums = new Map();
    [before, after].forEach((block, side) => {
        const {frames, strings} = block;
        for (let site = 0; site < block.sites.count; site++) {
            const frame = block.sites.frame[site];
            const key = frame >= frames.count
                ? "no location"
                : `${lastParts(strings[frames.file[frame]], 2)} ${
                      strings[frames.function [frame]]}`;
            if (!sums.has(key)) sums.set(key, [0, 0]);
            sums.get(key)[side] += block.sites.peak[site];
        }
    });
    return [...sums]
        .map(([key, [a, b]]) => [cut(key), a, b])
        .sort((a, b) =>
                  Math.abs(b[2] - b[1]) - Math.abs(a[2] - a[1]) || (a[0] < b[0] ? -1 : 1))
        .slice(0, 8);
}

// --- processes ---

function makeProcesses() {
    const place = section("processes", "Processes");
    place.hidden = page.count < 2 || page.compare;
    if (place.hidden) return;
    const list = [];
    for (let index = 0; index < Math.min(page.count, MOST_TABLE_ROWS); index++)
        list.push({index, block: blockAt(index)});
    place.querySelector("h2").textContent = `Processes (${page.count})`;
    const aligned = list.every(({block}) => figure(block, "start_unix_ns") > 0);
    const origin = aligned
        ? Math.min(...list.map(({block}) => startOf(block) + block.columns.start))
        : 0;
    for (const each of list)
        each.shift = aligned ? startOf(each.block) - origin : -each.block.columns.start;
    const end = Math.max(1, ...list.map(({block, shift}) => shift + endOf(block)));
    const drawn = [...list]
                      .sort((a, b) => peakOf(b) - peakOf(a))
                      .slice(0, MOST_PROCESSES)
                      .sort((a, b) => a.index - b.index);
    const gpus = groupedBy(drawn, gpuOf);
    const rows = el("div", {class: "processes"});
    place.append(
        el("p", {class: "caption"},
            aligned
                ? `One axis of wall-clock time from 0 s to ${
                      timeText(end)}. Line: reserved; area: live. ` +
                    "All rows have one scale."
                : "These logs have no wall-clock time: each row begins at its own zero."),
        rows);
    for (const [gpu, members] of gpus) rows.append(...gpuRows(gpu, members, end));
    if (list.length > drawn.length)
        rows.append(el("p", {},
            `${list.length - drawn.length} more, with smaller peaks; see the ` +
                "table."));
    place.append(processTable(list));
    panel([], () => {
        for (const row of rows.querySelectorAll("button.process"))
            row.setAttribute(
                "aria-pressed", String(Number(row.dataset.index) === state.p));
        for (const each of drawn) drawProcess(each, end, drawn);
    });
}

function groupedBy(list, keyOf) {
    const groups = new Map();
    for (const each of list) {
        if (!groups.has(keyOf(each))) groups.set(keyOf(each), []);
        groups.get(keyOf(each)).push(each);
    }
    return groups;
}

function startOf(block) {
    return figure(block, "start_unix_ns") ?? 0;
}

function peakOf({block}) {
    return figure(block, "peak_bytes") ?? 0;
}

function gpuOf({block}) {
    return block.meta.get("gpu") || "GPU not known";
}

function gpuRows(gpu, members, end) {
    const total = figure(members[0].block, "device_total_bytes") ?? 0;
    const {most} = sumOf(members, end);
    const full = total > 0 && most > total * 0.95;
    return [
        el("h3", {}, name(cut(gpu)), el("span", {class: "muted"}, " together at most "),
            size(most, "span", {class: full ? "bad" : "muted"}),
            total ? el("span", {class: "muted"}, ` of ${sizeText(total)}`) : ""),
        ...members.map((each) => {
            each.canvas = el("canvas", {"aria-hidden": "true"});
            const failed = figure(each.block, "failures") > 0;
            return el("button", {
                type: "button",
                class: "process",
                "data-index": String(each.index),
                click: () => select({p: each.index, t: -1, n: "", z: "", m: 0})
            },
                el("span", {class: "process-name"},
                    name(cut(each.block.meta.get("program") ?? `process ${each.index}`),
                        each.block.meta.get("command") ?? ""),
                    el("span", {class: "muted"},
                        ` pid ${each.block.meta.get("pid") ?? "?"}`),
                    failed ? el("b", {class: "bad"}, " × out of memory") : ""),
                el("span", {class: "plot"}, each.canvas),
                size(peakOf(each), "span", {class: "n"}));
        })
    ];
}

/** The sum of what the processes of a GPU hold, in steps of the shared axis. */
function sumOf(members, end) {
    const sums = new Float64Array(SUM_STEPS);
    for (const {block, shift} of members) {
        const {columns} = block;
        for (let step = 0; step < SUM_STEPS; step++) {
            const from = (step * end) / SUM_STEPS - shift;
            const to = ((step + 1) * end) / SUM_STEPS - shift;
            if (to <= columns.start || from >= endOf(block) || columns.count === 0)
                continue;
            let most = 0;
            for (let at = columnAt(block, from); at <= columnAt(block, to - 1); at++)
                most = Math.max(most, columns.reserved[at] || columns.high[at]);
            sums[step] += most;
        }
    }
    return {sums, most: Math.max(...sums)};
}

function drawProcess({block, shift, canvas}, end, drawn) {
    const high = 34;
    const {context, width, colours} = prepare(canvas, high);
    const members = drawn.filter((each) => gpuOf(each) === gpuOf({block}));
    const most = Math.max(1, ...drawn.map((each) => {
        const reserved = figure(each.block, "reserved_peak_bytes") ?? 0;
        return Math.max(reserved, peakOf(each));
    }));
    const total = figure(block, "device_total_bytes") ?? 0;
    const {sums} = (members[0].sum ??= sumOf(members, end));
    context.fillStyle = colours.bad;
    context.globalAlpha = 0.16;
    for (let step = 0; total && step < SUM_STEPS; step++)
        if (sums[step] > total * 0.95)
            context.fillRect(
                (step * width) / SUM_STEPS, 0, width / SUM_STEPS + 0.5, high);
    context.globalAlpha = 1;
    const {columns} = block;
    const scale = width / end;
    const frame = {top: 2, bottom: high - 1};
    const steps = [];
    for (let column = 0; column < columns.count; column++) {
        const left = (shift + columns.start + column * columns.width) * scale;
        steps.push({left, right: left + columns.width * scale, column});
    }
    context.fillStyle = HUES[0];
    for (const step of steps) {
        const y = yOf(frame, most, columns.high[step.column]);
        const from = Math.floor(step.left);
        context.fillRect(
            from, y, Math.max(1, Math.ceil(step.right) - from), frame.bottom - y);
    }
    if (hasLine(block, "reserved")) {
        context.strokeStyle = colours.ink;
        context.lineWidth = 1.2;
        context.beginPath();
        stepPath(context, frame, most, steps, (step) => columns.reserved[step.column]);
        context.stroke();
    }
    context.strokeStyle = colours.line;
    context.strokeRect(0.5, 0.5, width - 1, high - 1);
    context.strokeStyle = colours.bad;
    context.lineWidth = 2;
    for (const mark of block.marks) {
        if (mark.kind !== 1) continue;
        const x = (shift + mark.time) * scale;
        context.beginPath();
        context.moveTo(x - 4, 6), context.lineTo(x + 4, 14);
        context.moveTo(x - 4, 14), context.lineTo(x + 4, 6);
        context.stroke();
    }
}

function processTable(list) {
    return asTable("Processes",
        ["program", "pid", "GPU", "peak", "reserved", "held", "failures"],
        () => list.map(
            ({block}) => [name(cut(block.meta.get("program") ?? "")),
                el("td", {class: "n"}, cut(block.meta.get("pid") ?? "–")),
                name(cut(block.meta.get("gpu") ?? "–")),
                ...["peak_bytes", "reserved_peak_bytes", "held_bytes"].map(
                    (key) => size(figure(block, key) ?? NaN, "td", {class: "n"})),
                el("td", {class: "n"}, grouped(figure(block, "failures") ?? 0))]));
}
