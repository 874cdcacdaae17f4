"""The page under a pointer, a keyboard, a printer and a screen reader, in all its sizes."""

import re

import conftest
import pytest


def middle(tab, selector, x=0.5, y=0.5):
    box = tab.tab.locator(selector).bounding_box()
    return box["x"] + box["width"] * x, box["y"] + box["height"] * y


def fragment(tab):
    text = tab.js("location.hash")
    return dict(part.split("=") for part in text.lstrip("#").split("&") if part)


@pytest.mark.parametrize("name", list(conftest.PAGES))
def test_each_page_opens_without_a_message_and_without_scrolling_sideways(opened, name):
    tab = opened(name)
    for width in (1440, 720, 390, 320):
        tab.tab.set_viewport_size({"width": width, "height": 900})
        tab.settle()
        assert tab.js("document.documentElement.scrollWidth") <= width
        wide = tab.js("[...document.querySelectorAll('canvas')].filter(c => c.getClientRects().length"
                      " && c.getBoundingClientRect().right > innerWidth + 1).length")  # fmt: skip
        assert wide == 0
    tab.tab.set_viewport_size({"width": 1440, "height": 900})
    tab.settle()
    tab.check()
    print(f"{name}: ready after",
          tab.js("Math.round(performance.getEntriesByType('navigation')[0].domComplete)"), "ms")  # fmt: skip


def test_a_click_on_the_chart_selects_a_time_which_a_reload_keeps(opened):
    tab = opened("training")
    tab.tab.mouse.click(*middle(tab, "canvas.over"))
    tab.settle()
    time, legend = tab.state("t"), tab.text("#tarn-timeline .legend")
    assert 9e9 < time < 13e9
    assert fragment(tab) == {"t": str(time), "f": "time"}
    tab.tab.reload()
    tab.settle()
    assert tab.state("t") == time
    assert tab.text("#tarn-timeline .legend") == legend
    tab.requests.pop()


def test_the_pointer_shows_the_column_below_it(opened):
    tab = opened("training")
    tab.tab.mouse.move(*middle(tab, "canvas.over", 0.4, 0.7))
    tab.settle()
    shown = tab.text("#tarn-tip")
    assert re.search(r"^[\d.]+ s: [\d.]+ GiB", shown)
    assert "reserved" in shown and "model.py" in shown
    tab.tab.mouse.move(1, 1)
    assert tab.tab.locator("#tarn-tip").is_hidden()


def test_a_drag_shows_a_range_and_a_double_click_all(opened):
    tab = opened("training")
    x, y = middle(tab, "canvas.over")
    tab.tab.mouse.move(x - 100, y)
    tab.tab.mouse.down()
    tab.tab.mouse.move(x + 100, y)
    tab.tab.mouse.up()
    tab.settle()
    begin, end = tab.js("timeline.range")
    assert 3e9 < end - begin < 8e9
    assert fragment(tab)["z"] == f"{begin}-{end}"
    tab.tab.mouse.dblclick(x, y)
    tab.settle()
    assert tab.state("z") == ""


def test_ctrl_and_the_wheel_magnify_at_the_pointer(opened):
    tab = opened("training")
    x, y = middle(tab, "canvas.over", 0.75)
    tab.tab.mouse.move(x, y)
    under = tab.js(f"timeAtPixel({x} - timeline.over.getBoundingClientRect().left)")
    tab.tab.keyboard.down("Control")
    for _ in range(4):
        tab.tab.mouse.wheel(0, -100)
        tab.settle()
    tab.tab.keyboard.up("Control")
    begin, end = tab.js("timeline.range")
    assert end - begin < 13e9
    after = tab.js(f"timeAtPixel({x} - timeline.over.getBoundingClientRect().left)")
    assert abs(after - under) < 0.1e9


def test_the_strip_moves_the_shown_range(opened):
    tab = opened("training")
    tab.reset("#z=4000000000-8000000000")
    x, y = middle(tab, "canvas.strip", 0.31)
    tab.tab.mouse.move(x, y)
    tab.tab.mouse.down()
    tab.tab.mouse.move(x + 150, y)
    tab.tab.mouse.up()
    tab.settle()
    begin, end = tab.js("timeline.range")
    assert begin > 7e9
    assert abs(end - begin - 4e9) < 1e6


