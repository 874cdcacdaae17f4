/* timeline.js -- memory over time.
 *
 * A column of the data has the bytes of each band at the instant of the column's maximum,
 * so that bands add up to a total that was there. Live bytes are a step function: nothing is
 * interpolated. Where a pixel covers several columns it shows the largest of them.
 */

const MARK_KINDS = ["mark", "failure", "trim", "growth", "release"];
const timeline = {
    wide: null,
    drag: null,
    hover: -1,
    emphasis: -1
};

/** The columns of a block on an axis from 0 to 1: `edge[i]` is where column i begins. */
function axisOf(block) {
    const {columns} = block;
    const key = `edge_${state.x}`;
    if (columns[key]) return columns[key];
    const edge = new Float64Array(columns.count + 1);
    for (let at = 0; at < columns.count; at++)
        edge[at + 1] = edge[at] +
            (state.x === "events" ? columns.allocations[at] + columns.frees[at] : 1);
    const whole = edge[columns.count] || 1;
    for (let at = 0; at <= columns.count; at++) edge[at] /= whole;
    return (columns[key] = edge);
}

/** The column with a time. */
function columnAt(block, time) {
    const {columns} = block;
    const at = Math.floor((time - columns.start) / columns.width);
    return Math.max(0, Math.min(columns.count - 1, at));
}

/** The instant of a column's maximum. */
function instantOf(block, column) {
    const {columns} = block;
    return columns.start + column * columns.width + columns.offset[column];
}

/** Where a time is on the axis from 0 to 1. */
function placeOf(block, time) {
    const {columns} = block;
    const edge = axisOf(block);
    const at = (time - columns.start) / columns.width;
    if (!(at > 0)) return 0;
    if (at >= columns.count) return 1;
    const column = Math.floor(at);
    return edge[column] + (edge[column + 1] - edge[column]) * (at - column);
}

