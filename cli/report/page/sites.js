/* sites.js -- the table of sites, and one site at a time.
 *
 * Only the rows in view are elements: a report has up to 65,536 sites.
 */

const SITE_COLUMNS = [
    // key, heading, what it is, kind
    ["site", "site", "the innermost frame of your own code", "text"],
    ["peak", "at peak", "live bytes at the instant of the peak", "bytes"],
    ["share", "share", "share of the peak", "share"],
    ["now", "at selection", "live bytes at the selected time's snapshot", "bytes"],
    ["held", "held", "bytes held until exit", "bytes"],
    ["end", "at end", "live bytes when the log ends", "bytes"],
    ["total", "total", "bytes of all allocations", "bytes"],
    ["allocations", "count", "allocations", "count"],
    ["rate", "most /s", "most allocations in a second", "count"],
    ["largest", "largest", "largest allocation", "bytes"],
    ["median", "life median", "median lifetime; the upper bound of its slot", "time"],
    [
        "p99", "life p99", "99 % lived at most so long; the upper bound of its slot",
        "time"
    ],
    ["reuse", "reuse", "allocations for each address", "number"],
    [
        "trend", "trend",
        "largest bytes in each 64th of the time; each row has its own scale", "trend"
    ],
];
const SUMMED = ["peak", "end", "held", "total", "allocations", "frees", "now"];
const SHOWN_ROWS = 60;
const PRINTED_ROWS = 40;
const sites = {
    rows: [],
    first: -1
};

function makeSites() {
    const place = section("sites", "Sites");
    const filter = el("input", {
        type: "search",
        id: "tarn-filter",
        placeholder: "filter",
        "aria-label": "filter sites",
        spellcheck: "false",
        input: () => select({w: filter.value})
    });
    const tools = el("div", {class: "tools inner"});
    const counted = el("span", {class: "found", role: "status"});
    const head = el("tr");
    const body = el("tbody");
    const table = el("table", {class: "sites"}, el("thead", {}, head), body);
    const scroll = el("div", {
        class: "scroll",
        tabindex: "0",
        role: "region",
        "aria-label": "table of sites",
        scroll: () => drawRows()
    },
        table);
    const sheet = el("dialog", {class: "sheet", "aria-label": "site"});
    place.append(
        el("div", {class: "tools"}, tools, filter, counted,
            button("copy as TSV", () => copyText(sitesText()), {class: "quiet"})),
        scroll, sheet);
    Object.assign(
        sites, {place, filter, tools, counted, head, body, table, scroll, sheet});
    sheet.addEventListener("click", (event) => {
        if (event.target === sheet) sheet.close();
    });
    panel(["s", "o", "r", "w", "t", "by"], drawSites);
}

/** The figures of each site, and of the selected time. Each is an array over sites. */
function siteFigures(block) {
    const it = block.sites;
    block.figures ??= {
        ...it,
        share: it.peak,
        reuse: it.allocations.map(
            (count, at) => (it.addresses[at] ? count / it.addresses[at] : 0)),
        names: Array.from({length: it.count}, (_, at) => frameName(block, it.frame[at])),
        slope: slopesOf(it),
    };
    block.figures.now = nowOf(block);
    return block.figures;
}

/** How far the trend rises: its last quarter against its first. */
function slopesOf(it) {
    const slopes = new Float64Array(it.count);
    for (let site = 0; site < it.count; site++)
        for (let at = 0; at < 16; at++)
            slopes[site] +=
                it.trend[site * TREND + 48 + at] - it.trend[site * TREND + at];
    return slopes;
}

/** The node of a stack that is its site: the innermost frame that is a site's. */
function siteNode(block, node) {
    const known = siteOfFrame(block);
    for (let each = node; each > 0; each = block.trie.parent[each])
        if (known.has(block.trie.frame[each])) return each;
    return node;
}

/** The site of each frame. */
function siteOfFrame(block) {
    if (!block.siteOfFrame) {
        block.siteOfFrame = new Map();
        for (let site = 0; site < block.sites.count; site++)
            if (block.sites.frame[site] < block.frames.count)
                block.siteOfFrame.set(block.sites.frame[site], site);
    }
    return block.siteOfFrame;
}