def test_the_axis_of_events_gives_each_event_the_same_room(opened):
    tab = opened("training")
    tab.click('#tarn-timeline [data-value="events"]')
    edge = tab.js("[...axisOf(shownBlock())]")
    columns = conftest.blocks("training")[0].columns
    events = [a + f for a, f in zip(columns.allocations, columns.frees)]
    assert edge[-1] == 1
    at = 100
    assert abs(edge[at] - sum(events[:at]) / sum(events)) < 1e-9
    assert tab.state("x") == "events"


def test_keys_select_columns_the_peak_and_failures(opened):
    tab = opened("fragmented")
    block = conftest.blocks("fragmented")[0]
    tab.press("p")
    assert tab.state("t") == block.meta["peak_ns"]
    column = block.meta["peak_ns"] // block.columns.width_ns
    tab.press("ArrowLeft")
    assert tab.js("columnAt(shownBlock(), state.t)") == column - 1
    tab.press("Shift+ArrowLeft")
    assert tab.js("columnAt(shownBlock(), state.t)") == column - 11
    tab.press("ArrowRight")
    assert tab.js("columnAt(shownBlock(), state.t)") == column - 10
    tab.press("Escape")
    assert tab.state("t") == -1
    tab.press("o")
    assert tab.state("t") == block.failures[0].time_ns
    tab.press("o")
    assert tab.state("t") == block.failures[1].time_ns


def test_keys_magnify_the_time(opened):
    tab = opened("training")
    whole = tab.js("timeline.range[1] - timeline.range[0]")
    tab.press("+", "+")
    assert abs(tab.js("timeline.range[1] - timeline.range[0]") - whole / 4) < 10
    tab.press("-")
    assert abs(tab.js("timeline.range[1] - timeline.range[0]") - whole / 2) < 10
    tab.press("0")
    assert tab.js("timeline.range[1] - timeline.range[0]") == whole


def test_keys_reach_panels_search_filter_and_help(opened):
    tab = opened("fragmented")
    for key, panel in (("1", "findings"), ("2", "timeline"), ("3", "flame"), ("4", "map"),
                       ("5", "sites")):  # fmt: skip
        tab.press(key)
        assert tab.js("document.activeElement.parentElement.id") == f"tarn-{panel}"
    tab.press("/")
    assert tab.js("document.activeElement.id") == "tarn-search"
    tab.press("p", "o")
    assert (tab.state("q"), tab.state("t")) == ("po", -1)
    tab.press("Escape")
    assert (tab.state("q"), tab.js("document.activeElement.tagName")) == ("", "BODY")
    tab.press("f")
    assert tab.js("document.activeElement.id") == "tarn-filter"
    tab.press("Escape", "?")
    assert tab.tab.locator("#tarn-keys").is_visible()
    tab.press("Escape")
    assert tab.tab.locator("#tarn-keys").is_hidden()
    tab.press("s")
    assert tab.state("s") == "share"


def test_the_tabulator_passes_through_all_panels_and_out(opened):
    tab = opened("fragmented")
    panels, seen = [], 0
    for _ in range(150):
        tab.tab.keyboard.press("Tab")
        where = tab.js(
            "(() => { const e = document.activeElement; if (e === document.body) return null;"
            "const box = e.getBoundingClientRect();"
            "return [e.closest('section, header')?.id ?? '', box.width > 0 && box.height > 0,"
            "getComputedStyle(e).outlineStyle]; })()"
        )
        if where is None:
            break
        panel, visible, outline = where
        assert visible, panel
        assert outline != "none", panel
        seen += 1
        if not panels or panels[-1] != panel:
            panels.append(panel)
    assert panels == ["tarn-head", "tarn-findings", "tarn-timeline", "tarn-failures", "tarn-flame",
                      "tarn-map", "tarn-sites"]  # fmt: skip
    assert 40 < seen < 150


def test_the_chart_is_a_slider_for_screen_readers(opened):
    tab = opened("training")
    tab.tab.locator("canvas.over").focus()
    tab.press("p", "ArrowLeft")
    slider = tab.tab.locator("canvas.over")
    assert slider.get_attribute("role") == "slider"
    assert re.search(r"s: [\d.]+ GiB live, [\d.]+ GiB reserved; ",
                     slider.get_attribute("aria-valuetext"))  # fmt: skip
    tab.tab.wait_for_function("document.getElementById('tarn-live').textContent.includes('live')")


