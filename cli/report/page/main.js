/* main.js -- decodes the first block, makes the panels, and listens to keys. */

const PANELS = ["findings", "timeline", "flame", "map", "sites", "processes", "plan"];

/** The lines key=value of the page. */
function readPage() {
    const found = new Map((document.getElementById("tarn-page")?.textContent ?? "")
            .split("\n")
            .map((line) => [line.slice(0, line.indexOf("=")),
                     line.slice(line.indexOf("=") + 1)]));
    page.compare = found.get("compare") === "1";
    page.count = document.querySelectorAll("script[id^=\"tarn-data-\"]").length;
    page.tarn = found.get("tarn") ?? "";
}

/** Scroll to a panel, and give it the focus. */
function goTo(id) {
    const heading = document.querySelector(`#tarn-${id}:not([hidden]) h2`);
    heading?.focus({preventScroll: true});
    heading?.parentElement.scrollIntoView({block: "start"});
}

function isTyping(target) {
    return target.closest("input, textarea, select, dialog") !== null;
}

function selectFailure() {
    const block = shownBlock();
    const times = block.marks.filter((mark) => mark.kind === 1)
                      .map((mark) => mark.time)
                      .concat(block.failures.map((failure) => failure.time))
                      .sort((a, b) => a - b);
    if (times.length === 0) return announce("no failure");
    const time = times.find((each) => each > state.t) ?? times[0];
    select({t: time});
    keepInView(block, time);
    return announce(`out of memory at ${momentText(block, time)}`);
}

const COMMANDS = {
    ArrowLeft: (event) => stepColumn(event.shiftKey ? -10 : -1),
    ArrowRight: (event) => stepColumn(event.shiftKey ? 10 : 1),
    p: () => selectColumn(columnAt(shownBlock(), figure(shownBlock(), "peak_ns") ?? 0)),
    o: selectFailure,
    "+": () => zoomTime(0.5),
    "=": () => zoomTime(0.5),
    "-": () => zoomTime(2),
    0: () => select({z: ""}),
    s: () => {
        const keys = shownColumns(shownBlock()).map(([key]) => key);
        select({s: keys[(keys.indexOf(state.s) + 1) % keys.length], o: 0});
    },
    "/": () => flame.search.focus(),
    f: () => sites.filter.focus(),
    "?": openKeys,
    Escape: () => {
        if (state.n)
            select({n: ""});
        else if (state.q)
            select({q: ""});
        else if (state.t >= 0)
            select({t: -1, f: state.f === "time" ? "peak" : state.f});
    },
};

function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (event.key === "Escape" && event.target.closest("input")) {
        select(event.target === flame.search ? {q: ""} : {w: ""});
        event.target.blur();
        return;
    }
    if (isTyping(event.target)) return;
    if (/^[1-7]$/.test(event.key)) return goTo(PANELS[event.key - 1]);
    const arrow = event.key.startsWith("Arrow");
    if (arrow && event.target.closest(".scroll, summary")) return;
    const command = Object.hasOwn(COMMANDS, event.key) ? COMMANDS[event.key] : undefined;
    if (!command) return;
    event.preventDefault();
    command(event);
}

function listenPage() {
    document.addEventListener("keydown", onKey);
    window.addEventListener("hashchange", () => {
        readAddress();
        request();
    });
    let wide = document.documentElement.clientWidth;
    window.addEventListener("resize", () => {
        if (wide === document.documentElement.clientWidth) return;
        wide = document.documentElement.clientWidth;
        hideTip();
        request();
    });
    DARK.addEventListener("change", () => request());
    const print = (isPrinting) => {
        printing = isPrinting;
        patterns.clear();
        applyTheme();
        for (const each of panels) each.draw();
    };
    matchMedia("print").addEventListener("change", (event) => print(event.matches));
    window.addEventListener("beforeprint", () => print(true));
    window.addEventListener("afterprint", () => print(false));
}

function applyTheme() {
    const chosen = printing ? "light" : state.theme;
    if (chosen)
        document.documentElement.dataset.theme = chosen;
    else
        delete document.documentElement.dataset.theme;
    patterns.clear();
}

function start() {
    readPage();
    if (page.compare) DEFAULTS.f = "diff";
    readAddress();
    if (page.count === 0) throw new Damage("the page has no data");
    shownBlock();
    if (page.compare)
        for (const side of [0, 1]) blockAt(side);
    document.body.append(el("div", {id: "tarn-tip", hidden: true, "aria-hidden": "true"}),
        el("div", {id: "tarn-live", class: "hidden-text", "aria-live": "polite"}));
    document.documentElement.classList.add("live");
    if (page.compare) document.documentElement.classList.add("compared");
    panel([], applyTheme);
    makeHead();
    makeCompare();
    makeFindings();
    makeTimeline();
    makeFailures();
    makeFlame();
    makeMap();
    makePlan();
    makeSites();
    makeProcesses();
    makeQuality();
    listenPage();
    for (const each of panels) each.draw();
}

try {
    start();
} catch (error) {
    problem(error instanceof Damage ? `The data of this page cannot be read: ${
                                          error.message}. What is below was written ` +
                "with the page and is complete without a script."
                                    : `The script of this page failed: ${error.message}`);
    if (!(error instanceof Damage)) throw error;
}