/** The column at a place of the axis. */
function columnOfPlace(block, place) {
    const edge = axisOf(block);
    let low = 0;
    let high = block.columns.count - 1;
    while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (edge[middle] <= place)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

function timeOfPlace(block, place) {
    const {columns} = block;
    const edge = axisOf(block);
    const column = columnOfPlace(block, place);
    const wide = edge[column + 1] - edge[column];
    const part = wide > 0 ? Math.min(1, (place - edge[column]) / wide) : 0;
    return columns.start + (column + part) * columns.width;
}

function endOf(block) {
    return block.columns.start + block.columns.count * block.columns.width;
}

/** The shown range of time. */
function rangeOf(block) {
    const {start, width} = block.columns;
    const [from, to] = state.z.split("-").map(Number);
    if (state.z === "" || !(to > from) || to <= start || from >= endOf(block))
        return [start, endOf(block)];
    const least = Math.min(width, to - from);
    return [Math.max(start, from), Math.max(start + least, Math.min(endOf(block), to))];
}

function groupingOf(block) {
    return block.groupings.get(state.by) ?? block.groupings.values().next().value ?? [];
}

/** The shown columns, one or more pixels wide each: {left, right, column}. */
function stepsOf(block, range, left, width) {
    const {columns} = block;
    const edge = axisOf(block);
    const from = placeOf(block, range[0]);
    const to = placeOf(block, range[1]);
    const scale = width / (to - from || 1);
    const x = (place) => left + (place - from) * scale;
    const steps = [];
    const last = columnOfPlace(block, to);
    for (let column = columnOfPlace(block, from); column <= last; column++) {
        const begin = Math.max(left, x(edge[column]));
        const end = Math.min(left + width, x(edge[column + 1]));
        if (end <= begin) continue;
        const before = steps[steps.length - 1];
        if (before && Math.floor(end) - Math.floor(before.left) < 1) {
            before.right = end;
            before.low = Math.min(before.low, columns.low[column]);
            if (columns.high[column] > columns.high[before.column])
                before.column = column;
        } else
            steps.push({left: begin, right: end, column, low: columns.low[column]});
    }
    return steps;
}

/** Does the chart have this line? */
function hasLine(block, field, most) {
    const values = block.columns[field];
    let largest = 0;
    for (const value of values) largest = Math.max(largest, value);
    return largest > 0 && (most === undefined || largest <= most);
}

function largestOf(values, steps) {
    let largest = 0;
    for (const step of steps) largest = Math.max(largest, values[step.column]);
    return largest;
}

function makeTimeline() {
    const place = section("timeline", "Memory over time");
    const tools = el("div", {class: "tools"});
    const canvas = el("canvas", {role: "img", "aria-label": ""});
    const over = el("canvas", {
        class: "over",
        tabindex: "0",
        role: "slider",
        "aria-label": "selected time",
        "aria-valuemin": "0"
    });
    const strip = el("canvas", {class: "strip", "aria-hidden": "true"});
    const box = el("div", {class: "plot"}, canvas, over);
    const stripBox = el("div", {class: "plot strip-box"}, strip);
    const caption = el("p", {class: "caption"});
    const legend =
        el("ul", {class: "legend", "aria-label": "bands, the uppermost first"});
    const table =
        asTable("Live bytes at the maximum of columns", tableHeadings(), tableRows);
    place.append(tools, box, stripBox, caption, legend, table);
    Object.assign(
        timeline, {place, tools, canvas, over, strip, caption, legend, table, box});
    listenTimeline();
    panel(["by", "x", "z"], drawTimeline);
    panel(["by", "x", "z", "t"], drawSelection);
    panel(["by", "t"], drawLegend);
}

function isNarrow() {
    return document.documentElement.clientWidth < 700;
}

function drawTimeline() {
    const block = shownBlock();
    const {place} = timeline;
    place.hidden = block.columns.count === 0;
    document.documentElement.classList.toggle("no-chart", place.hidden);
    if (place.hidden) return;
    drawTimelineTools(block);
    const range = rangeOf(block);
    const shot = prepare(timeline.canvas, isNarrow() ? 220 : 300);
    const left = isNarrow() ? 40 : 48;
    const frame = {left, top: 20, right: shot.width - 6, bottom: shot.height - 24};
    const steps = stepsOf(block, range, left, frame.right - left);
    const high = largestOf(block.columns.high, steps);
    const reserved = largestOf(block.columns.reserved, steps);
    const used = largestOf(block.columns.used, steps);
    const other = otherSide(block);
    let most = Math.max(high, reserved, 1);
    // After a failure the memory of other processes and allocators may be the reason.
    const usedFits = used <= most * 3 || block.marks.some((mark) => mark.kind === 1);
    if (usedFits) most = Math.max(most, used);
    if (other)
        most = Math.max(most, largestOf(other.columns.high, other.steps(range, frame)));
    most *= 1.04;
    Object.assign(timeline, {block, range, frame, steps, most, wide: shot.width});
    drawGrid(shot, frame, most);
    drawBands(shot, frame, steps, block, most);
    drawLines(shot, frame, steps, block, most, usedFits, other);
    drawMarks(shot, frame, block, range);
    drawTimeAxis(shot, frame, block, range);
    drawPeak(shot, frame, block, most);
    drawStrip(block, range);
    timeline.caption.textContent = captionOf(block, range, used, usedFits, other);
    const peak = figure(block, "peak_bytes") ?? high;
    timeline.canvas.setAttribute("aria-label",
        `Live bytes by ${state.by} over ${timeText(range[1] - range[0])}: at most ` +
            `${sizeText(high)} in this range, ${
                sizeText(peak)} in all. The figures are in the ` +
            "table below.");
    timeline.table.refresh();
}

/** In a comparison: the other side, from its own begin. */
function otherSide(block) {
    if (!page.compare || page.count < 2) return undefined;
    const other = blockAt(state.p === 0 ? 1 : 0);
    if (other.columns.count === 0 || state.x === "events") return undefined;
    const shift = other.columns.start - block.columns.start;
    return {
        name: state.p === 0 ? "B" : "A",
        columns: other.columns,
        steps: (range, frame) => {
            const [from, to] = range.map((time) => time + shift);
            const scale = (frame.right - frame.left) / (to - from);
            const steps = [];
            const last = Math.min(other.columns.count - 1, columnAt(other, to));
            for (let column = columnAt(other, from); column <= last; column++) {
                const begin = other.columns.start + column * other.columns.width;
                const x = (time) => Math.max(frame.left,
                    Math.min(frame.right, frame.left + (time - from) * scale));
                steps.push(
                    {left: x(begin), right: x(begin + other.columns.width), column});
            }
            return steps;
        },
    };
}

function drawTimelineTools(block) {
    const known =
        {site: "site", framework: "framework", stream: "stream", size: "size class"};
    const by = [...block.groupings.keys()].map((key) => [key, known[key] ?? key]);
    const shown = block.groupings.has(state.by) ? state.by : by[0]?.[0];
    const [from, to] = rangeOf(block);
    const whole = from === block.columns.start && to === endOf(block);
    timeline.tools.replaceChildren(by.length > 1
            ? labelled(
                  "by", choice("bands by", by, shown, (value) => select({by: value})))
            : "",
        ...(block.columns.count < 2 ? [] : [
            labelled("axis",
                choice("horizontal axis", [["time", "time"], ["events", "events"]],
                    state.x, (value) => select({x: value}))),
            el("span", {class: "choice"},
                button("+", () => zoomTime(0.5), {"aria-label": "zoom in"}),
                button("\u2212", () => zoomTime(2), {"aria-label": "zoom out"}),
                whole ? "" : button("all", () => select({z: ""})))
        ]));
}

function drawGrid({context, colours}, frame, most) {
    const {ticks, unit, name: unitName} = byteTicks(most, isNarrow() ? 4 : 5);
    context.font = SMALL_FONT;
    context.textAlign = "right";
    for (const tick of ticks) {
        const y = Math.round(yOf(frame, most, tick)) + 0.5;
        context.strokeStyle = colours.line;
        context.lineWidth = 1;
        context.beginPath();
        context.moveTo(frame.left, y);
        context.lineTo(frame.right, y);
        context.stroke();
        context.fillStyle = colours.muted;
        context.fillText(digits(tick / unit), frame.left - 6, y + 4);
    }
    context.textAlign = "left";
    context.fillText(unitName, 0, frame.top - 8);
}

function yOf(frame, most, bytes) {
    return frame.bottom - (bytes / most) * (frame.bottom - frame.top);
}

/** The path of a step line from left to right, or of its horizontal pieces alone. */
function stepPath(context, frame, most, steps, valueOf, isBroken = false) {
    let before = NaN;
    for (const step of steps) {
        const y = yOf(frame, most, valueOf(step));
        if (isBroken || step.left !== before)
            context.moveTo(step.left, y);
        else
            context.lineTo(step.left, y);
        context.lineTo(step.right, y);
        before = step.right;
    }
}

/** All bands, the lowest first in the data. Each area reaches down to the axis, and those
 * above are drawn before those below, so that no seam shows between them. */
function drawBands({context, colours}, frame, steps, block, most) {
    const bands = groupingOf(block);
    if (bands.length === 0 || steps.length === 0) return;
    const sums = new Float64Array(steps.length);
    const tops = bands.map((band) => {
        for (let at = 0; at < steps.length; at++)
            sums[at] += band.values[steps[at].column];
        return Float64Array.from(sums);
    });
    for (let index = bands.length - 1; index >= 0; index--) {
        context.beginPath();
        context.moveTo(steps[0].left, frame.bottom);
        steps.forEach((step, at) => {
            const y = yOf(frame, most, tops[index][at]);
            context.lineTo(step.left, y);
            context.lineTo(step.right, y);
        });
        context.lineTo(steps[steps.length - 1].right, frame.bottom);
        context.fillStyle = colours.paper;  // below a band that is faded
        context.fill();
        const faded = timeline.emphasis >= 0 && timeline.emphasis !== index;
        context.globalAlpha = faded ? 0.25 : 1;
        context.fillStyle = bandFill(context, bands[index]);
        context.fill();
        context.globalAlpha = 1;
    }
    context.strokeStyle = colours.paper;
    context.lineWidth = 0.75;
    const numbered = steps.map(({left, right}, at) => ({left, right, at}));
    for (let index = 0; index < bands.length - 1; index++) {
        context.beginPath();
        stepPath(context, frame, most, numbered, (step) => tops[index][step.at], true);
        context.stroke();
    }
}

function drawLines({context, colours}, frame, steps, block, most, usedFits, other) {
    const {columns} = block;
    const line = (valueOf, colour, width, dash, over = steps, isBroken = false) => {
        context.strokeStyle = colour;
        context.lineWidth = width;
        context.setLineDash(dash);
        context.beginPath();
        stepPath(context, frame, most, over, valueOf, isBroken);
        context.stroke();
        context.setLineDash([]);
    };
    const twoPixels = (2 * most) / (frame.bottom - frame.top);
    const deep = steps.filter((step) => columns.high[step.column] - step.low > twoPixels);
    line((step) => step.low, "#000000b0", 1, [], deep, true);
    line((step) => columns.high[step.column], colours.ink, 0.75, []);
    if (hasLine(block, "reserved"))
        line((step) => columns.reserved[step.column], colours.ink, 2, []);
    if (usedFits && hasLine(block, "used")) {
        const known = steps.filter((step) => columns.used[step.column] > 0);
        line(
            (step) => columns.used[step.column], colours.muted, 1.5, [5, 4], known, true);
    }
    if (!other) return;
    const over = other.steps(timeline.range, frame);
    line((step) => other.columns.high[step.column], colours.paper, 3.5, [], over, true);
    line((step) => other.columns.high[step.column], colours.ink, 1.5, [], over, true);
}

/** Where a time is in pixels. */
function xOf(block, time) {
    const {frame, range} = timeline;
    const from = placeOf(block, range[0]);
    const to = placeOf(block, range[1]);
    return frame.left +
        ((placeOf(block, time) - from) / (to - from || 1)) * (frame.right - frame.left);
}

function drawMarks({context, colours}, frame, block, range) {
    const shown =
        block.marks.filter((mark) => mark.time >= range[0] && mark.time <= range[1]);
    const growths = shown.filter((mark) => mark.kind > 2);
    const spaced = growths.every((mark, at) => at === 0 ||
            xOf(block, mark.time) - xOf(block, growths[at - 1].time) > 4);
    const y = frame.top - 9;
    let free = frame.left;
    context.font = SMALL_FONT;
    context.textAlign = "left";
    for (const mark of shown) {
        const x = Math.round(xOf(block, mark.time)) + 0.5;
        context.strokeStyle = context.fillStyle =
            mark.kind === 1 ? colours.bad : colours.muted;
        context.lineWidth = mark.kind === 1 ? 2 : 1;
        context.beginPath();
        if (mark.kind === 1) {
            context.moveTo(x - 5, y - 5), context.lineTo(x + 5, y + 5);
            context.moveTo(x - 5, y + 5), context.lineTo(x + 5, y - 5);
        } else if (mark.kind === 2) {
            context.moveTo(x - 4, y - 4), context.lineTo(x + 4, y - 4),
                context.lineTo(x, y + 4);
            context.fill();
        } else if (mark.kind === 0) {
            context.moveTo(x, frame.top - 4), context.lineTo(x, frame.bottom);
        } else if (spaced) {
            context.moveTo(x, y - 3), context.lineTo(x, y + 5);
        }
        context.stroke();
        if (mark.kind === 1) {
            context.lineWidth = 1;
            context.globalAlpha = 0.6;
            context.beginPath();
            context.moveTo(x, frame.top), context.lineTo(x, frame.bottom);
            context.stroke();
            context.globalAlpha = 1;
            free = x + 8;
        }
        if (mark.kind === 0 && x > free) {
            const text = mark.text === "<exit>" ? "exit" : cut(mark.text).slice(0, 24);
            const wide = context.measureText(text).width;
            const left = x + 3 + wide > frame.right ? x - 3 - wide : x + 3;
            if (left >= free) {
                context.fillText(text, left, frame.top - 5);
                free = Math.max(x, left + wide) + 8;
            }
        }
    }
}

function drawTimeAxis({context, colours}, frame, block, range) {
    context.font = SMALL_FONT;
    context.fillStyle = colours.muted;
    context.strokeStyle = colours.ink;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(frame.left, frame.bottom + 0.5),
        context.lineTo(frame.right, frame.bottom + 0.5);
    context.stroke();
    const about = Math.max(3, Math.floor((frame.right - frame.left) / 110));
    let times = [];
    if (state.x === "events") {
        const from = placeOf(block, range[0]);
        const to = placeOf(block, range[1]);
        for (let at = 0; at <= about; at++)
            times.push(timeOfPlace(block, from + ((to - from) * at) / about));
    } else {
        const step = timeStep((range[1] - range[0]) / about);
        const {start} = block.columns;
        for (let time = Math.ceil((range[0] - start) / step) * step;
            time <= range[1] - start; time += step)
            times.push(start + time);
    }
    let free = 0;
    for (const time of times) {
        const x = xOf(block, time);
        const text = state.x === "events"
            ? momentText(block, time)
            : tickText(time - block.columns.start, range[1] - block.columns.start);
        const half = context.measureText(text).width / 2;
        const middle = Math.min(frame.right - half, Math.max(half, x));
        if (middle - half < free) continue;
        context.textAlign = "center";
        context.fillText(text, middle, frame.bottom + 17);
        context.fillRect(Math.round(x), frame.bottom, 1, 4);
        free = middle + half + 10;
    }
}

const LONG_STEPS = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200,
    86400
].map((seconds) => seconds * 1e9);