def test_arrow_keys_walk_through_the_stacks(opened):
    tab = opened("training")
    tab.tab.locator(".flame-box").focus()
    names = []
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight", "ArrowLeft", "ArrowUp"):
        tab.press(key)
        names.append(tab.js("boxName(flame.tree, flame.focus)"))
    assert names == ["runpy.py:88 _run_code", "train.py:140 <module>", "train.py:88 train",
                     "evaluate.py:25 evaluate", "train.py:88 train", "train.py:140 <module>"]  # fmt: skip
    tree = tab.tab.locator(".flame-box")
    item = tab.tab.locator("#" + tree.get_attribute("aria-activedescendant"))
    assert (item.get_attribute("role"), item.get_attribute("aria-level")) == ("treeitem", "3")
    assert item.inner_text().startswith("train.py:140 <module>, 7.20 GiB")
    assert tab.tab.locator("[role=treeitem]").count() <= 200
    tab.press("Enter")
    assert tab.state("n") == tab.js("flame.tree.path(flame.focus)") != ""
    tab.press("Escape")
    tab.press("Escape")
    assert tab.state("n") == ""


def test_a_click_magnifies_a_box(opened):
    tab = opened("training")
    box = tab.js("flame.boxes.find(b => boxName(flame.tree, b.box).startsWith('evaluate'))")
    x, y = middle(tab, "#tarn-flame canvas", 0, 0)
    tab.tab.mouse.click(x + box["left"] + 20, y + box["level"] * 21 + 10)
    tab.settle()
    zoomed = tab.js("flame.boxes.find(b => b.box === flame.zoom).width")
    assert zoomed == tab.js("flame.canvas.getBoundingClientRect().width")
    assert "evaluate.py:25" in tab.text("#tarn-flame .detail")
    tab.click("#tarn-flame .detail button:text('show all')")
    assert tab.state("n") == ""


def test_matches_of_a_search_are_visited_by_enter(opened):
    tab = opened("training")
    tab.tab.fill("#tarn-search", "forward")
    tab.settle()
    tab.tab.locator("#tarn-search").focus()
    tab.press("Enter")
    first = tab.js("flame.focus")
    tab.press("Enter")
    assert tab.js("flame.focus") != first
    tab.press("Shift+Enter")
    assert tab.js("flame.focus") == first


def test_arrow_keys_step_through_the_blocks_of_the_map(opened):
    tab = opened("fragmented")
    tab.tab.locator("#tarn-map canvas[tabindex]").focus()
    tab.press("ArrowRight")
    block = conftest.blocks("fragmented")[0]
    address, found = block.maps[0].segments[0]
    assert tab.bytes("#tarn-map .detail [data-bytes]") == [found[0].bytes]
    tab.press("ArrowRight")
    assert tab.bytes("#tarn-map .detail [data-bytes]") == [found[1].bytes]
    at = f"{address + found[0].bytes:012x}"
    assert tab.text("#tarn-map .detail").startswith(f"0x{at[:4]}_{at[4:8]}_{at[8:]}")


def test_a_failure_leads_to_its_map_and_its_time(opened):
    tab = opened("fragmented")
    block = conftest.blocks("fragmented")[0]
    assert tab.tab.locator("article.failure").count() == 2
    tab.click("article.failure >> nth=1 >> text=address map")
    assert tab.state("m") == block.failures[1].map
    assert "failure 2" in tab.text('#tarn-map [aria-pressed="true"]')
    tab.click("article.failure >> nth=0 >> text=in the chart")
    assert tab.state("t") == block.failures[0].time_ns
    values = tab.bytes("article.failure >> nth=0 >> .facts [data-bytes]")
    assert values[0] == block.failures[0].fields["requested"]
    assert block.failures[0].fields["largest_free"] in values


def test_a_finding_leads_to_its_stack_its_time_and_its_site(opened):
    tab = opened("training")
    assert tab.tab.locator(".card.problem").count() == 2
    assert tab.tab.locator(".card.hint").count() == 1
    tab.click(".card >> nth=0 >> text=stack")
    assert "device_array" in tab.text("#tarn-flame .detail") or "device_array" in tab.js(
        "boxName(flame.tree, flame.zoom)")  # fmt: skip
    tab.click(".card >> nth=0 >> text=/^at /")
    assert tab.state("t") == conftest.blocks("training")[0].findings[0].time_ns
    tab.click(".card >> nth=0 >> button:text('site')")
    assert "stats.py:12 remember" in tab.text("dialog[open] h3")
    assert tab.tab.locator("dialog[open] .stack li").count() == 5
    tab.press("Escape")
    assert tab.tab.locator("dialog[open]").count() == 0


