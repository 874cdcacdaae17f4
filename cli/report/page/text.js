/* text.js -- text, figures and elements.
 *
 * Names in a log are bytes of a stranger. They reach the page by textContent and by a few
 * attributes, never as HTML. Characters that do not show, or that reorder others, are
 * written as \u{...}.
 */

const HIDDEN =
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const LONGEST_TEXT = 4096;

/** A text whose characters all show. */
function visible(text) {
    if (text.length > LONGEST_TEXT) text = text.slice(0, LONGEST_TEXT) + "…";
    return text.replace(HIDDEN, (c) => `\\u{${c.charCodeAt(0).toString(16)}}`);
}

// --- figures: always English, so that two readers see the same page ---

/** Three significant digits. */
function digits(value) {
    if (value === 0) return "0";
    if (Math.abs(value) >= 999.5) return grouped(Math.round(value));
    return String(Number(value.toPrecision(3)));
}

/** A whole number with a comma before each three digits. Loading a locale takes longer. */
function grouped(value) {
    return String(Math.round(value)).replace(/\B(?=(?:\d{3})+$)/g, ",");
}

const BYTE_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

function unitOf(bytes) {
    let unit = 0;
    for (let value = Math.abs(bytes); value >= 1023.5 && unit < 6; value /= 1024) unit++;
    return unit;
}

function sizeText(bytes) {
    if (!Number.isFinite(bytes)) return "not known";
    const unit = unitOf(bytes);
    const value = bytes / 1024 ** unit;
    const text = unit === 0                       ? String(value)
        : Math.abs(value) >= 999.5 || value === 0 ? digits(value)
                                                  : value.toPrecision(3);
    return `${text.replace("-", "\u2212")} ${BYTE_UNITS[unit]}`;
}

/** With a sign: for differences. */
function changeText(bytes) {
    return (bytes > 0 ? "+" : "") + sizeText(bytes);
}

function exactText(bytes) {
    return `${grouped(bytes)} bytes`;
}

function timeText(ns) {
    if (ns < 1000) return `${digits(ns)} ns`;
    if (ns < 1e6) return `${digits(ns / 1e3)} µs`;
    if (ns < 1e9) return `${digits(ns / 1e6)} ms`;
    if (ns < 120e9) return `${digits(ns / 1e9)} s`;
    if (ns < 7200e9)
        return `${Math.floor(ns / 60e9)} min ${Math.floor((ns / 1e9) % 60)} s`;
    return `${grouped(Math.floor(ns / 3600e9))} h ${Math.floor((ns / 60e9) % 60)} min`;
}

/** A time of a block, from the begin of its axis. */
function momentText(block, time) {
    return timeText(time - block.columns.start);
}

function shareText(part, whole) {
    if (!(whole > 0)) return "–";
    const percent = (part / whole) * 100;
    if (percent > 0 && percent < 0.1) return "<0.1 %";
    return `${percent.toFixed(1)} %`;
}

function plural(count, one, many = one + "s") {
    return `${grouped(count)} ${count === 1 ? one : many}`;
}

// --- names of frames ---

const SHORTEST = 256;  // characters of a name outside of a title

function cut(text) {
    return text.length > SHORTEST ? text.slice(0, SHORTEST) + "…" : text;
}

function lastParts(path, count) {
    return path.split("/").slice(-count).join("/");
}

/** A frame as `step.py:88 train`, or with all of its path. */
function frameName(block, frame, whole = false, withLine = true) {
    if (frame < 0 || frame >= block.frames.count) return "no location";
    const {frames, strings} = block;
    const file = strings[frames.file[frame]];
    const place =
        (whole ? file : lastParts(file, file.includes("site-packages/") ? 2 : 1)) ||
        "(no file)";
    const line = withLine && frames.line[frame] > 0 ? `:${frames.line[frame]}` : "";
    const name = `${place}${line} ${strings[frames.function [frame]]}`.trim();
    return whole ? name : cut(name);
}

/** The frames of a node, the outermost first. */
function stackOf(block, node) {
    const frames = [];
    for (; node > 0; node = block.trie.parent[node])
        frames.unshift(block.trie.frame[node]);
    return frames;
}

// --- elements ---

const ATTRIBUTES = new Set([
    "class", "id", "type", "role", "tabindex", "title", "value", "placeholder", "for",
    "scope", "colspan", "name", "hidden", "href", "open", "width", "height", "lang",
    "spellcheck", "viewBox", "d", "cx", "cy", "r", "preserveAspectRatio", "fill", "stroke"
]);

/** Make an element. Attributes are those of a list; children are elements or text. */
function el(tag, attributes = {}, ...children) {
    return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes = {}, ...children) {
    return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes,
        children);
}

function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) {
        if (value === undefined || value === false) continue;
        if (typeof value === "function")
            element.addEventListener(name, value);
        else if (ATTRIBUTES.has(name) || /^(aria|data)-[a-z]+$/.test(name))
            element.setAttribute(name, value === true ? "" : value);
        else
            throw new Error(`attribute ${name}`);
    }
    element.append(...children.filter((child) => child !== undefined && child !== null));
    return element;
}

/** Bytes with their exact number in the title and in data-bytes. */
function size(bytes, tag = "span", more = {}) {
    if (!Number.isFinite(bytes)) return el(tag, more, "not known");
    return el(tag, {title: exactText(bytes), "data-bytes": String(bytes), ...more},
        sizeText(bytes));
}

/** A name from the log, kept apart from the direction of the text around it. */
function name(text, whole = text) {
    return el("bdi", {class: "name", title: whole === text ? undefined : whole}, text);
}

function button(text, click, attributes = {}) {
    return el("button", {type: "button", click, ...attributes}, text);
}

/** A row of buttons of which one is pressed. `options` are [value, text]. */
function choice(label, options, value, choose) {
    const group = el("div", {class: "choice", role: "group", "aria-label": label});
    for (const [each, text] of options)
        group.append(button(text, () => choose(each),
            {"data-value": String(each), "aria-pressed": String(each === value)}));
    return group;
}

function labelled(text, group) {
    return el("span", {class: "labelled"}, el("span", {class: "label"}, text), group);
}

/** A folded table with the figures of a picture; `rows` is called when it is opened. */
function asTable(what, headings, rows) {
    const details = el("details", {class: "as-table"}, el("summary", {}, "as table"));
    const open = () => {
        details.querySelector("table")?.remove();
        if (!details.open) return;
        details.append(el("table", {class: "plain"}, el("caption", {}, what),
            el("thead", {},
                el("tr", {}, ...headings.map((text) => el("th", {scope: "col"}, text)))),
            el("tbody", {},
                ...rows().map((cells) => el("tr", {},
                                  ...cells.map((cell) => cell instanceof Element &&
                                              cell.tagName === "TD"
                                          ? cell
                                          : el("td", {}, cell)))))));
    };
    details.addEventListener("toggle", open);
    details.refresh = open;
    return details;
}
