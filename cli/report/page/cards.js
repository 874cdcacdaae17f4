/* cards.js -- the head, findings, failures, the quality of the data, and keys. */

function makeHead() {
    const place = document.getElementById("tarn-head") ??
        document.body.insertBefore(
            el("header", {id: "tarn-head"}), document.body.firstChild);
    panel(["t"], () => drawHeadOf(place));
}

function drawHeadOf(place) {
    const block = shownBlock();
    const meta = (key) => block.meta.get(key) ?? "";
    const about = [
        meta("pid") && meta("pid") !== "0" ? `pid ${meta("pid")}` : "",
        meta("host"),
        startText(figure(block, "start_unix_ns")),
        figure(block, "duration_ns") ? timeText(figure(block, "duration_ns")) : "",
        meta("gpu"),
    ].filter(Boolean);
    const tools = el("div", {class: "tools head-tools"},
        page.compare ? choice("side", [[0, "A"], [1, "B"]], state.p,
                           (value) => select({p: value, n: ""}))
                     : "",
        button("◐", () => select({theme: theme() === THEMES.dark ? "light" : "dark"}),
            {"aria-label": "light or dark", title: "light or dark", class: "square"}),
        button("?", openKeys, {"aria-label": "keys", title: "keys", class: "square"}));
    place.replaceChildren(
        el("div", {class: "title"},
            el("h1", {}, el("span", {class: "brand"}, "tarn report "),
                name(
                    cut(meta("program") || "a log"), meta("command") || meta("program"))),
            el("p", {class: "about"},
                ...about.flatMap(
                    (text, at) => at ? [" · ", name(cut(text))] : [name(cut(text))])),
            tools),
        headFigures(block),
        ...warningsOf(block).map((text) => el("p", {class: "warning"},
                                     el("span", {class: "sign"}, "!"), " ", text)));
}