def test_the_table_sorts_filters_and_groups(opened):
    tab = opened("training")
    names = "sites.rows.map(row => row.name)"
    tab.click(".col-total button")
    assert tab.js(names)[0] == "data.py:77 augment"
    assert tab.tab.locator(".col-total[aria-sort=descending]").count() == 1
    tab.click(".col-total button")
    assert tab.js(names)[-1] == "data.py:77 augment"
    tab.click("thead .col-trend button")
    assert tab.js(names)[0] == "model.py:40 build" or "remember" in tab.js(names)[0]
    tab.tab.fill("#tarn-filter", "FORWARD")
    tab.settle()
    assert {name.split()[1] for name in tab.js(names)} == {"forward"}
    assert "5 of 11 sites" in tab.text("#tarn-sites")
    tab.click('#tarn-sites [data-value="function"]')
    assert tab.js(names) == ["model.py forward"]
    tab.click("#tarn-sites tbody .link")
    assert (tab.state("r"), tab.state("w"), len(tab.js(names))) == ("site", "forward", 5)


def test_only_rows_in_view_are_elements(opened):
    tab = opened("many sites")
    assert "65,536 of 65,536 sites; 17 more" in tab.text("#tarn-sites")
    rows = tab.tab.locator("#tarn-sites tbody tr:not(.space)")
    assert rows.count() == 60
    for part in (0.5, 1):
        tab.js(f"sites.scroll.scrollTop = sites.scroll.scrollHeight * {part}")
        tab.settle()
        assert rows.count() <= 60
        inside = tab.js("[...document.querySelectorAll('#tarn-sites tbody tr:not(.space)')].some(row =>"
                        " Math.abs(row.getBoundingClientRect().top -"
                        " sites.scroll.getBoundingClientRect().top - 200) < 40)")  # fmt: skip
        assert inside
    last = int(rows.last.get_attribute("aria-rowindex"))
    assert last == 65_537
    tab.tab.fill("#tarn-filter", "module_007.py")
    tab.settle()
    assert 60 < tab.js("sites.rows.length") < 80


def test_a_deep_stack_has_no_empty_rows_below_it(opened):
    tab = opened("many sites")
    assert tab.js("flame.canvas.getBoundingClientRect().height") < 300
    assert "more levels" in tab.text("#tarn-flame .caption:not(.detail)")


def test_sides_of_a_comparison_switch_and_the_difference_has_modes(opened):
    tab = opened("compare")
    assert tab.state("f") == "diff"
    assert tab.text("h1").endswith("before.tarnlog")
    tab.click('#tarn-head [data-value="1"]')
    assert tab.text("h1").endswith("after.tarnlog")
    assert tab.bytes(".figures [data-bytes]")[0] == conftest.blocks("compare")[1].meta["peak_bytes"]
    tab.click('#tarn-flame [data-value="exit"] >> nth=1')
    assert tab.state("e") == "exit"
    tab.click('#tarn-flame [data-value="share"]')
    assert tab.state("d") == "share"
    whole = tab.js("flame.tree.before[0] / flame.tree.bytes[0]")
    assert whole > 1


def test_a_process_becomes_the_subject_of_all_panels(opened):
    tab = opened("workers")
    assert tab.tab.locator("button.process").count() == 8
    tab.click("button.process >> nth=5")
    assert tab.text("h1").endswith("rank 5")
    assert tab.bytes(".figures [data-bytes]")[0] == conftest.blocks("workers")[5].meta["peak_bytes"]
    assert fragment(tab) == {"p": "5"}
    shifts = tab.text("#tarn-processes .caption")
    assert "wall-clock" in shifts


def test_processes_without_a_clock_begin_at_their_own_zero(other):
    import page

    every = conftest.blocks("workers")[:3]
    texts = []
    for block in every:
        kept = dict(block.meta)
        block.meta["start_unix_ns"] = 0
        texts.append(page.encode_text(block))
        block.meta = kept
    tab = other(page.page(texts))
    assert "own zero" in tab.text("#tarn-processes .caption")
    tab.check()


def luminance(colour):
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