/** The bytes of each site at the selected time, or null. */
function nowOf(block) {
    const own = ownAtSelection(block);
    if (!own) return null;
    if (block.now?.time === own.time) return block.now.bytes;
    const bytes = new Float64Array(block.sites.count);
    const known = siteOfFrame(block);
    for (let at = 0; at < own.nodes.length; at++) {
        const site = known.get(block.trie.frame[siteNode(block, own.nodes[at])]);
        if (site !== undefined) bytes[site] += own.bytes[at];
    }
    block.now = {time: own.time, bytes};
    return bytes;
}

/** The key of a site's group. */
function groupKey(block, site) {
    const {frames, strings} = block;
    const frame = block.sites.frame[site];
    if (state.r === "framework")
        return strings[block.sites.framework[site]] || "no framework";
    if (frame >= frames.count) return "no location";
    const file = strings[frames.file[frame]];
    return state.r === "file"
        ? file
        : `${lastParts(file, 1)} ${strings[frames.function [frame]]}`;
}

/** The rows of the table: {name, whole, members, and a figure for each column}. */
function siteRows(block) {
    const figures = siteFigures(block);
    const columns = shownColumns(block);
    const query = state.w.toLowerCase();
    const rows = [];
    const groups = new Map();
    for (let site = 0; site < block.sites.count; site++) {
        if (query && !figures.names[site].toLowerCase().includes(query) &&
            !frameName(block, figures.frame[site], true).toLowerCase().includes(query))
            continue;
        if (state.r === "site") {
            rows.push({site, name: figures.names[site]});
            continue;
        }
        const key = groupKey(block, site);
        if (!groups.has(key)) {
            groups.set(key, {name: key, sites: []});
            rows.push(groups.get(key));
        }
        groups.get(key).sites.push(site);
    }
    if (state.r !== "site")
        for (const row of rows) sumGroup(row, figures);
    sortRows(rows, figures, columns);
    return rows;
}

/** Sums of a group. Lifetimes have no sum; rates and trends of sites at different times
 * have none either. */
function sumGroup(row, figures) {
    for (const key of SUMMED)
        row[key] = figures[key]
            ? row.sites.reduce((sum, site) => sum + figures[key][site], 0)
            : 0;
    row.share = row.peak;
    row.largest =
        row.sites.reduce((most, site) => Math.max(most, figures.largest[site]), 0);
    if (row.sites.length === 1)
        for (const key of ["rate", "median", "p99", "reuse"])
            row[key] = figures[key][row.sites[0]];
}

function valueOf(row, key, figures) {
    if (key === "site") return row.name;
    const from = key === "trend" ? "slope" : key;
    if (row.sites && key !== "trend") return row[key] ?? -1;
    if (row.sites) return row.sites.reduce((sum, site) => sum + figures.slope[site], 0);
    return figures[from]?.[row.site] ?? 0;
}

function sortRows(rows, figures, columns) {
    const key = columns.some(([each]) => each === state.s) ? state.s : "peak";
    const sign = (key === "site" ? 1 : -1) * (state.o ? -1 : 1);
    for (const row of rows) row.order = valueOf(row, key, figures);
    rows.sort((a, b) => (a.order < b.order ? -sign
                      : a.order > b.order  ? sign
                      : a.name < b.name    ? -1
                      : a.name > b.name    ? 1
                                           : 0));
}

/** The columns which this log has figures for. */
function shownColumns(block) {
    const {sites: it} = block;
    const any = (values) => values && values.some((value) => value > 0);
    return SITE_COLUMNS.filter(([key]) => {
        if (key === "now") return block.figures?.now;
        if (key === "held") return any(it.held);
        if (key === "reuse") return any(it.addresses);
        if (key === "median" || key === "p99") return any(it.p99);
        return true;
    });
}

function drawSites() {
    const block = shownBlock();
    sites.place.hidden = block.sites.count === 0;
    if (sites.place.hidden) return;
    sites.block = block;
    sites.figures = siteFigures(block);
    sites.columns = shownColumns(block);
    sites.rows = siteRows(block);
    sites.first = -1;
    if (sites.filter.value !== state.w) sites.filter.value = state.w;
    const frameworks = new Set(block.sites.framework);
    const groups =
        ["site", "function", "file", ...(frameworks.size > 1 ? ["framework"] : [])];
    sites.tools.replaceChildren(labelled("group by",
        choice("group by", groups.map((key) => [key, key]), state.r,
            (value) => select({r: value}))));
    const rest = figure(block, "other_sites");
    const many = sites.rows.length;
    sites.counted.textContent = state.r === "site"
        ? `${grouped(many)} of ${plural(block.sites.count, "site")}` +
            (rest ? `; ${grouped(rest)} more are in <other>` : "")
        : plural(many, "group");
    drawHead();
    drawRows(true);
}

