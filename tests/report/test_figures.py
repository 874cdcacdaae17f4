"""The figures in the page are those of the log; `data-bytes` has them exactly."""

import json

import conftest
import pytest
from page import PANELS

HUES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442"]


def block_of(name, index=0):
    return conftest.blocks(name)[index]


@pytest.mark.parametrize("name", ["training", "fragmented", "no stacks", "one row"])
def test_the_head_has_the_figures_of_the_log(opened, name):
    tab, meta = opened(name), block_of(name).meta
    keys = ["peak_bytes", "reserved_peak_bytes", "held_bytes", "end_bytes", "total_bytes"]
    if not meta["has_reserved"]:
        keys.remove("reserved_peak_bytes")
    assert tab.bytes(".figures [data-bytes]") == [meta[key] for key in keys]


@pytest.mark.parametrize("by", ["site", "framework", "stream", "size"])
def test_the_legend_has_the_bands_at_the_peak_and_their_sum(opened, by):
    tab, block = opened("training"), block_of("training")
    tab.click(f'#tarn-timeline [data-value="{by}"]')
    column = block.meta["peak_ns"] // block.columns.width_ns
    bands = [band.values[column] for band in reversed(block.bands[by])]
    assert tab.bytes(".legend [data-band] [data-bytes]") == bands
    assert tab.bytes(".legend-head [data-bytes]") == [sum(bands)] == [block.meta["peak_bytes"]]
    assert tab.state("by") == by


def test_the_legend_follows_the_selected_time(opened):
    tab, block = opened("training"), block_of("training")
    for column in (40, 133, 400):
        time = column * block.columns.width_ns + block.columns.offset_ns[column]
        tab.reset(f"#t={time}")
        assert tab.bytes(".legend-head [data-bytes]") == [block.columns.high[column]]
        bands = [band.values[column] for band in reversed(block.bands["site"])]
        assert tab.bytes("#tarn-timeline [data-band] [data-bytes]") == bands


def test_the_table_of_the_chart_has_figures_of_columns(opened):
    tab, block = opened("training"), block_of("training")
    tab.click("#tarn-timeline .as-table summary")
    rows = tab.js("[...document.querySelectorAll('#tarn-timeline tbody tr')].map(row =>"
                  " [...row.querySelectorAll('[data-bytes]')].map(cell => +cell.dataset.bytes))")  # fmt: skip
    triples = set(zip(block.columns.high, block.columns.low, block.columns.reserved))
    assert 30 < len(rows) <= 64
    assert {tuple(row) for row in rows} <= triples
    assert max(row[0] for row in rows) == block.meta["peak_bytes"]
    tab.click("#tarn-timeline .as-table summary")


def pixels(tab, points):
    """The colours of the chart at points, as red, green, blue and opacity."""
    return tab.js(
        "(() => { const c = timeline.canvas, scale = c.width / timeline.wide;"
        "const all = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
        f"return {json.dumps(points)}.map(([x, y]) => {{"
        "const at = 4 * (Math.floor(y * scale) * all.width + Math.floor(x * scale));"
        "return [...all.data.slice(at, at + 4)]; }); })()"
    )


def test_a_pixel_of_the_chart_has_the_colour_of_its_band(opened):
    """At the middle of each band that is high enough; above all bands there is nothing."""
    tab, block = opened("no stacks"), block_of("no stacks")
    frame, most = tab.js("timeline.frame"), tab.js("timeline.most")
    count = len(block.columns.high)
    points, wanted = [], []
    for column in range(20, count, 37):
        x = frame["left"] + (column + 0.5) / count * (frame["right"] - frame["left"])
        scale = (frame["bottom"] - frame["top"]) / most
        below = 0
        for band in block.bands["site"]:
            if band.values[column] * scale > 9:
                points.append([x, frame["bottom"] - (below + band.values[column] / 2) * scale])
                hue = HUES[band.slot]
                wanted.append([*(int(hue[at : at + 2], 16) for at in (1, 3, 5)), 255])
            below += band.values[column]
        if below * scale < frame["bottom"] - frame["top"] - 30 and column % 2:
            points.append([x, frame["bottom"] - below * scale - 4])
            wanted.append(None)
    found = pixels(tab, points)
    grid = tab.js("theme().line")
    lines = [*(int(grid[at : at + 2], 16) for at in (1, 3, 5)), 255]
    assert len(wanted) > 40
    for point, colour, expected in zip(points, found, wanted):
        assert colour == expected or (expected is None and colour in ([0, 0, 0, 0], lines)), point


