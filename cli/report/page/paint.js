/* paint.js -- colours, patterns and canvases.
 *
 * A colour slot has a hue of Okabe and Ito, which readers with any colour vision tell
 * apart; the last five slots repeat hues with a hatch. A site has one slot in all panels.
 */

const HUES =
    ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442"];
const OTHER_HUE = "#8C8C8C";
const SLOTS = 12;

const THEMES = {
    light: {
        ink: "#1b1b1b",
        muted: "#5c5c5c",
        line: "#d9d9d4",
        paper: "#ffffff",
        panel: "#f6f6f3",
        own: "#e9e6dc",
        library: "#f3f3f0",
        bad: "#b3261e",
        accent: "#0b57a4",
        less: "#2166AC",
        same: "#E8E8E8",
        more: "#B2182B"
    },
    dark: {
        ink: "#e8e6e3",
        muted: "#a3a7ad",
        line: "#363b42",
        paper: "#14171c",
        panel: "#1c2026",
        own: "#343a42",
        library: "#23282f",
        bad: "#ff8a80",
        accent: "#7db7f0",
        less: "#6AA9E0",
        same: "#3A3F46",
        more: "#EF6A5A"
    },
};

const DARK = matchMedia("(prefers-color-scheme: dark)");

let printing = false;  // on white paper

function theme() {
    const dark = state.theme ? state.theme === "dark" : DARK.matches;
    return THEMES[dark && !printing ? "dark" : "light"];
}

/** The canvas of an element, as wide as its place. Its drawing context is in CSS pixels. */
function prepare(canvas, height) {
    const width = Math.max(40, canvas.parentElement.clientWidth);
    const scale = printing ? 2 : window.devicePixelRatio || 1;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = FONT;
    context.textBaseline = "alphabetic";
    return {context, width, height, scale, colours: theme()};
}

const FONT =
    "12px system-ui, -apple-system, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif";
const SMALL_FONT = FONT.replace("12px", "11px");

const patterns = new Map();

/** A fill with stripes or dots of a second colour. */
function pattern(context, ground, ink, kind) {
    const key = `${ground} ${ink} ${kind}`;
    if (patterns.has(key)) return patterns.get(key);
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const at = tile.getContext("2d");
    at.fillStyle = ground;
    at.fillRect(0, 0, 8, 8);
    at.strokeStyle = at.fillStyle = ink;
    at.lineWidth = 1.6;
    at.beginPath();
    if (kind === "hatch" || kind === "cross")
        for (const x of [-8, 0, 8]) at.moveTo(x - 1, 9), at.lineTo(x + 9, -1);
    if (kind === "cross")
        for (const x of [-8, 0, 8]) at.moveTo(x - 1, -1), at.lineTo(x + 9, 9);
    if (kind === "lines") at.moveTo(0, 4), at.lineTo(8, 4);
    at.stroke();
    if (kind === "dots")
        for (const [x, y] of [[2, 2], [6, 6]]) at.fillRect(x - 1, y - 1, 2, 2);
    const made = context.createPattern(tile, "repeat");
    patterns.set(key, made);
    return made;
}

/** The fill of a colour slot. */
function slotFill(context, slot) {
    const hue = HUES[slot % HUES.length];
    return slot < HUES.length ? hue : pattern(context, hue, "#ffffff8c", "hatch");
}

function bandFill(context, band) {
    if (band.kind === 1) return OTHER_HUE;
    if (band.kind === 2) return pattern(context, theme().panel, theme().muted, "hatch");
    return slotFill(context, band.slot);
}

/** The class of a swatch with the colour of a band; page.css has the colours. */
function bandClass(band) {
    if (band.kind === 1) return "slot-other";
    return band.kind === 2 ? "slot-unknown" : `slot-${band.slot}`;
}

/** A colour between two others. */
function mixed(from, to, part) {
    const hex = (text, at) => parseInt(text.slice(at, at + 2), 16);
    const each = [1, 3, 5].map(
        (at) => Math.round(hex(from, at) + (hex(to, at) - hex(from, at)) * part));
    return `rgb(${each.join(", ")})`;
}

/** The hue of a slot, so light that text is read over it. */
function slotTint(slot) {
    const {paper} = theme();
    return mixed(paper, HUES[slot % HUES.length], paper === "#ffffff" ? 0.3 : 0.38);
}

/** The colour slot of each frame that has a band of its own. */
function slotsOfFrames(block) {
    if (block.slots) return block.slots;
    block.slots = new Map();
    for (const band of block.groupings.get("site") ?? [])
        if (band.frame >= 0) block.slots.set(band.frame, band.slot);
    return block.slots;
}

/** The colour slot of each framework that has a band. */
function slotsOfFrameworks(block) {
    const slots = new Map();
    for (const band of block.groupings.get("framework") ?? [])
        if (band.kind === 0) slots.set(band.label, band.slot);
    return slots;
}

/** Steps between ticks: 1, 2 or 5 times a power of ten of the unit that fits the most. */
function byteTicks(most, about) {
    const unit = 1024 ** unitOf(most);
    const step = roundStep(most / unit / about) * unit;
    const ticks = [];
    for (let value = 0; value <= most && ticks.length < 50; value += step)
        ticks.push(value);
    return {ticks, unit, name: BYTE_UNITS[unitOf(most)]};
}

function roundStep(raw) {
    if (!(raw > 0)) return 1;
    const power = 10 ** Math.floor(Math.log10(raw));
    return [1, 2, 5, 10].find((factor) => factor * power >= raw) * power;
}

/** Shorten a text from the left until it fits. */
function fitText(context, text, width) {
    if (context.measureText(text).width <= width) return text;
    const each = context.measureText("n").width;
    let keep = Math.min(text.length, Math.floor(width / each * 1.3));
    while (keep > 4 && context.measureText("…" + text.slice(-keep)).width > width) keep--;
    return keep > 4 ? "…" + text.slice(-keep) : "";
}

// --- the box beside the pointer ---

function showTip(event, ...children) {
    const tip = document.getElementById("tarn-tip");
    tip.replaceChildren(...children);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const right = document.documentElement.clientWidth;
    const left = event.clientX + 16 + box.width > right
        ? Math.max(4, event.clientX - 12 - box.width)
        : event.clientX + 16;
    const top =
        Math.max(4, Math.min(event.clientY + 14, window.innerHeight - box.height - 4));
    tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
}

function hideTip() {
    document.getElementById("tarn-tip").hidden = true;
}