function drawHead() {
    sites.head.replaceChildren(...sites.columns.map(([key, text, about, kind]) => {
        const sorted = state.s === key;
        const up = (key === "site") !== (state.o === 1);
        const label = key === "now" && state.t >= 0
            ? `at ${momentText(sites.block, sites.block.now.time)}`
            : text;
        return el("th", {
            scope: "col",
            class: `${kind} col-${key}`,
            "aria-sort": sorted ? (up ? "ascending" : "descending") : undefined
        },
            button(label + (sorted ? (up ? " ▴" : " ▾") : ""),
                () => select(sorted ? {o: 1 - state.o} : {s: key, o: 0}),
                {title: about}));
    }));
}

/** The rows in view, between two empty rows as high as those that are not. */
function drawRows(force = false) {
    const {rows, scroll, body} = sites;
    const height = isNarrow() ? 44 : 27;
    const most = printing ? PRINTED_ROWS : SHOWN_ROWS;
    const first = printing
        ? 0
        : Math.max(0,
              Math.min(rows.length - most, Math.floor(scroll.scrollTop / height) - 16));
    if (!force && Math.abs(first - sites.first) < 8) return;
    sites.first = first;
    const shown = rows.slice(first, first + most);
    const space = (count) => {
        const row = el("tr", {class: "space", "aria-hidden": "true"},
            el("td", {colspan: String(sites.columns.length)}));
        row.style.height = `${count * height}px`;
        return row;
    };
    sites.table.setAttribute("aria-rowcount", String(rows.length + 1));
    body.replaceChildren(...(first > 0 ? [space(first)] : []),
        ...shown.map((row, at) => siteRow(row, first + at)),
        ...(!printing && first + most < rows.length ? [space(rows.length - first - most)]
                                                    : []));
}

function siteRow(row, index) {
    const {block, figures} = sites;
    return el("tr", {"aria-rowindex": String(index + 2)},
        ...sites.columns.map(([key, , , kind]) => {
            const attributes = {class: `${kind} col-${key}`};
            if (key === "site") return siteCell(row);
            if (key === "trend")
                return el("td", attributes, row.sites ? "" : sparkline(block, row.site));
            const value = row.sites ? row[key] : figures[key]?.[row.site];
            return valueCell(kind, value, attributes, block);
        }));
}

function valueCell(kind, value, attributes, block) {
    if (value === undefined) return el("td", attributes, "–");
    if (kind === "bytes")
        return value === 0 ? el("td", {...attributes, "data-bytes": "0"}, "–")
                           : size(value, "td", attributes);
    const text = kind === "share" ? shareText(value, figure(block, "peak_bytes"))
        : kind === "time"
        ? (value > 0 ? `≤ ${timeText(Number(value.toPrecision(2)))}` : "–")
        : kind === "number" ? (value > 0 ? digits(value) : "–")
                            : grouped(value);
    return el("td", {...attributes, "data-value": String(value)}, text);
}

function siteCell(row) {
    const {block, figures} = sites;
    const slot =
        row.sites ? undefined : slotsOfFrames(block).get(figures.frame[row.site]);
    const swatch =
        el("span", {class: `swatch ${slot === undefined ? "none" : `slot-${slot}`}`});
    const whole = row.sites ? row.name : frameName(block, figures.frame[row.site], true);
    const open = row.sites
        ? () => select({r: "site", w: state.r === "framework" ? "" : groupWord(row.name)})
        : () => openSite(row.site);
    return el("th", {scope: "row", class: "text col-site"}, swatch,
        el("button", {type: "button", class: "link", click: open, title: cut(whole)},
            name(row.name),
            row.sites && row.sites.length > 1
                ? el("span", {class: "muted"}, ` ${plural(row.sites.length, "site")}`)
                : ""));
}

function groupWord(text) {
    return state.r === "function" ? text.slice(text.indexOf(" ") + 1) : text;
}

