/* plan.js -- a plan as a picture, and the run beside it: blocks by time and address.
 *
 * Time runs to the right, in allocations and frees. Addresses run upwards. Both pictures have
 * one scale of bytes. Where both have the same time, a selected block is outlined in both.
 */

const PICTURE_NAMES = ["plan", "run"];
const PICTURE_HEIGHT = 300;
const PICTURE_EDGE = {
    left: 66,
    right: 8,
    top: 6,
    bottom: 20
};
const PICTURE_ROWS = 200;
const plans = {
    focus: [-1, -1],
    pointed: -1
};

function makePlan() {
    const place = section("plan", "Plan and run");
    const figures = PICTURE_NAMES.map((text, which) => {
        const canvas = el("canvas", {tabindex: "0", role: "img", "aria-label": ""});
        const title = el("p", {class: "picture-title"});
        listenPicture(canvas, which);
        return {
            canvas,
            title,
            place: el("div", {}, title, el("div", {class: "plot"}, canvas))
        };
    });
    const detail = el("p", {class: "caption detail"});
    const caption = el("p", {class: "caption"});
    const table = asTable("Largest blocks",
        ["picture", "from operation", "operations", "offset", "bytes", "site"], planRows);
    place.append(el("div", {class: "columns"}, ...figures.map((each) => each.place)),
        detail, caption, table);
    Object.assign(plans, {place, figures, detail, caption, table});
    panel([], drawPlan);
}

function drawPlan() {
    const block = shownBlock();
    plans.place.hidden = !block.plan;
    if (!block.plan) return;
    const {plan} = block;
    Object.assign(plans, {block, plan, focus: [-1, -1], pointed: -1});
    plans.most = Math.max(1, ...plan.pictures.map((picture) => picture.height));
    drawPlanTitles();
    for (const which of [0, 1]) drawPicture(which);
    drawPlanDetail();
    const left =
        plan.pictures
            .map((picture, which) => [picture.all - picture.count, PICTURE_NAMES[which],
                     picture])
            .filter(([count]) => count > 0)
            .map(([count, text, picture]) =>
                     ` The ${text} has ${plural(count, "smaller block")} more: ` +
                    `${shareText(picture.share, 1)} of its bytes and time is drawn.`);
    plans.caption.textContent =
        "Time runs to the right in allocations and frees, addresses " +
        "upwards; both have one scale of bytes. The line is the plan's peak of live bytes. " +
        `Gaps of more than 64 MiB are left out of the run.${left.join("")}`;
    plans.table.refresh();
}

function drawPlanTitles() {
    const {block, plan, figures} = plans;
    const [planned, run] = plan.pictures;
    const ratio = plan.live > 0 ? (planned.height / plan.live).toFixed(4) : "–";
    const reserved = figure(block, "reserved_peak_bytes");
    figures[0].title.replaceChildren(el("b", {}, "Plan "), name(cut(plan.name)), ": ",
        size(planned.height, "b"), ` of addresses, ${ratio} times the `, size(plan.live),
        ` live; ${plural(planned.all, "block")} on ${plural(plan.streams, "stream")}, ` +
            `${plural(plan.waits, "wait")}`);
    figures[1].title.replaceChildren(el("b", {}, "Run"), ": ", size(run.height, "b"),
        " of addresses",
        ...(reserved > 0 ? [", ", size(reserved), " reserved at most"] : []),
        `; ${plural(run.all, "block")}`);
}

/** Where a block is in its picture, in pixels. */
function pictureBox(which, at) {
    const {left, top, wide, high} = plans.figures[which].frame;
    const picture = plans.plan.pictures[which];
    const time = wide / Math.max(1, picture.operations);
    const scale = high / plans.most;
    const y = top + high - (picture.offset[at] + picture.bytes[at]) * scale;
    return {
        x: left + picture.start[at] * time,
        y,
        wide: Math.max(1, picture.life[at] * time),
        high: Math.max(1, picture.bytes[at] * scale)
    };
}

function drawPicture(which) {
    const {block, plan} = plans;
    const shown = plans.figures[which];
    const picture = plan.pictures[which];
    const shot = prepare(shown.canvas, PICTURE_HEIGHT);
    const {left, right, top, bottom} = PICTURE_EDGE;
    shown.frame =
        {left, top, wide: shot.width - left - right, high: PICTURE_HEIGHT - top - bottom};
    drawPictureAxes(shot, shown.frame, picture);
    for (let at = 0; at < picture.count; at++) {
        const box = pictureBox(which, at);
        const slot = slotOfNode(block, picture.node[at]);
        shot.context.fillStyle =
            slot === undefined ? LIVE_HUE : slotFill(shot.context, slot);
        const edge = box.wide > 4 && box.high > 4 ? 0.75 : 0;
        shot.context.fillRect(box.x, box.y + edge, box.wide - edge, box.high - edge);
    }
    drawPictureLine(shot, shown.frame);
    shown.canvas.setAttribute("aria-label",
        `${which ? "Run" : "Plan"}: ${
            plural(picture.count, "block")} by time and address, ` +
            `${
                sizeText(
                    picture.height)} of addresses. Arrow keys step through the blocks.`);
}

