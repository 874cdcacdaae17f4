"""`tarn report --plan`: the pictures have the blocks of the plan, and those of a replay."""

import json
import random
import subprocess

import pytest
from cli_tool import TOOL, refused, tarn_tool
from report_logs import ALLOCATE, FREE, NONE, blocks, csv, path_of

MS, MIB = 10**6, 1 << 20
MOST = 4096  # blocks of a picture


def random_rows(seed, count, live_blocks=30):
    """Blocks at addresses of a heap, with gaps; some live at the end."""
    rng = random.Random(seed)
    rows, live, free = [], [], list(range(4 * live_blocks))
    for number in range(count):
        time = number * MS
        if live and (len(live) == live_blocks or rng.random() < 0.45):
            slot, size = live.pop(rng.randrange(len(live)))
            free.append(slot)
            rows.append((FREE, 0x7F0000000000 + slot * 32 * MIB, 7, size, time, ""))
            continue
        slot = free.pop(rng.randrange(len(free)))
        size = rng.choice([512, 3000, MIB, 5 * MIB, rng.randrange(1, 30 * MIB)])
        live.append((slot, size))
        place = f"/home/ann/part{size % 5}.py:{size % 7 + 1}"
        rows.append((ALLOCATE, 0x7F0000000000 + slot * 32 * MIB, 7, size, time, place))
    return rows


def run_of(rows):
    """The blocks of the run: [start, life, address, bytes]; and the number of operations."""
    live, found, at = {}, [], 0
    for action, address, _stream, size, *_ in rows:
        if action == ALLOCATE:
            live[address] = (at, size)
        else:
            start, size = live.pop(address)
            found.append((start, at - start, address, size))
        at += 1
    found += [(start, at - start, address, size) for address, (start, size) in live.items()]
    return sorted(found), at


def pages(tmp_path, rows, *arguments):
    """The figures of the plan of a log, its page, and the one block of that."""
    log, plan = tmp_path / "a.csv", tmp_path / "a.plan"
    log.write_bytes(csv(rows))
    done = tarn_tool("plan", "--json", "--no-pool", log, "-o", plan)
    assert done.returncode == 0, done.stderr
    page = subprocess.run([TOOL, "report", log, "--plan", plan, "-o", "-", *arguments],
                          capture_output=True)  # fmt: skip
    assert page.returncode == 0, page.stderr
    (block,) = blocks(page.stdout)
    return json.loads(done.stdout), page.stdout, block


