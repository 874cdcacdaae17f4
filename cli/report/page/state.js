/* state.js -- what the reader has selected, and the panels that follow it.
 *
 * The selection is in the fragment of the address, so that a link shows what its sender
 * saw. A panel names the parts of the selection that it shows; it is drawn again when one of
 * them changes, at most once a frame.
 */

const DEFAULTS = {
    p: 0,          // block: the process, or the side of a comparison
    t: -1,         // selected time in ns; -1: none
    by: "site",    // grouping of the bands
    x: "time",     // x axis: time or events
    z: "",         // shown range of time, FROM-TO in ns
    f: "peak",     // flame graph: peak, time, exit, total, diff
    v: "callers",  // flame graph: callers or callees first
    h: 0,          // flame graph: library frames hidden
    n: "",         // flame graph: path to the box that is magnified
    q: "",         // flame graph: search
    d: "bytes",    // difference in: bytes or share of each peak
    e: "peak",     // difference at: peak, exit or total
    m: 0,          // address map
    s: "peak",     // sites: sorted by
    o: 0,          // sites: in the opposite order
    r: "site",     // sites: grouped by
    w: "",         // sites: filter
    theme: "",     // light, dark, or the system's
};

const state = {...DEFAULTS};
const panels = [];  // {keys, draw}
const blocks = [];  // decoded blocks; a hole for one that was not needed yet
const page = {
    count: 0,
    compare: false
};  // of the element tarn-page

/** The block that is shown. */
function shownBlock() {
    return blockAt(state.p);
}

/** A block, decoded at its first use. */
function blockAt(index) {
    return (blocks[index] ??= decodeBlock(
                document.getElementById(`tarn-data-${index}`)?.textContent ?? ""));
}

/** Draw a panel now, and whenever one of its keys changes. `p` and `theme` always count. */
function panel(keys, draw) {
    panels.push({keys: new Set([...keys, "p", "theme"]), draw, wait: false});
}

let requested = 0;

/** Draw the panels that show one of these keys, in the next frame. */
function request(keys) {
    for (const each of panels)
        if (keys === undefined || keys.some((key) => each.keys.has(key)))
            each.wait = true;
    requested ||= requestAnimationFrame(drawNow);
}

function drawNow() {
    requested = 0;
    for (const each of panels) {
        if (!each.wait) continue;
        each.wait = false;
        try {
            each.draw();
        } catch (error) {
            problem(`A part of this page cannot be drawn: ${error.message}`);
            throw error;
        }
    }
}

/** Change the selection. */
function select(changes) {
    const keys = Object.keys(changes).filter((key) => state[key] !== changes[key]);
    if (keys.length === 0) return;
    Object.assign(state, changes);
    const parts = Object.keys(DEFAULTS)
                      .filter((key) => state[key] !== DEFAULTS[key])
                      .map((key) => `${key}=${encodeURIComponent(state[key])}`);
    try {
        history.replaceState(null, "", parts.length ? "#" + parts.join("&") : "#");
    } catch {
        // a page in a frame without an address of its own
    }
    request(keys);
}

/** Take the selection from the address; what it does not name has its default. */
function readAddress() {
    const found = {...DEFAULTS};
    for (const part of location.hash.slice(1).split("&")) {
        const at = part.indexOf("=");
        const key = part.slice(0, at);
        if (!Object.hasOwn(DEFAULTS, key)) continue;
        try {
            const text = decodeURIComponent(part.slice(at + 1));
            found[key] = typeof DEFAULTS[key] === "number" ? Number(text) : text;
        } catch {
            // not an address that this page made
        }
    }
    const is = (key, ...values) => {
        if (!values.includes(found[key])) found[key] = DEFAULTS[key];
    };
    is("x", "time", "events");
    is("f", "peak", "time", "exit", "total", "diff");
    is("v", "callers", "callees");
    is("d", "bytes", "share");
    is("e", "peak", "exit", "total");
    is("h", 0, 1);
    is("theme", "", "light", "dark");
    is("r", "site", "function", "file", "framework");
    if (!(Number.isInteger(found.p) && found.p >= 0 && found.p < page.count)) found.p = 0;
    if (!Number.isInteger(found.m) || found.m < 0) found.m = 0;
    if (!Number.isFinite(found.t)) found.t = -1;
    Object.assign(state, found);
}

/** Say something to readers of the screen, at most twice a second. */
function announce(text) {
    const region = document.getElementById("tarn-live");
    clearTimeout(announce.timer);
    announce.timer = setTimeout(() => (region.textContent = text), 500);
}

/** Show a sentence above all else. */
function problem(text) {
    let place = document.getElementById("tarn-problem");
    if (!place) {
        place = document.createElement("p");
        place.id = "tarn-problem";
        place.setAttribute("role", "alert");
        document.body.prepend(place);
    }
    place.textContent = text;
}

/** The section of a panel, below its heading. It is made if the page has none. */
function section(id, title) {
    const main = document.getElementById("tarn-report") ?? document.body;
    let place = document.getElementById(`tarn-${id}`);
    if (!place) place = el("section", {id: `tarn-${id}`});
    const heading = place.querySelector("h2") ?? el("h2");
    heading.textContent = title;
    heading.tabIndex = -1;
    place.replaceChildren(heading);
    place.hidden = false;
    main.append(place);
    return place;
}