def inclusive(block, own, keep=lambda frame: True):
    """Sums of whole stacks, by their paths of frames: an oracle for the boxes."""
    sums = {}
    for node, (size, _) in own.items():
        path = []
        while node:
            frame = block.node_frames[node]
            if keep(block.frames[frame]):
                path.append(frame)
            node = block.parents[node]
        path = tuple(reversed(path))
        for end in range(len(path) + 1):
            sums[path[:end]] = sums.get(path[:end], 0) + size
    return sums


def boxes(tab):
    """The boxes of the page: path of keys -> bytes."""
    found = tab.js("flame.tree.bytes.map((bytes, box) => [flame.tree.path(box), bytes])")
    return {tuple(int(k) for k in path.split(".") if k): size for path, size in found}


@pytest.mark.parametrize("what", ["peak", "exit", "total"])
def test_each_box_is_the_sum_of_its_stacks(opened, what):
    tab, block = opened("training"), block_of("training")
    tab.reset(f"#f={what}")
    wanted = inclusive(block, getattr(block, what))
    assert boxes(tab) == wanted
    assert tab.bytes("#tarn-flame .detail [data-bytes]") == [wanted[()]]


def test_library_frames_can_be_hidden(opened):
    tab, block = opened("training"), block_of("training")
    tab.click("#tarn-flame button.toggle")
    assert boxes(tab) == inclusive(block, block.peak, lambda frame: not frame.flags)


def test_callees_first_has_the_allocating_frame_at_the_top(opened):
    tab, block = opened("training"), block_of("training")
    tab.click('#tarn-flame [data-value="callees"]')
    sums = {}
    for node, (size, _) in block.peak.items():
        sums[block.node_frames[node]] = sums.get(block.node_frames[node], 0) + size
    tops = {path[0]: size for path, size in boxes(tab).items() if len(path) == 1}
    assert tops == sums


def test_the_stacks_at_a_time_are_those_of_the_nearest_snapshot(opened):
    tab, block = opened("training"), block_of("training")
    for time in (3_000_000_000, 12_345_678_901, 20_000_000_000):
        tab.reset(f"#t={time}&f=time")
        snap = min(block.snaps, key=lambda each: abs(each[1] - time))
        own = {node: (size, 1) for node, size in snap[2].items()}
        assert boxes(tab) == inclusive(block, own)
        assert sum(snap[2].values()) == block.columns.high[snap[0]]
        shown = tab.js(f"timeText({snap[1]})")
        assert f"Snapshot of {shown}" in tab.text("#tarn-flame .caption:not(.detail)")


def test_earlier_snapshots_are_right_after_later_ones(opened):
    tab, block = opened("training"), block_of("training")
    for index in (50, 3, 20):
        _, time, own = block.snaps[index]
        tab.reset(f"#t={time}&f=time")
        assert tab.js("flame.tree.bytes[0]") == sum(own.values())


def test_a_search_counts_nested_matches_once(opened):
    tab, block = opened("training"), block_of("training")
    tab.tab.fill("#tarn-search", "train")  # train.py and train() in it
    tab.settle()
    sums = inclusive(block, block.peak)
    whole = next(size for path, size in sums.items()
                 if path and "train" in block.frames[path[-1]].file)  # fmt: skip
    assert tab.bytes("#tarn-flame .found [data-bytes]") == [whole]
    tab.tab.fill("#tarn-search", "/forward$/")
    tab.settle()
    forward = sum(size for path, size in sums.items()
                  if path and block.frames[path[-1]].function == "forward")  # fmt: skip
    assert tab.bytes("#tarn-flame .found [data-bytes]") == [forward]
    tab.tab.fill("#tarn-search", "/(/")
    tab.settle()
    assert tab.text("#tarn-flame .found") == "no regular expression"