@pytest.mark.parametrize("seed", range(6))
def test_the_pictures_have_each_block_of_a_short_log(tmp_path, seed):
    rows = random_rows(seed, 400)
    told, _, block = pages(tmp_path, rows)
    plan = block["plan"]
    planned, run = plan["pictures"]
    expected, operations = run_of(rows)
    assert (plan["live"], plan["waits"]) == (told["peak_live_bytes"], told["plan"]["waits"])
    assert planned["height"] == told["plan"]["height_bytes"]
    assert planned["operations"] == run["operations"] == told["operations"] == operations
    assert planned["all"] == run["all"] == told["blocks"] == len(expected)
    assert planned["share"] == run["share"] == 10000
    shown = [(b["start"], b["life"], b["address"], b["bytes"]) for b in run["blocks"]]
    assert sorted(shown) == expected
    times = [(b["start"], b["life"], b["bytes"]) for b in planned["blocks"]]
    assert times == [(s, life, (size + 511) // 512 * 512) for s, life, _, size in expected]
    assert max(b["offset"] + b["bytes"] for b in planned["blocks"]) == planned["height"]


def test_blocks_that_are_live_at_once_are_apart_in_both_pictures(tmp_path):
    _, _, block = pages(tmp_path, random_rows(9, 300))
    for picture in block["plan"]["pictures"]:
        for i, one in enumerate(picture["blocks"]):
            for other in picture["blocks"][:i]:
                if one["start"] < other["start"] + other["life"]:
                    assert (one["offset"] >= other["offset"] + other["bytes"]
                            or other["offset"] >= one["offset"] + one["bytes"])  # fmt: skip


def test_a_block_of_the_plan_has_the_site_of_its_allocation(tmp_path):
    rows = random_rows(3, 200)
    _, _, block = pages(tmp_path, rows)
    places = [row[5] for row in rows if row[0] == ALLOCATE]
    for picture in block["plan"]["pictures"]:
        for place, one in zip(places, picture["blocks"]):
            ((_, file, line),) = path_of(block, one["node"])
            assert f"{file}:{line}" == place


def test_a_plan_of_other_work_has_no_sites(tmp_path):
    rows = random_rows(4, 100)
    pages(tmp_path, [(a, at, s, size + 4096 if size > 600 else 5000, t, p)
                     for a, at, s, size, t, p in rows])  # fmt: skip
    log = tmp_path / "b.csv"
    log.write_bytes(csv(rows))
    page = subprocess.run([TOOL, "report", log, "--plan", tmp_path / "a.plan", "-o", "-"],
                          capture_output=True)  # fmt: skip
    (block,) = blocks(page.stdout)
    planned, run = block["plan"]["pictures"]
    assert all(one["node"] == -1 for one in planned["blocks"])
    assert all(one["node"] > 0 for one in run["blocks"])


def test_long_logs_show_the_largest_blocks(tmp_path):
    rows = random_rows(5, 30000)
    _, page, block = pages(tmp_path, rows)
    expected, _ = run_of(rows)
    areas = sorted((life * size for _, life, _, size in expected), reverse=True)
    run = block["plan"]["pictures"][1]
    assert run["all"] == len(expected) > MOST == len(run["blocks"])
    shown = [one["life"] * one["bytes"] for one in run["blocks"]]
    assert sorted(shown, reverse=True) == areas[:MOST]
    assert run["share"] == round(10000 * sum(areas[:MOST]) / sum(areas))
    assert len(page) < 3_000_000


def test_small_gaps_stay_and_large_ones_go(tmp_path):
    """The run has three blocks: 10 MiB, a gap of 60 MiB, 10 MiB, a gap of 1 TiB, 10 MiB."""
    size, base = 10 * MIB, 0x7F0000000000
    places = [base, base + 70 * MIB, base + (1 << 40)]
    rows = [(ALLOCATE, at, NONE, size, i * MS, "a.py:1") for i, at in enumerate(places)]
    _, _, block = pages(tmp_path, rows)
    run = block["plan"]["pictures"][1]
    assert [one["offset"] // MIB for one in run["blocks"]] == [0, 70, 80]
    assert run["height"] == 90 * MIB


def test_addresses_at_the_end_of_all_are_cut(tmp_path):
    rows = [(ALLOCATE, 2**64 - 4096, NONE, 1 << 20, 0, "a.py:1"),
            (ALLOCATE, 16, NONE, 1 << 20, MS, "a.py:1")]  # fmt: skip
    _, _, block = pages(tmp_path, rows)
    run = block["plan"]["pictures"][1]
    assert sorted(one["bytes"] for one in run["blocks"]) == [4095, 1 << 20]
    assert run["height"] == (1 << 20) + 4095


def test_a_part_of_the_log_is_a_part_of_the_run(tmp_path):
    rows = random_rows(6, 300)
    _, _, block = pages(tmp_path, rows, "--from", "100ms", "--to", "199ms")
    run = block["plan"]["pictures"][1]
    assert run["operations"] == 100
    assert all(one["start"] + one["life"] <= 100 for one in run["blocks"])
    before = sum(row[0] == ALLOCATE for row in rows[:100])
    before -= sum(row[0] == FREE for row in rows[:100])
    assert sum(one["start"] == 0 for one in run["blocks"]) in (before, before + 1)


def test_the_page_has_both_pictures_without_a_script(tmp_path):
    told, page, _ = pages(tmp_path, random_rows(7, 100))
    text = page.decode()
    section = text[text.index('<section id="tarn-plan">') :]
    section = section[: section.index("</section>")]
    assert section.count("<svg") == 2
    assert f'data-bytes="{told["plan"]["height_bytes"]}"' in section
    assert "style=" not in section


def test_a_hostile_name_of_a_plan_is_text(tmp_path):
    pages(tmp_path, random_rows(8, 50))
    name = tmp_path / "<script>alert(1)<!--\u202e.plan"
    (tmp_path / "a.plan").rename(name)
    page = tarn_tool("report", tmp_path / "a.csv", "--plan", name, "-o", "-").stdout
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)" in page and "\\u{202e}" in page


def test_what_is_no_plan_is_rejected(tmp_path):
    log = tmp_path / "a.csv"
    pages(tmp_path, random_rows(1, 60))
    out = tmp_path / "a.html"
    plan = tmp_path / "a.plan"
    bad = tmp_path / "bad.plan"
    for data in (b"", b"no plan", plan.read_bytes()[:-5], log.read_bytes()):
        bad.write_bytes(data)
        refused(1, "bad.plan", "report", log, "--plan", bad, "-o", out)
    refused(1, "cannot open", "report", log, "--plan", tmp_path / "none", "-o", out)
    refused(1, "is the plan itself", "report", log, "--plan", plan, "-o", plan)
    assert not out.exists()
    more = "--plan requires one log, not 2"
    refused(2, more, "report", log, log, "--plan", plan, "-o", out)
    refused(2, more, "report", "--compare", log, log, "--plan", plan, "-o", out)
    refused(2, "cannot both be stdin", "report", "-", "--plan", "-", "-o", out)
