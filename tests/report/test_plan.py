"""The picture of a plan, and of the run beside it: what it shows, keys, print."""

import re

import conftest
import logs
import page
import pytest

MIB = logs.MIB


def plan_of(name):
    return conftest.blocks(name)[0].plan


def box_of(tab, which, at):
    """The middle of a block in the window."""
    found = tab.js(f"""(() => {{
        const box = pictureBox({which}, {at});
        const place = plans.figures[{which}].canvas.getBoundingClientRect();
        return [place.left + box.x + box.wide / 2, place.top + box.y + box.high / 2];
    }})()""")
    return found[0], found[1]


def colour(tab, which, x, y):
    """The colour of a picture at a point of its frame, each from 0 to 1, from the lower left."""
    return tab.js(f"""(() => {{
        const {{canvas, frame}} = plans.figures[{which}];
        const scale = canvas.width / canvas.getBoundingClientRect().width;
        const at = [(frame.left + {x} * frame.wide) * scale,
                    (frame.top + (1 - {y}) * frame.high) * scale];
        return [...canvas.getContext("2d").getImageData(...at, 1, 1).data];
    }})()""")


def test_only_a_page_with_a_plan_has_the_pictures(opened):
    assert opened("fragmented").tab.locator("#tarn-plan").is_hidden()
    tab = opened("planned")
    assert tab.tab.locator("#tarn-plan").is_visible()
    assert tab.tab.locator("#tarn-plan canvas").count() == 2


def test_the_titles_have_the_figures(opened):
    tab, plan = opened("planned"), plan_of("planned")
    planned, run = plan.pictures
    reserved = conftest.blocks("planned")[0].meta["reserved_peak_bytes"]
    assert tab.bytes("#tarn-plan .picture-title [data-bytes]") == [
        planned.height, plan.live, run.height, reserved,
    ]  # fmt: skip
    text = tab.text("#tarn-plan .picture-title >> nth=0")
    assert f"{planned.height / plan.live:.4f} times" in text
    assert "train.plan" in text and "120 blocks on 4 streams, 17 waits" in text
    assert f"{run.all} blocks" in tab.text("#tarn-plan .picture-title >> nth=1")
    caption = tab.text("#tarn-plan .caption >> nth=1")
    assert "The run has 123 smaller blocks more: 98.8 %" in caption
    assert "The plan has" not in caption


def test_both_pictures_have_one_scale(opened):
    """The run is the higher one: it reaches the top, and above the plan is nothing."""
    tab, plan = opened("planned"), plan_of("planned")
    planned, run = plan.pictures
    assert run.height > planned.height
    heights = [
        tab.js(f"""(() => {{
            const {{top, high}} = plans.figures[{which}].frame;
            const boxes = plan => Array.from({{length: plan.count}}, (_, at) =>
                pictureBox({which}, at));
            return Math.max(...boxes(plans.plan.pictures[{which}]).map(box =>
                (top + high - box.y) / high));
        }})()""")
        for which in (0, 1)
    ]
    assert heights[1] == pytest.approx(1, abs=0.01)
    assert heights[0] == pytest.approx(planned.height / run.height, abs=0.01)


def test_a_block_is_drawn_where_it_is(opened):
    tab, plan = opened("planned"), plan_of("planned")
    for which, picture in enumerate(plan.pictures):
        most = max(one.height for one in plan.pictures)
        first = picture.blocks[0]
        x = (first.start + first.life / 2) / picture.operations
        y = (first.offset + first.bytes / 2) / most
        lone = tab.js("theme().paper")
        shown = colour(tab, which, x, y)
        assert shown[3] == 255 and "#{:02x}{:02x}{:02x}".format(*shown[:3]) != lone