/** The largest bytes of a site in each 64th of the time, as steps. */
function sparkline(block, site, wide = 96, high = 18) {
    const {trend} = block.sites;
    let most = 0;
    for (let at = 0; at < TREND; at++) most = Math.max(most, trend[site * TREND + at]);
    const step = wide / TREND;
    let path = `M0 ${high}`;
    for (let at = 0; at < TREND; at++) {
        const y = most ? high - (trend[site * TREND + at] / most) * (high - 1.5) : high;
        path += `V${y.toFixed(1)}H${((at + 1) * step).toFixed(1)}`;
    }
    const text = `from ${sizeText(trend[site * TREND])} to ` +
        `${sizeText(trend[site * TREND + 63])}, at most ${sizeText(most)}`;
    return svg("svg", {
        class: "spark",
        role: "img",
        "aria-label": text,
        width: String(wide),
        height: String(high),
        viewBox: `0 0 ${wide} ${high}`
    },
        svg("path", {class: "area", d: `${path}V${high}Z`}),
        svg("path", {class: "line", d: path}));
}

/** One site, with all its figures and its largest stacks. */
function openSite(site) {
    const {block, figures, sheet} = sites;
    const frame = figures.frame[site];
    const rows =
        SITE_COLUMNS.filter(([key]) => !["site", "trend"].includes(key) && figures[key])
            .map(([key, text, about, kind]) =>
                     el("tr", {}, el("th", {scope: "row", title: about}, text),
                         valueCell(kind, figures[key][site], {class: "n"}, block)));
    const framework = block.strings[figures.framework[site]];
    sheet.replaceChildren(
        el("form", {class: "close"},
            button("close", () => sheet.close(), {"aria-label": "close"})),
        el("h3", {}, name(frameName(block, frame))),
        el("p", {class: "muted path"},
            name(cut(frameName(block, frame, true)), frameName(block, frame, true)),
            framework ? ` · ${cut(framework)}` : ""),
        sparkline(block, site, 320, 64),
        el("p", {class: "caption"},
            "Largest bytes in each 64th of " +
                `${timeText(endOf(block) - block.columns.start)}.`),
        el("table", {class: "plain"}, el("tbody", {}, ...rows)),
        ...stacksOfSite(block, site),
        el("div", {class: "tools"}, button("find in the stacks", () => {
            sheet.close();
            select({q: frameName(block, frame), n: "", h: 0});
            goTo("flame");
        }), button("copy name", () => copyText(frameName(block, frame, true)))));
    sheet.showModal();
}

/** The three largest stacks of a site at the peak, else of all bytes. */
function stacksOfSite(block, site) {
    const largest = (own) =>
        Array.from(own.nodes, (node, at) => [node, own.bytes[at]])
            .filter(([node]) => siteOfFrame(block).get(
                                    block.trie.frame[siteNode(block, node)]) === site)
            .sort((a, b) => b[1] - a[1])
            .slice(0, 3);
    let [what, stacks] = ["at the peak", largest(block.peak)];
    if (stacks.length === 0) [what, stacks] = ["of all bytes", largest(block.total)];
    return stacks.map(
        ([node, bytes]) => el("div", {}, el("p", {}, size(bytes, "b"), ` ${what}, by`),
            stackList(block, node)));
}

/** A stack as a list, the innermost frame first. */
function stackList(block, node) {
    return el("ol", {class: "stack"},
        ...stackOf(block, node)
            .reverse()
            .map((frame) =>
                     el("li", {class: block.frames.flags[frame] ? "muted" : undefined},
                         name(frameName(block, frame), frameName(block, frame, true)))));
}

/** All rows as text for a spreadsheet; a cell never begins as a formula. */
function sitesText() {
    const {rows, columns, figures, block} = sites;
    const safe = (text) => {
        const flat = String(text).replace(/[\t\r\n]/g, " ");
        return /^[=+\-@]/.test(flat) ? `'${flat}` : flat;
    };
    const kept = columns.filter(([key]) => key !== "trend" && key !== "share");
    const lines =
        [kept.map(([, text, , kind]) => (kind === "time" ? `${text} ns` : text))];
    for (const row of rows)
        lines.push(
            kept.map(([key]) => safe(key === "site"
                             ? row.sites ? row.name
                                         : frameName(block, figures.frame[row.site], true)
                             : (row.sites ? row[key] : figures[key]?.[row.site]) ?? "")));
    return lines.map((cells) => cells.join("\t")).join("\n") + "\n";
}