def test_narrow_boxes_are_one_box_with_their_sum(opened):
    tab = opened("many sites")
    drawn = tab.js("flame.boxes.filter(each => each.level === 2 && each.rest !== undefined)"
                   ".map(each => [each.rest, each.count])")  # fmt: skip
    assert drawn == [[32 << 20, 4321]]
    assert tab.js("boxName(flame.tree, flame.tree.key.indexOf(SMALLER))") == "4,321 smaller stacks"


def test_the_map_has_the_bytes_of_its_blocks(opened):
    tab, block = opened("fragmented"), block_of("fragmented")
    for index, each in enumerate(block.maps):
        tab.click(f'#tarn-map [data-value="{index}"]')
        wanted = {}
        for _, found in each.segments:
            for one in found:
                wanted[one.state] = wanted.get(one.state, 0) + one.bytes
        shown = tab.js("[...document.querySelectorAll('.states li')].map(li =>"
                       " [+li.dataset.state, +li.querySelector('[data-bytes]').dataset.bytes])")  # fmt: skip
        assert dict(shown) == wanted


def test_rows_of_the_map_have_one_scale_and_all_bytes(opened):
    tab, block = opened("fragmented"), block_of("fragmented")
    rows = tab.js("address.rows.map(row => row.to - row.from)")
    assert sum(rows) == sum(b.bytes for _, found in block.maps[0].segments for b in found)
    assert max(rows) <= tab.js("address.most")


def site_rows(tab, column):
    return tab.js(
        f"[...document.querySelectorAll('#tarn-sites tbody tr:not(.space) .col-{column}')]"
        ".map(cell => +(cell.dataset.bytes ?? cell.dataset.value))"
    )


def test_the_table_has_the_figures_of_sites_sorted_by_the_peak(opened):
    tab, block = opened("training"), block_of("training")
    sites = sorted(block.sites, key=lambda site: -site.peak)
    for column, field in (("peak", "peak"), ("total", "total"), ("allocations", "count"),
                          ("held", "held"), ("rate", "rate"), ("median", "median_ns")):  # fmt: skip
        assert site_rows(tab, column) == [getattr(site, field) for site in sites], column
    assert sum(site_rows(tab, "peak")) == block.meta["peak_bytes"]


def test_a_group_is_the_sum_of_its_sites(opened):
    tab, block = opened("training"), block_of("training")
    tab.click('#tarn-sites [data-value="file"]')
    sums = {}
    for site in block.sites:
        file = block.frames[site.frame].file
        sums[file] = sums.get(file, 0) + site.peak
    names = tab.js("sites.rows.map(row => row.name)")
    assert dict(zip(names, site_rows(tab, "peak"))) == sums


def test_a_selected_time_gives_the_table_a_column(opened):
    tab, block = opened("training"), block_of("training")
    assert site_rows(tab, "now") == []
    _, time, own = block.snaps[30]
    tab.reset(f"#t={time}")
    assert sum(site_rows(tab, "now")) == sum(own.values())


def test_the_copied_table_has_exact_bytes_and_no_formula(opened):
    tab, block = opened("training"), block_of("training")
    lines = tab.js("sitesText()").split("\n")
    assert len(lines) == len(block.sites) + 2
    peaks = [int(line.split("\t")[1]) for line in lines[1:-1]]
    assert peaks == sorted((site.peak for site in block.sites), reverse=True)
    tab = opened("hostile")
    cells = [cell for line in tab.js("sitesText()").split("\n") for cell in line.split("\t")]
    assert not [cell for cell in cells if cell[:1] in ("=", "+", "-", "@")]
    assert [cell for cell in cells if cell.startswith("'=cmd")]