function startText(ns) {
    if (!(ns > 0)) return "";
    return `${new Date(ns / 1e6).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** The figures with which a reader begins. */
function headFigures(block) {
    const entry = (label, value, more = "") => el("div", {class: "figure"},
        el("dt", {}, label), el("dd", {}, ...[value].flat(), more));
    const bytes = (key) => figure(block, key) ?? NaN;
    const lowerBound = isDoubtful(block) ? "at least " : "";
    const requests = block.failures.length;
    const attempts =
        block.failures.reduce((sum, failure) => sum + attemptsOf(failure), 0);
    const failures = figure(block, "failures") ?? attempts;
    const isWhole = requests > 0 && attempts === failures;  // no failure is left out
    const list = [
        entry("peak", [lowerBound, size(bytes("peak_bytes"), "b")],
            el("span", {class: "muted"},
                bytes("peak_bytes") > 0 ? ` at ${momentText(block, bytes("peak_ns"))}`
                                        : "")),
        figure(block, "has_reserved")
            ? entry("reserved at most", size(bytes("reserved_peak_bytes"), "b"))
            : "",
        entry("held until exit", size(bytes("held_bytes"), "b")),
        entry("live at the end", size(bytes("end_bytes"), "b")),
        failures > 0
            ? entry("out of memory",
                  el("b", {class: "bad"}, plural(isWhole ? requests : failures, "time")),
                  isWhole && attempts > requests
                      ? el("span", {class: "muted"}, ` in ${plural(attempts, "attempt")}`)
                      : "")
            : "",
        entry("allocated in all", size(bytes("total_bytes"), "b"),
            el("span", {class: "muted"},
                ` in ${plural(figure(block, "allocations") ?? 0, "allocation")}`)),
    ];
    return el("dl", {class: "figures"}, ...list.filter(Boolean));
}

/** More than 0.1 % of the rows have problems. */
function isDoubtful(block) {
    return (figure(block, "problems") ?? 0) > (figure(block, "rows") ?? 0) / 1000;
}

function warningsOf(block) {
    const texts = [];
    const rows = figure(block, "rows") ?? 0;
    const when = timeText(figure(block, "duration_ns") ?? 0);
    if (figure(block, "is_cut"))
        texts.push(
            `The log has no end after ${when}: a signal (Ctrl-C, kill), a crash or ` +
            "_exit() ended the program, it still runs, or the file was cut. " +
            "Figures at the end are those of the last row.");
    if (figure(block, "is_ring"))
        texts.push(
            `The log is a ring: it begins ${timeText(figure(block, "begin_ns") ?? 0)} ` +
            "after the start of the program.");
    if (isDoubtful(block))
        texts.push(`${plural(figure(block, "problems"), "problem")} in ${
                       plural(rows, "row")}: ` +
            "read each figure as “at least”. See the quality of the data below.");
    if (rows === 0)
        texts.push(
            "No allocation is in this log. Was it written with TARN_LOG or tarn run, and " +
            "does the program allocate from Tarn?");
    else if (figure(block, "allocations") === 0)
        texts.push("No allocation of this log succeeded.");
    return texts;
}

// --- findings ---

const SHOWN_FINDINGS = 4;

function makeFindings() {
    const place = section("findings", "Findings");
    panel([], () => {
        const block = shownBlock();
        place.querySelector("h2").textContent = `Findings (${block.findings.length})`;
        const cards =
            block.findings.map((finding, at) => findingCard(block, finding, at === 0));
        const rest = cards.slice(SHOWN_FINDINGS);
        place.replaceChildren(place.querySelector("h2"),
            cards.length === 0
                ? el("p", {class: "muted"}, "None of the twelve rules found anything.")
                : "",
            el("ol", {class: "cards"}, ...cards.slice(0, SHOWN_FINDINGS)),
            rest.length ? el("details", {open: printing},
                              el("summary", {}, `${rest.length} more`),
                              el("ol", {class: "cards"}, ...rest))
                        : "");
    });
}

function findingCard(block, finding, isOpen) {
    const isProblem = finding.severity === 0;
    const site = finding.node > 0
        ? siteOfFrame(block).get(block.trie.frame[siteNode(block, finding.node)])
        : undefined;
    const shows = [];
    if (finding.node > 0)
        shows.push(button("stack", () => showNode(block, finding.node)));
    if (finding.time >= 0)
        shows.push(button(`at ${momentText(block, finding.time)}`, () => {
            select({t: finding.time, f: block.readSnapshots().length ? "time" : state.f});
            goTo("timeline");
        }));
    if (site !== undefined) shows.push(button("site", () => openSite(site)));
    return el("li", {class: isProblem ? "card problem" : "card hint"},
        el("p", {class: "sentence"},
            el("span", {class: "sign", title: isProblem ? "problem" : "hint"},
                isProblem ? "!" : "i"),
            el("span", {class: "hidden-text"}, isProblem ? "problem: " : "hint: "), " ",
            name(cut(capital(finding.sentence)))),
        site === undefined ? "" : sparkline(block, site, 200, 26),
        el("details", {open: isOpen || printing},
            el("summary", {}, "why, and what to do"),
            el("ul", {class: "evidence"},
                ...finding.evidence.map((text) => el("li", {}, name(cut(text))))),
            finding.advice ? el("p", {class: "advice"}, name(cut(finding.advice))) : ""),
        el("p", {class: "shows"}, ...shows,
            el("code", {title: "to allow this finding, list this key"},
                cut([finding.rule, finding.allow]
                        .filter((text, at) => text && (at === 0 || text !== finding.rule))
                        .join(" ")))));
}

/** Begin a sentence with a capital, unless it begins with a name. */
function capital(sentence) {
    return /^[a-z]+ /.test(sentence) ? sentence[0].toUpperCase() + sentence.slice(1)
                                     : sentence;
}

/** Magnify the stack of a node in the flame graph. */
function showNode(block, node) {
    const has = (own) => own.nodes.includes(node);
    const f = has(block.peak) ? "peak"
        : has(block.exit)     ? "exit"
        : has(block.total)    ? "total"
                              : state.f;
    const frames = stackOf(block, node).filter((frame, at, all) => frame !== all[at - 1]);
    select({f, v: "callers", h: 0, q: "", n: frames.join(".")});
    goTo("flame");
}

// --- failures ---

const FAILURE_WORDS = [
    // members of tarn_pool_oom_report
    ["requested", "requested"],
    ["alignment", "alignment"],
    ["live", "live"],
    ["thread_cached", "free in thread caches"],
    ["cached", "free in the pool"],
    ["same_stream", "of it on the same stream"],
    ["other_streams", "of it on other streams"],
    ["completed", "of it free for every stream"],
    ["unfenced", "of it without an event fence"],
    ["captured", "free for captured graphs"],
    ["reserved", "reserved by the pool"],
    ["maximum", "maximum of the pool"],
    ["largest_free", "largest usable free block"],
    ["device_free", "free on the device"],
    ["device_total", "of the device in all"],
];
const NO_BYTES = new Set(["attempts", "failed_attempts", "upstream_status"]);

function makeFailures() {
    const place = section("failures", "Out of memory");
    panel([], () => {
        const block = shownBlock();
        place.hidden = block.failures.length === 0;
        const shown =
            block.failures.reduce((sum, failure) => sum + attemptsOf(failure), 0);
        const count = figure(block, "failures") ?? shown;
        place.replaceChildren(place.querySelector("h2"),
            count > shown
                ? el("p", {class: "muted"},
                      `${plural(shown, "failure")} of ${grouped(count)} are shown.`)
                : "",
            ...block.failures.map((failure) => failureCard(block, failure)));
    });
}

/** How often the request failed; a log of an earlier version does not tell. */
function attemptsOf(failure) {
    return failure.fields.get("failed_attempts") ?? 1;
}

function failureCard(block, failure) {
    const of = (key) => known(failure.fields.get(key));
    const wanted = of("requested");
    const lines = failure.text.split("\\u{a}");  // as visible() writes a new line
    const words = FAILURE_WORDS.filter(([key]) => failure.fields.has(key));
    const others = [...failure.fields.keys()].filter(
        (key) => !FAILURE_WORDS.some(([each]) => each === key));
    const row = (text, value, isBytes) => el("div", {}, el("dt", {}, name(cut(text))),
        value === undefined ? el("dd", {class: "n"}, "none")
            : isBytes       ? size(value, "dd", {class: "n"})
                            : el("dd", {class: "n"}, grouped(value)));
    return el("article", {class: "failure"},
        el("h3", {}, `At ${momentText(block, failure.time)}: `,
            wanted === undefined ? "an allocation" : size(wanted),
            wanted === undefined ? " failed" : " requested",
            attemptsOf(failure) > 1 ? `, ${grouped(attemptsOf(failure))} attempts failed`
                                    : ""),
        lines.length === 1 ? el("p", {}, name(cut(failure.text))) : "",
        failureBar(failure, of),
        el("p", {class: "shows"},
            button("in the chart",
                () => {
                    select({t: failure.time});
                    keepInView(block, failure.time);
                    goTo("timeline");
                }),
            failure.map >= 0 && block.maps[failure.map] ? button("address map",
                                                              () => {
                                                                  select(
                                                                      {m: failure.map});
                                                                  goTo("map");
                                                              })
                                                        : "",
            failure.node > 0 ? button("stack", () => showNode(block, failure.node)) : ""),
        el("details", {open: !isNarrow() || printing}, el("summary", {}, "all figures"),
            el("dl", {class: "facts"},
                ...words.map(([key, text]) => row(text, of(key), true)),
                ...others.map((key) => row(fieldText(key), of(key),
                                  !NO_BYTES.has(key) && of(key) > 4096))),
            lines.length > 1
                ? el("details", {}, el("summary", {}, "the report of the pool"),
                      el("pre", {}, lines.join("\n")))
                : ""),
        failure.node > 0
            ? el("div", {}, el("h3", {}, "Requested by"), stackList(block, failure.node))
            : "");
}

function fieldText(key) {
    return /^[a-z]+(_[a-z]+)*$/.test(key) ? key.replaceAll("_", " ") : key;
}

/** UINT64_MAX means none. */
function known(value) {
    return value === undefined || value >= 2 ** 63 ? undefined : value;
}

/** The device from 0 to its total, and the request in the same scale below. */
function failureBar(failure, of) {
    const wanted = of("requested");
    const reserved = of("reserved") ?? 0;
    const live = of("live") ?? 0;
    const captured = of("captured") ?? 0;
    const mine = of("same_stream") ?? 0;
    const completed = of("completed") ?? 0;
    const theirs =
        of("other_streams") ?? Math.max(0, (of("cached") ?? 0) - mine - completed);
    const threads = of("thread_cached") ?? 0;
    const parts = [
        ["live", live, "part-live"], ["free, same stream", mine, "part-own"],
        ["free, every stream", completed, "part-completed"],
        ["free, other streams", theirs, "part-other"],
        ["thread caches", threads, "part-thread"], ["captured", captured, "part-captured"]
    ].filter(([, bytes]) => bytes > 0);
    const sum = parts.reduce((total, [, bytes]) => total + bytes, 0);
    const total = of("device_total") ?? 0;
    const others = Math.max(0, total - (of("device_free") ?? total) - reserved);
    const head =
        Math.min((of("maximum") ?? Infinity) - reserved, of("device_free") ?? Infinity);
    if (Number.isFinite(head) && head > 0)
        parts.push(["can still be reserved", head, "part-room"]);
    if (others > 0) parts.push(["used by others", others, "part-others"]);
    const whole = Math.max(
        sum + others + (Number.isFinite(head) ? Math.max(0, head) : 0), wanted ?? 0);
    if (!(whole > 0)) return "";
    const strip = (list) =>
        el("div", {class: "strip-bar"}, ...list.map(([text, bytes, kind]) => {
            const part = el("span", {class: kind, title: `${text}: ${sizeText(bytes)}`});
            part.style.width = `${(bytes / whole) * 100}%`;
            return part;
        }));
    return el("div", {class: "bars"}, strip(parts),
        wanted ? strip([["requested", wanted, "part-wanted"]]) : "",
        of("largest_free")
            ? strip([["largest usable free block", of("largest_free"), "part-largest"]])
            : "",
        el("ul", {class: "legend"},
            ...[...parts, ["requested", wanted, "part-wanted"],
                ["largest usable free block", of("largest_free"), "part-largest"]]
                .filter(([, bytes]) => bytes > 0)
                .map(([text, bytes, kind]) =>
                         el("li", {}, el("span", {class: `swatch ${kind}`}),
                             el("span", {}, text), size(bytes, "span", {class: "n"})))));
}

// --- the quality of the data ---

const QUALITY = [
    ["rows", "rows of the log"],
    ["torn", "torn rows, which were left out"],
    ["lost", "rows that a ring has written over"],
    ["moved", "rows out of the order of time; their order in the log counts"],
    ["unmatched_frees", "frees of unknown blocks"],
    ["double_allocations", "allocations at an address that was live"],
    ["problems", "inconsistent rows in all"],
    ["other_sites", "sites in <other>"],
];

function makeQuality() {
    const place = section("quality", "Quality of the data");
    panel([], () => {
        const block = shownBlock();
        const rows = QUALITY.map(([key, text]) => [text, figure(block, key)]).filter(([,
            value]) => value !== undefined);
        const meta = ["command", "format", "tarn", "driver"]
                         .map((key) => [key, block.meta.get(key)])
                         .filter(([, value]) => value);
        const row = (text, value, attributes = {}) =>
            el("div", {}, el("dt", {}, text), el("dd", attributes, value));
        place.replaceChildren(place.querySelector("h2"),
            el("dl", {class: "facts"}, ...rows.map(([text,
                value]) => row(text, grouped(value), {class: value ? "n" : "n muted"})),
                block.columns.count ? row("width of a column",
                                          timeText(block.columns.width), {class: "n"})
                                    : "",
                ...meta.map(([key, value]) => row(key, name(cut(value))))));
        // what the command wrote about words stays, below everything
        const words = document.getElementById("tarn-glossary");
        if (words) place.after(words);
    });
}

const KEYS = [
    ["1 to 7", "findings, chart, stacks, address map, sites, processes, plan"],
    ["← →", "select the column before or after; with Shift: ten columns"],
    ["p", "select the peak"],
    ["o", "select the next failure"],
    ["+ −", "show less or more time"],
    ["0", "show all of the time"],
    ["/", "search the stacks"],
    ["f", "filter the sites"],
    ["s", "sort the sites by the next column"],
    ["↑ ↓ ← → Enter", "in the stacks: caller, callee, neighbours, magnify"],
    ["Esc", "undo a magnification, clear the search, close"],
    ["?", "this list"],
];

function openKeys() {
    let sheet = document.getElementById("tarn-keys");
    if (!sheet) {
        sheet = el("dialog", {class: "sheet", id: "tarn-keys", "aria-label": "keys"},
            el("form", {class: "close"},
                button("close", () => sheet.close(), {"aria-label": "close"})),
            el("h3", {}, "Keys"),
            el("table", {class: "plain"},
                el("tbody", {},
                    ...KEYS.map(([key, text]) => el("tr", {},
                                    el("th", {scope: "row"}, el("kbd", {}, key)),
                                    el("td", {}, text))))));
        document.body.append(sheet);
    }
    if (!sheet.open) sheet.showModal();
}