CONTRASTS = """
[...document.querySelectorAll('main *, header *')].filter(e => e.getClientRects().length &&
    [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())).map(e => {
    let back = e;
    while (back && getComputedStyle(back).backgroundColor === 'rgba(0, 0, 0, 0)')
        back = back.parentElement;
    return [getComputedStyle(e).color, back ? getComputedStyle(back).backgroundColor
        : 'rgb(255, 255, 255)', e.tagName + '.' + e.className];
})
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_a_contrast_of_four_and_a_half(other, written, scheme):
    tab = other(written("fragmented"), color_scheme=scheme)
    tab.settle()
    assert tab.js("theme() === THEMES.dark") == (scheme == "dark")
    seen = {tuple(each) for each in tab.js(CONTRASTS)}
    assert len(seen) > 10
    for ink, ground, where in seen:
        a, b = sorted((luminance(ink), luminance(ground)))
        assert (b + 0.05) / (a + 0.05) >= 4.5, (where, ink, ground)
    tab.check()


def test_the_theme_is_the_systems_until_the_switch_is_used(other, written):
    tab = other(written("training"), color_scheme="dark")
    assert tab.js("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
    tab.click('[aria-label="light or dark"]')
    assert fragment(tab) == {"theme": "light"}
    assert tab.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tab.tab.reload()
    assert tab.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tab.click('[aria-label="light or dark"]')
    assert fragment(tab) == {"theme": "dark"}
    assert tab.said == []


def test_forced_colours_reduced_motion_and_a_zoom_of_200_percent_work(other, written):
    tab = other(written("fragmented"), forced_colors="active", reduced_motion="reduce",
                viewport={"width": 720, "height": 450}, device_scale_factor=2)  # fmt: skip
    tab.settle()
    assert tab.js("document.documentElement.scrollWidth") <= 720
    assert tab.js("document.getAnimations().length") == 0
    tab.check()


def test_a_printed_page_has_no_controls_and_a_short_table(other, written):
    tab = other(written("many sites"), color_scheme="dark")
    tab.tab.emulate_media(media="print")
    tab.settle()
    assert tab.tab.locator(".tools").first.is_hidden()
    assert tab.tab.locator("#tarn-sites tbody tr").count() == 40
    assert tab.js("getComputedStyle(document.body).color") == "rgb(27, 27, 27)"
    assert tab.js("theme() === THEMES.light")
    assert tab.tab.locator("#tarn-findings .advice:visible").count() == 3
    assert tab.tab.pdf().startswith(b"%PDF")
    tab.tab.emulate_media(media="screen")
    tab.settle()
    assert tab.tab.locator("#tarn-sites tbody tr:not(.space)").count() == 60
    tab.check()


def test_without_a_script_the_static_tables_show(other, written):
    tab = other(written("training"), java_script_enabled=False)
    assert tab.tab.locator("#tarn-sites table.plain tr").count() == 11
    assert tab.tab.locator("#tarn-problem").count() == 0
    assert "static head" in tab.text("#tarn-head")


def test_the_tree_of_roles_names_all_parts(opened):
    tab = opened("fragmented")
    tree = tab.tab.locator("body").aria_snapshot()
    for part in ('heading "tarn report server.py"', 'heading "Findings (1)"',
                 'heading "Memory over time"', 'slider "selected time"', 'img "Live bytes by site',
                 'group "bands by"', 'tree "stacks; arrow keys move, Enter magnifies"',
                 'img "Address map', 'region "table of sites"', 'searchbox "filter sites"',
                 'columnheader "at peak ▾"'):  # fmt: skip
        assert part in tree, part


def test_one_row_has_one_step_and_no_brush(opened):
    tab = opened("one row")
    assert tab.tab.locator("canvas.strip").is_hidden()
    assert tab.tab.locator('#tarn-timeline [data-value="events"]').count() == 0
    assert tab.tab.locator("#tarn-sites tbody tr").count() == 1
    tab.press("p", "ArrowRight", "+", "0", "Escape")
    assert tab.state("t") == -1


def test_an_empty_log_says_so_and_has_no_charts(opened):
    tab = opened("empty")
    assert "No allocation is in this log" in tab.text("#tarn-head")
    assert tab.tab.locator("main canvas:visible").count() == 0
    tab.press("p", "o", "ArrowRight", "+", "-", "0", "s", "Escape")
    assert tab.state("t") == -1


def test_failures_without_allocations_are_cards(opened):
    tab = opened("failures")
    assert "No allocation of this log succeeded" in tab.text("#tarn-head")
    assert tab.tab.locator("article.failure").count() == 1
    assert "none" in tab.text("article.failure .facts")  # the maximum is UINT64_MAX
    assert tab.text("article.failure h3 >> nth=0").endswith("requested, 3 attempts failed")
    assert "1 time in 3 attempts" in tab.text("#tarn-head")
    assert "are shown" not in tab.text("#tarn-failures")
    assert tab.tab.locator("#tarn-timeline").is_hidden()


def test_what_a_log_lacks_is_absent_and_said(opened):
    tab = opened("no stacks")
    values = tab.js("[...document.querySelectorAll('#tarn-timeline [aria-label=\"bands by\"] button')]"
                    ".map(each => each.dataset.value)")  # fmt: skip
    assert values == ["site", "size"]
    assert "--stacks 16" in tab.text("#tarn-flame")
    head = tab.text("#tarn-head")
    assert "no end after 89 ms" in head and "12 problems in 80 rows" in head
    assert "reserved" not in head
    assert "at least" in head


def test_an_address_of_another_page_does_no_harm(opened):
    tab = opened("training")
    for hash_ in ("#t=-5&z=9-1&by=nothing&f=diff&v=x&p=99&m=4&s=__proto__&r=toString&n=1.2.x&x=1",
                  "#z=NaN-Infinity&t=1e400&q=%E0%A4%A", "#constructor=1&__proto__=2",
                  "#t=999999999999999&z=0-1"):  # fmt: skip
        tab.reset(hash_)
        assert tab.bytes(".figures [data-bytes]")[0] == 7731159985
        assert tab.tab.locator("#tarn-problem").count() == 0


def test_times_are_shown_from_the_begin_of_the_log(opened):
    """A log that counts from midnight begins at 0 s, and a link has the time of the log."""
    tab, block = opened("midnight"), conftest.blocks("midnight")[0]
    assert "at 49 ms" in tab.text(".figures")
    tab.tab.mouse.click(*middle(tab, "canvas.over"))
    tab.settle()
    assert tab.state("t") > block.columns.start_ns
    shown = tab.text("#tarn-timeline .legend-head")
    assert re.match(r"at 4[0-9.]+ ms: ", shown), shown
    assert "Snapshot of 4" in tab.text("#tarn-flame .caption:not(.detail)")


def test_the_bar_of_a_failure_has_all_of_the_device(opened):
    tab = opened("fragmented")
    fields = conftest.blocks("fragmented")[0].failures[0].fields
    parts = tab.js("[...document.querySelector('article.failure .strip-bar').children].map(part =>"
                   " [part.className, part.getBoundingClientRect().width])")  # fmt: skip
    widths = dict(parts)
    assert set(widths) == {"part-live", "part-own", "part-completed", "part-other", "part-thread",
                           "part-captured", "part-room", "part-others"}  # fmt: skip
    bytes_each = (widths["part-live"]) / fields["live"]
    others = fields["device_total"] - fields["device_free"] - fields["reserved"]
    assert widths["part-others"] == pytest.approx(others * bytes_each, rel=0.05)
    assert widths["part-completed"] == pytest.approx(fields["completed"] * bytes_each, rel=0.05)


def test_after_a_failure_the_chart_reaches_to_the_used_memory_of_the_device(other):
    import page

    block = conftest.PAGES["fragmented"]()[0]
    used = 20 * max(block.columns.high)
    block.columns.used = [used] * len(block.columns.high)
    tab = other(page.page([block]))
    assert tab.js("timeline.most") >= used
    block.marks = [mark for mark in block.marks if mark.kind != 1]
    tab = other(page.page([block]))
    assert tab.js("timeline.most") < used
    assert "above this chart" in tab.text("#tarn-timeline .caption")


def test_the_legend_has_other_sites_only_if_there_are_some(other):
    import page
    from block import OTHER, Band

    block = conftest.PAGES["one row"]()[0]
    zeros = [0] * len(block.columns.high)
    for members in (3, 0):
        bands = [each for each in block.bands["site"] if each.kind != OTHER]
        block.bands["site"] = [*bands, Band("other", zeros, OTHER, members=members)]
        tab = other(page.page([block]))
        assert ("other (3)" in tab.text("#tarn-timeline .legend")) == (members > 0)
        assert ("other" in tab.text("#tarn-timeline .legend")) == (members > 0)