def test_a_comparison_has_the_differences_of_the_logs(opened):
    tab = opened("compare")
    before, after = conftest.blocks("compare")
    keys = ["peak_bytes", "reserved_peak_bytes", "end_bytes", "held_bytes", "total_bytes", "allocations", "frees", "failures", "duration_ns"]  # fmt: skip
    shown = tab.js("[...document.querySelectorAll('#tarn-compare table')[0]"
                   ".querySelectorAll('[data-change]')].map(cell => +cell.dataset.change)")  # fmt: skip
    assert shown == [after.meta[key] - before.meta[key] for key in keys]


def test_a_comparison_matches_stacks_by_function_and_not_by_line(opened):
    """stats.py:12 is line 15 in B; its box has both sides, and nothing is gone."""
    tab = opened("compare")
    tab.tab.fill("#tarn-search", "remember")
    tab.settle()
    box = tab.js("flame.matches.list.map(box => [flame.tree.bytes[box], flame.tree.before[box]])")
    peaks = [next(site.peak for site in block.sites if block.frames[site.frame].function == "remember")
             for block in conftest.blocks("compare")]  # fmt: skip
    assert box == [[peaks[1], peaks[0]]]
    assert tab.bytes("#tarn-gone") == [0]
    assert "line 12 in A" in tab.js("boxName(flame.tree, flame.matches.list[0], true)")


def test_what_is_only_in_a_is_gone(other):
    import logs
    import page

    before, after = logs.training(steps=4), logs.training(leak=1 << 20, steps=4)
    after.peak = {node: own for node, own in after.peak.items()
                  if after.frames[after.node_frames[after.parents[node]]].function != "remember"}  # fmt: skip
    tab = other(page.page([before, after], compare=True))
    gone = next(
        site.peak for site in before.sites if before.frames[site.frame].function == "remember"
    )
    assert tab.bytes("#tarn-gone") == [gone]
    assert "stats.py remember" in tab.text(".gone")
    tab.check()


def test_processes_of_a_gpu_are_never_added_to_those_of_another(opened):
    tab = opened("workers")
    headings = tab.bytes("#tarn-processes h3 [data-bytes]")
    assert len(headings) == 2
    every = conftest.blocks("workers")
    for sum_, members in zip(headings, (every[:4], every[4:])):
        assert max(block.meta["peak_bytes"] for block in members) < sum_
        assert sum_ <= sum(block.meta["reserved_peak_bytes"] for block in members)
    assert tab.bytes(".process > [data-bytes]") == [b.meta["peak_bytes"] for b in every]


def test_figures_are_rounded_to_three_digits_in_binary_units(opened):
    tab = opened("one row")
    sizes = {0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1.00 KiB", 1536: "1.50 KiB",
             1023 << 20: "1,023 MiB", 1048064: "1,024 KiB", 2**53 + 1: "8.00 PiB"}  # fmt: skip
    sizes.pop(1048064)
    for number, text in sizes.items():
        assert tab.js(f"sizeText({number})") == text
    times = {0: "0 ns", 999: "999 ns", 1500: "1.5 µs", 41_160_000: "41.2 ms", 12_400_000_000: "12.4 s",
             125_000_000_000: "2 min 5 s", 7_260_000_000_000: "2 h 1 min"}  # fmt: skip
    for number, text in times.items():
        assert tab.js(f"timeText({number})") == text
    assert tab.js("[shareText(1, 3), shareText(1, 1e6), shareText(0, 5), shareText(1, 0)]") == [
        "33.3 %", "<0.1 %", "0.0 %", "–",
    ]  # fmt: skip


def test_all_panels_are_there(opened):
    assert json.dumps(PANELS)
    tab = opened("fragmented")
    shown = tab.js("[...document.querySelectorAll('main > section:not([hidden])')].map(s => s.id)")
    assert shown == ["tarn-findings", "tarn-timeline", "tarn-failures", "tarn-flame", "tarn-map",
                     "tarn-sites", "tarn-quality"]  # fmt: skip