function drawPictureAxes({context, colours}, {left, top, wide, high}, picture) {
    const {ticks, unit, name: unitName} = byteTicks(plans.most, 5);
    context.font = SMALL_FONT;
    context.fillStyle = colours.muted;
    context.strokeStyle = colours.line;
    context.lineWidth = 1;
    context.textAlign = "right";
    for (const value of ticks) {
        const y = Math.round(top + high - value / plans.most * high) + 0.5;
        context.beginPath();
        context.moveTo(left, y);
        context.lineTo(left + wide, y);
        context.stroke();
        context.fillText(`${digits(value / unit)} ${unitName}`, left - 6, y + 4);
    }
    context.fillText(
        plural(picture.operations, "operation"), left + wide, top + high + 15);
    context.textAlign = "left";
    context.fillText("0", left, top + high + 15);
}

/** The peak of live bytes: no layout is lower. */
function drawPictureLine({context, colours}, {left, top, wide, high}) {
    const y = top + high - plans.plan.live / plans.most * high;
    context.strokeStyle = colours.ink;
    context.lineWidth = 1;
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(left, y);
    context.lineTo(left + wide, y);
    context.stroke();
    context.setLineDash([]);
}

// --- one block ---

function pictureSite(picture, at) {
    const node = picture.node[at];
    return node > 0
        ? frameName(plans.block, plans.block.trie.frame[siteNode(plans.block, node)])
        : "";
}

function drawPlanDetail(which, at) {
    if (which === undefined) {
        plans.detail.replaceChildren(el("span", {class: "muted"},
            "Point at a block, or step through them with the arrow keys."));
        return;
    }
    const picture = plans.plan.pictures[which];
    const site = pictureSite(picture, at);
    plans.detail.replaceChildren(`${which ? "run" : "plan"}: `,
        size(picture.bytes[at], "b"),
        which ? ` at ${addressText(picture.address[at])}` : " at offset ",
        which ? "" : size(picture.offset[at]),
        `, from operation ${grouped(picture.start[at])} for ${grouped(picture.life[at])}`,
        site ? ", " : "", site ? name(site) : "");
}

function pictureBlockAt(event, which) {
    const place = plans.figures[which].canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - place.left, event.clientY - place.top];
    for (let at = plans.plan.pictures[which].count - 1; at >= 0; at--) {
        const box = pictureBox(which, at);
        if (x >= box.x && x < box.x + box.wide && y >= box.y && y < box.y + box.high)
            return at;
    }
    return -1;
}

/** The same block in the other picture, if both have the same time; else -1. */
function sameBlock(which, at) {
    const [one, other] = [plans.plan.pictures[which], plans.plan.pictures[1 - which]];
    if (one.operations !== other.operations) return -1;
    return other.start.findIndex(
        (start, index) => start === one.start[at] && other.life[index] === one.life[at]);
}

function outlinePicture(which, at) {
    const context = plans.figures[which].canvas.getContext("2d");
    const box = pictureBox(which, at);
    context.strokeStyle = theme().accent;
    context.lineWidth = 3;
    context.strokeRect(box.x - 1, box.y - 1, box.wide + 2, box.high + 2);
}

/** Show a block in the detail, and outline it where it is. */
function pointPicture(which, at) {
    for (const each of [0, 1]) drawPicture(each);
    drawPlanDetail(which, at);
    outlinePicture(which, at);
    const same = sameBlock(which, at);
    if (same >= 0) outlinePicture(1 - which, same);
}

function stepPicture(which, by) {
    const {count} = plans.plan.pictures[which];
    if (count === 0) return;
    plans.focus[which] = Math.max(0, Math.min(count - 1, plans.focus[which] + by));
    pointPicture(which, plans.focus[which]);
    announce(plans.detail.textContent);
}

function listenPicture(canvas, which) {
    canvas.addEventListener("pointermove", (event) => {
        const at = pictureBlockAt(event, which);
        if (at < 0) return hideTip();
        if (plans.pointed !== at) pointPicture(which, at);
        plans.pointed = at;
        return showTip(
            event, ...[...plans.detail.childNodes].map((node) => node.cloneNode(true)));
    });
    canvas.addEventListener("pointerleave", () => {
        hideTip();
        plans.pointed = -1;
    });
    canvas.addEventListener("keydown", (event) => {
        const by = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: 10, ArrowUp: -10}[event.key];
        if (!by) return;
        event.preventDefault();
        event.stopPropagation();
        stepPicture(which, by);
    });
}

function planRows() {
    return plans.plan.pictures.flatMap((picture, which) => {
        const area = (at) => picture.bytes[at] * picture.life[at];
        const largest = Array.from({length: picture.count}, (_, at) => at)
                            .sort((a, b) => area(b) - area(a))
                            .slice(0, PICTURE_ROWS);
        return largest.map((at) => [PICTURE_NAMES[which],
                               el("td", {class: "n"}, grouped(picture.start[at])),
                               el("td", {class: "n"}, grouped(picture.life[at])),
                               size(picture.offset[at], "td", {class: "n"}),
                               size(picture.bytes[at], "td", {class: "n"}),
                               el("td", {class: "s"}, name(pictureSite(picture, at)))]);
    });
}