@pytest.mark.parametrize("which", [0, 1])
def test_the_pointer_shows_the_block_below_it(opened, which):
    tab, plan = opened("planned"), plan_of("planned")
    at = max(range(120), key=lambda i: plan.pictures[which].blocks[i].bytes
             * plan.pictures[which].blocks[i].life)  # fmt: skip
    block = plan.pictures[which].blocks[at]
    tab.tab.locator("#tarn-plan").scroll_into_view_if_needed()
    tab.settle()
    tab.tab.mouse.move(*box_of(tab, which, at))
    tab.settle()
    shown = tab.text("#tarn-tip")
    assert shown.startswith(("plan: ", "run: ")[which])
    assert f"from operation {block.start} for {block.life}" in shown
    assert ("0x7f0" in shown) == bool(which)
    assert tab.bytes("#tarn-plan .detail [data-bytes]")[0] == block.bytes
    tab.tab.mouse.move(1, 1)
    assert tab.tab.locator("#tarn-tip").is_hidden()


def test_keys_step_through_the_blocks_and_outline_them_in_both(opened):
    tab, plan = opened("planned"), plan_of("planned")
    tab.js("drawPlan()")  # no block is selected
    tab.tab.focus("#tarn-plan canvas >> nth=0")
    before = tab.js("plans.figures[1].canvas.toDataURL()")
    tab.press("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft")
    assert tab.js("plans.focus") == [10, -1]
    block = plan.pictures[0].blocks[10]
    assert f"from operation {block.start} " in tab.text("#tarn-plan .detail")
    assert tab.js("sameBlock(0, 10)") == 10
    assert tab.js("plans.figures[1].canvas.toDataURL()") != before
    tab.press("ArrowUp", "ArrowUp")
    assert tab.js("plans.focus") == [0, -1]
    assert tab.state("t") == -1, "the keys of the chart are not meant"
    tab.tab.focus("#tarn-plan canvas >> nth=1")
    tab.press(*["ArrowDown"] * 13)
    assert tab.js("plans.focus") == [0, 119]
    label = tab.js("plans.figures[1].canvas.getAttribute('aria-label')")
    assert re.match(r"Run: 120 blocks by time and address, [\d.]+ GiB of addresses\.", label)


def test_key_7_goes_to_the_pictures(opened):
    tab = opened("planned")
    tab.press("7")
    assert tab.js("document.activeElement.textContent") == "Plan and run"


def test_the_table_has_the_largest_blocks(opened):
    tab, plan = opened("planned"), plan_of("planned")
    tab.click("#tarn-plan .as-table summary")
    rows = tab.js("[...document.querySelectorAll('#tarn-plan tbody tr')].map(row =>"
                  " [...row.querySelectorAll('[data-bytes]')].map(cell => +cell.dataset.bytes))")  # fmt: skip
    tab.click("#tarn-plan .as-table summary")
    assert len(rows) == 240
    for which, picture in enumerate(plan.pictures):
        found = sorted(tuple(row) for row in rows[120 * which : 120 * which + 120])
        assert found == sorted((one.offset, one.bytes) for one in picture.blocks)


def test_blocks_of_a_site_have_its_colour(opened):
    """A block without a site is grey, as in the address map."""
    tab, plan = opened("planned"), plan_of("planned")
    greys = [at for at, one in enumerate(plan.pictures[0].blocks) if one.node < 0]
    slots = tab.js("Array.from(plans.plan.pictures[0].node, n => slotOfNode(plans.block, n) ?? -1)")
    assert all(slots[at] == -1 for at in greys)
    assert len({slot for at, slot in enumerate(slots) if at not in greys}) > 1


def test_the_pictures_are_printed(opened):
    tab = opened("planned")
    tab.tab.emulate_media(media="print")
    tab.settle()
    assert tab.tab.locator("#tarn-plan canvas >> nth=1").is_visible()
    assert tab.tab.locator("#tarn-plan .detail").is_hidden()
    tab.tab.emulate_media(media="screen")
    tab.settle()


def test_a_block_outside_of_its_picture_is_damage(other):
    block = logs.planned()
    block.plan.pictures[1].blocks[7].life = 10**6
    tab = other(page.page([block]))
    assert "section PLAN: block 7 is outside of the picture" in tab.text("#tarn-problem")
    tab.check()