function timeStep(raw) {
    if (raw > 1e9)
        return LONG_STEPS.find((step) => step >= raw) ?? roundStep(raw / 864e11) * 864e11;
    return Math.max(1, roundStep(raw));
}

/** Ticks have the unit of the longest one; hours and minutes as 1:02:03. */
function tickText(time, longest) {
    if (longest >= 120e9) {
        const seconds = Math.round(time / 1e9);
        const two = (value) => String(value).padStart(2, "0");
        const minutes = Math.floor(seconds / 60);
        return minutes < 60
            ? `${minutes}:${two(seconds % 60)}`
            : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(seconds % 60)}`;
    }
    const [unit, text] = longest >= 1e9 ? [1e9, "s"]
        : longest >= 1e6                ? [1e6, "ms"]
        : longest >= 1e3                ? [1e3, "µs"]
                                        : [1, "ns"];
    return `${Number((time / unit).toPrecision(6))} ${text}`;
}

function drawPeak({context, colours}, frame, block, most) {
    const bytes = figure(block, "peak_bytes");
    const time = figure(block, "peak_ns");
    if (!(bytes > 0) || time < timeline.range[0] || time > timeline.range[1]) return;
    const x = xOf(block, time);
    const y = yOf(frame, most, bytes);
    context.fillStyle = colours.ink;
    context.beginPath();
    context.arc(x, y, 3, 0, 7);
    context.fill();
    const text = `peak ${sizeText(bytes)}`;
    context.font = SMALL_FONT;
    const wide = context.measureText(text).width;
    const left = x - wide - 8 > frame.left + 2 ? x - wide - 8 : x + 8;
    const under = y + 4;
    context.fillStyle = colours.paper;
    context.globalAlpha = 0.85;
    context.fillRect(left - 2, under - 12, wide + 4, 15);
    context.globalAlpha = 1;
    context.fillStyle = colours.ink;
    context.textAlign = "left";
    context.fillText(text, left, under);
}

/** The strip below: all of the log, and which part of it is shown. */
function drawStrip(block, range) {
    const box = timeline.strip.parentElement;
    box.hidden = block.columns.count < 2;
    if (box.hidden) return;
    const shot = prepare(timeline.strip, 34);
    const {context, colours} = shot;
    const {left, right} = timeline.frame;
    const whole = [block.columns.start, endOf(block)];
    const frame = {left, right, top: 2, bottom: 33};
    const steps = stepsOf(block, whole, left, right - left);
    const most = largestOf(block.columns.high, steps) || 1;
    context.fillStyle = colours.muted;
    context.globalAlpha = 0.45;
    for (const step of steps) {
        const y = yOf(frame, most, block.columns.high[step.column]);
        context.fillRect(step.left, y, step.right - step.left + 0.3, frame.bottom - y);
    }
    context.globalAlpha = 1;
    const x = (time) => left + placeOf(block, time) * (right - left);
    context.fillStyle = colours.bad;
    for (const mark of block.marks)
        if (mark.kind === 1) context.fillRect(x(mark.time) - 1, 2, 2, 31);
    const [from, to] = [x(range[0]), x(range[1])];
    context.fillStyle = colours.paper;
    context.globalAlpha = 0.72;
    context.fillRect(left, 0, from - left, 34);
    context.fillRect(to, 0, right - to, 34);
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.lineWidth = 1.5;
    context.strokeRect(from + 0.75, 0.75, Math.max(3, to - from - 1.5), 32.5);
    context.fillStyle = colours.accent;
    for (const handle of [from, to - 5]) context.fillRect(handle, 10, 5, 14);
}

function captionOf(block, range, used, usedFits, other) {
    const {columns} = block;
    const parts = [];
    const wide = (timeline.frame.right - timeline.frame.left) * columns.width /
        (range[1] - range[0]);
    const lines = [];
    if (hasLine(block, "reserved")) lines.push("thick line: reserved by the pool");
    if (used > 0 && usedFits) lines.push("dashed: used on the device by all processes");
    if (other) lines.push(`broken line: live bytes of ${other.name}, from its own begin`);
    if (lines.length) parts.push(lines.join("; "));
    if (used > 0 && !usedFits)
        parts.push(`used on the device: ${sizeText(used)}, above this chart`);
    parts.push(
        `a column is ${timeText(columns.width)} and shows the instant of its maximum`);
    if (wide > 3 && columns.count > 8)
        parts.push(`columns are ${digits(wide)} pixels wide`);
    if (block.marks.some((mark) => mark.kind === 1)) parts.push("× out of memory");
    if (block.marks.some((mark) => mark.kind === 2)) parts.push("▾ trim");
    return parts.map((part) => part[0].toUpperCase() + part.slice(1)).join(". ") + ".";
}

// --- the selected time, and what is under the pointer ---

function drawSelection() {
    const {over, frame, block} = timeline;
    if (!frame || timeline.place.hidden) return;
    const shot =
        prepare(over, timeline.canvas.height / (timeline.canvas.width / timeline.wide));
    const {context, colours} = shot;
    if (timeline.hover >= 0) {
        const x = xOf(block, instantOf(block, timeline.hover));
        context.strokeStyle = colours.muted;
        context.setLineDash([3, 3]);
        context.beginPath();
        context.moveTo(x, frame.top), context.lineTo(x, frame.bottom);
        context.stroke();
        context.setLineDash([]);
    }
    if (state.t >= 0 && state.t >= timeline.range[0] && state.t <= timeline.range[1]) {
        const x = xOf(block, state.t);
        context.strokeStyle = context.fillStyle = colours.accent;
        context.lineWidth = 2;
        context.beginPath();
        context.moveTo(x, frame.top - 4), context.lineTo(x, frame.bottom + 4);
        context.stroke();
        context.beginPath();
        context.moveTo(x - 6, frame.top - 10), context.lineTo(x + 6, frame.top - 10);
        context.lineTo(x, frame.top - 1);
        context.fill();
    }
    if (timeline.drag) {
        const [a, b] = [timeline.drag.from, timeline.drag.to].sort((p, q) => p - q);
        context.fillStyle = colours.accent;
        context.globalAlpha = 0.2;
        context.fillRect(a, frame.top, b - a, frame.bottom - frame.top);
        context.globalAlpha = 1;
    }
    const time = state.t >= 0 ? state.t : figure(block, "peak_ns") ?? 0;
    over.setAttribute("aria-valuenow", String(time));
    over.setAttribute("aria-valuemax", String(endOf(block)));
    over.setAttribute("aria-valuetext", columnText(block, columnAt(block, time)));
}

/** A column as a sentence. */
function columnText(block, column) {
    const {columns} = block;
    const bands = groupingOf(
        block).map((band) => [band.label, band.values[column]])
                      .filter(([, bytes]) => bytes > 0)
                      .sort((a, b) => b[1] - a[1])
                      .slice(0, 5);
    return `${momentText(block, instantOf(block, column))}: ` +
        `${sizeText(columns.high[column])} live` +
        (columns.reserved[column] ? `, ${sizeText(columns.reserved[column])} reserved`
                                  : "") +
        bands.map(([label, bytes]) => `; ${label} ${sizeText(bytes)}`).join("");
}

/** The bands with their bytes at the selected time, or at the peak. */
function drawLegend() {
    const block = shownBlock();
    if (block.columns.count === 0) return;
    const time = state.t >= 0 ? state.t : figure(block, "peak_ns") ?? 0;
    const column = columnAt(block, time);
    const bands = groupingOf(block);
    const whole = block.columns.high[column];
    const head = el("li", {class: "legend-head"},
        `at ${momentText(block, instantOf(block, column))}`,
        state.t < 0 ? " (the peak)" : "", ": ", size(whole, "b"));
    const items = bands
                      .map((band, index) => {
                          if (band.kind === 1 && band.members === 0) return "";
                          const more =
                              band.kind === 1 ? ` (${grouped(band.members)})` : "";
                          const item = el("li", {
                              pointerenter: () => emphasize(index),
                              pointerleave: () => emphasize(-1),
                              "data-band": band.label
                          },
                              el("span", {class: `swatch ${bandClass(band)}`}),
                              name(cut(band.label) + more,
                                  band.frame >= 0 ? frameName(block, band.frame, true)
                                                  : band.label),
                              size(band.values[column], "span", {class: "n"}));
                          return item;
                      })
                      .reverse();
    const rest = bands.find((band) => band.kind === 1 &&
            band.values.some((value, at) => value > block.columns.high[at] / 4));
    timeline.legend.replaceChildren(head, ...items,
        ...(rest ? [el("li", {class: "legend-note"},
                       `“${cut(rest.label)}” has more than a quarter of some column.`)]
                 : []));
}

function emphasize(index) {
    timeline.emphasis = index;
    request(["z"]);
}

function tableHeadings() {
    return ["time", "live", "lowest", "reserved", "allocations", "frees"];
}

/** At most 64 columns of the shown range, the largest of each group. */
function tableRows() {
    const {block, steps} = timeline;
    const {columns} = block;
    const each = Math.ceil(steps.length / 64);
    const rows = [];
    for (let at = 0; at < steps.length; at += each) {
        const column = steps.slice(at, at + each)
                           .map((step) => step.column)
                           .reduce((a, b) => (columns.high[b] > columns.high[a] ? b : a));
        rows.push([
            momentText(block, instantOf(block, column)),
            size(columns.high[column], "td", {class: "n"}),
            size(columns.low[column], "td", {class: "n"}),
            columns.reserved[column] ? size(columns.reserved[column], "td", {class: "n"})
                                     : el("td", {class: "n"}, "–"),
            el("td", {class: "n"}, grouped(columns.allocations[column])),
            el("td", {class: "n"}, grouped(columns.frees[column]))
        ]);
    }
    return rows;
}

// --- pointer and keys ---

function selectColumn(column) {
    const block = shownBlock();
    if (block.columns.count === 0) return;
    column = Math.max(0, Math.min(block.columns.count - 1, column));
    const time = instantOf(block, column);
    select({
        t: time,
        f: state.f === "peak" && block.readSnapshots().length ? "time" : state.f
    });
    keepInView(block, time);
    announce(columnText(block, column));
}

function keepInView(block, time) {
    const [from, to] = rangeOf(block);
    if (time >= from && time <= to) return;
    const half = (to - from) / 2;
    showRange(block, time - half, time + half);
}

/** Step to another column; a step goes over columns that look the same on the screen. */
function stepColumn(by) {
    const block = shownBlock();
    const time = state.t >= 0 ? state.t : figure(block, "peak_ns") ?? 0;
    selectColumn(columnAt(block, time) + by);
}

function showRange(block, from, to) {
    const begin = block.columns.start;
    const end = endOf(block);
    const least = Math.min(end - begin, block.columns.width * 4);
    if (to - from < least) {
        const middle = (from + to) / 2;
        [from, to] = [middle - least / 2, middle + least / 2];
    }
    if (from < begin) [from, to] = [begin, to + begin - from];
    if (to > end) [from, to] = [Math.max(begin, from - (to - end)), end];
    const all = from <= begin && to >= end;
    select({z: all ? "" : `${Math.round(from)}-${Math.round(to)}`});
}

/** Show more or less time around a place, or around the selected time. */
function zoomTime(factor, around) {
    const block = shownBlock();
    if (block.columns.count < 2) return;
    const [from, to] = rangeOf(block);
    around ??= state.t >= from && state.t <= to ? state.t : (from + to) / 2;
    showRange(block, around - (around - from) * factor, around + (to - around) * factor);
}

/** The time at a place of the chart. */
function timeAtPixel(x) {
    const {block, range, frame} = timeline;
    const from = placeOf(block, range[0]);
    const to = placeOf(block, range[1]);
    const part = (x - frame.left) / (frame.right - frame.left);
    return timeOfPlace(block, from + (to - from) * Math.max(0, Math.min(1, part)));
}

/** The column that a pixel shows: the largest of those below it. */
function columnAtPixel(x) {
    const {steps} = timeline;
    let low = 0;
    let high = steps.length - 1;
    while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (steps[middle].left <= x)
            low = middle;
        else
            high = middle - 1;
    }
    return steps.length ? steps[low].column : -1;
}

function bandAtPixel(column, y) {
    const {frame, most, block} = timeline;
    const bytes = ((frame.bottom - y) / (frame.bottom - frame.top)) * most;
    let sum = 0;
    return groupingOf(block).find(
        (band) => (sum += band.values[column]) > bytes && bytes > 0);
}

function hoverTimeline(event) {
    const {over, block} = timeline;
    const box = over.getBoundingClientRect();
    const column = columnAtPixel(event.clientX - box.left);
    if (column < 0) return;
    timeline.hover = column;
    drawSelection();
    const {columns} = block;
    const under = bandAtPixel(column, event.clientY - box.top);
    const bands = groupingOf(
        block).filter((band) => band.values[column] > 0)
                      .sort((a, b) => b.values[column] - a.values[column]);
    const shown = bands.slice(0, 5);
    if (under && !shown.includes(under)) shown.push(under);
    const mark = block.marks.find((each) => each.kind < 3 &&
            Math.abs(xOf(block, each.time) - (event.clientX - box.left)) < 5);
    showTip(event,
        el("b", {},
            `${momentText(block, instantOf(block, column))}: ` +
                sizeText(columns.high[column])),
        el("div", {}, exactText(columns.high[column])),
        columns.low[column] < columns.high[column]
            ? el("div", {}, `lowest in this column ${sizeText(columns.low[column])}`)
            : "",
        columns.reserved[column]
            ? el("div", {}, `reserved ${sizeText(columns.reserved[column])}`)
            : "",
        columns.used[column]
            ? el("div", {}, `used on the device ${sizeText(columns.used[column])}`)
            : "",
        mark ? el("div", {class: "bad"}, markText(mark)) : "",
        el("ul", {class: "tip-bands"},
            ...shown.map((band) => el("li", {class: band === under ? "under" : undefined},
                             el("span", {class: `swatch ${bandClass(band)}`}),
                             name(cut(band.label)),
                             el("span", {class: "n"}, sizeText(band.values[column]))))),
        bands.length > shown.length
            ? el("div", {}, `and ${bands.length - shown.length} more`)
            : "");
}

function markText(mark) {
    const what = mark.kind === 1 ? "out of memory" : MARK_KINDS[mark.kind];
    return [
        what, mark.text && mark.kind !== 1 ? cut(mark.text) : "",
        mark.bytes ? sizeText(mark.bytes) : ""
    ].filter(Boolean)
        .join(" ");
}

function listenTimeline() {
    const {over, strip} = timeline;
    const local = (event) => event.clientX - over.getBoundingClientRect().left;
    over.addEventListener("pointermove", (event) => {
        if (!timeline.drag) return hoverTimeline(event);
        timeline.drag.to =
            Math.max(timeline.frame.left, Math.min(timeline.frame.right, local(event)));
        return drawSelection();
    });
    over.addEventListener("pointerleave", () => {
        timeline.hover = -1;
        hideTip();
        drawSelection();
    });
    over.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        timeline.drag = {from: local(event), to: local(event)};
        over.setPointerCapture(event.pointerId);
    });
    over.addEventListener("pointercancel", () => (timeline.drag = null));
    over.addEventListener("pointerup", (event) => {
        const {drag, block} = timeline;
        timeline.drag = null;
        if (!drag) return;
        if (Math.abs(drag.to - drag.from) < 5)
            selectColumn(columnAtPixel(local(event)));
        else
            showRange(
                block, ...[drag.from, drag.to].sort((a, b) => a - b).map(timeAtPixel));
    });
    over.addEventListener("dblclick", () => select({z: ""}));
    over.addEventListener("wheel", (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        zoomTime(event.deltaY < 0 ? 0.8 : 1.25, timeAtPixel(local(event)));
    }, {passive: false});
    listenStrip(strip);
}

/** Drag an end of the range, the range itself, or a new one. */
function listenStrip(strip) {
    let drag = null;
    const timeOf = (event) => {
        const {frame, block} = timeline;
        const x = event.clientX - strip.getBoundingClientRect().left;
        const part = (x - frame.left) / (frame.right - frame.left);
        return timeOfPlace(block, Math.max(0, Math.min(1, part)));
    };
    strip.addEventListener("pointerdown", (event) => {
        const {block} = timeline;
        const [from, to] = rangeOf(block);
        const time = timeOf(event);
        const near = (endOf(block) - block.columns.start) / 60;
        const whole = state.z === "";
        if (Math.abs(time - from) < near)
            drag = {fixed: to};
        else if (Math.abs(time - to) < near)
            drag = {fixed: from};
        else if (!whole && time > from && time < to)
            drag = {move: time, from, to};
        else
            drag = {fixed: time};
        strip.setPointerCapture(event.pointerId);
    });
    strip.addEventListener("pointermove", (event) => {
        if (!drag) return;
        const time = timeOf(event);
        const {block} = timeline;
        if (drag.move !== undefined)
            showRange(block, drag.from + time - drag.move, drag.to + time - drag.move);
        else if (Math.abs(time - drag.fixed) > block.columns.width)
            showRange(block, Math.min(time, drag.fixed), Math.max(time, drag.fixed));
    });
    for (const end of ["pointerup", "pointercancel"])
        strip.addEventListener(end, () => (drag = null));
    strip.addEventListener("dblclick", () => select({z: ""}));
}
