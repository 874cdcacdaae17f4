"""`tarn top` and `tarn metrics`: what they show, as a program and on a terminal."""

import asyncio
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request

import pytest
import tarn.metrics
import tarn.top
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tarn import _metrics_command, _top

TOOL = os.path.join(os.path.dirname(sys.executable), "tarn")
POOL = {
    "device": 0, "resource": "PoolMemoryResource", "live": 1 << 30, "reserved": 3 << 30,
    "peak_allocated": 2 << 30, "maximum": None, "fragmentation": 0.25, "failures": 1,
    "allocations": 1000, "cache_hits": 500, "driver_calls": 10, "live_blocks": 7,
}  # fmt: skip
SITE = {"location": 'a "b"\\c\n.py:3 f', "bytes": 5 << 20, "blocks": 2}
PROCESS = {
    "pid": 41, "command": "python train.py", "version": "0.2.0", "time": 10.0,
    "devices": [{"device": 0, "free": 100, "total": 200, "resource": "x"}], "pools": [POOL],
    "limits": [{"device": 0, "allocated": 3, "limit": 4}, {"device": 0, "allocated": 1, "limit": 9}],
    "trackers": [{"device": 0, "bytes": 5 << 20, "blocks": 2, "sites": [SITE]}],
}  # fmt: skip


def changed(process=PROCESS, pool=None, **more):
    return {**process, "pools": [{**POOL, **(pool or {})}], **more}


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


# --- OpenMetrics -----------------------------------------------------------------------------


def test_the_text_is_read_by_prometheus_parser():
    found = families(tarn.metrics.openmetrics([PROCESS, {**PROCESS, "pid": 42}]))
    live = found["tarn_pool_live_bytes"]
    assert (live.type, live.unit) == ("gauge", "bytes")
    assert [(s.labels, s.value) for s in live.samples] == [
        ({"pid": pid, "device": "0", "pool": "0"}, 1 << 30) for pid in ("41", "42")
    ]
    assert found["tarn_pool_allocations"].type == "counter"
    assert found["tarn_pool_allocations"].samples[0].name == "tarn_pool_allocations_total"
    assert found["tarn_pool_fragmentation_ratio"].samples[0].value == 0.25
    assert "tarn_pool_maximum_bytes" not in found  # no maximum
    assert [s.value for s in found["tarn_limit_bytes"].samples] == [4, 9, 4, 9]
    assert found["tarn_site_live_bytes"].samples[0].labels["site"] == SITE["location"]
    assert found["tarn_process"].samples[0].labels["command"] == "python train.py"


def test_the_text_of_this_process_has_each_figure_of_its_pool():
    pool = tarn.mr.PoolMemoryResource(maximum_pool_size=64 << 20)
    buffer = tarn.DeviceBuffer(size=12345, mr=pool)
    own = tarn.metrics.collect()
    found = families(tarn.metrics.openmetrics([own]))
    number = [one["live_requested"] for one in own["pools"]].index(buffer.size)
    for family in ("live_bytes", "reserved_bytes", "maximum_bytes", "frees"):
        samples = found[f"tarn_pool_{family}"].samples
        value = {s.labels["pool"]: s.value for s in samples}[str(number)]
        assert value == own["pools"][number][family.removesuffix("_bytes")]


def test_foreign_figures_make_no_invalid_text():
    for pools in (7, [7], [{"live": "x", "device": [1]}], [{"live": True}], {"a": 1}):
        found = families(tarn.metrics.openmetrics([{"pid": "p\ud800\n", "pools": pools}]))
        assert "tarn_pool_live_bytes" not in found


# --- rows ------------------------------------------------------------------------------------


def test_rates_are_those_between_two_samples():
    watch = _top.Watch()
    (first,) = watch.sample([PROCESS])
    assert (first.allocations_per_second, first.hit_share) == (None, None)
    later = changed(pool={"allocations": 3000, "cache_hits": 2000, "driver_calls": 14}, time=12.0)
    (row,) = watch.sample([later])
    assert (row.allocations_per_second, row.driver_calls_per_second) == (1000, 2)
    assert row.hit_share == 0.75
    assert watch.history(41) == ([1 << 30] * 2, [3 << 30] * 2)


def test_a_counter_that_fell_is_another_pools_and_has_no_rate():
    watch = _top.Watch()
    watch.sample([PROCESS])
    (row,) = watch.sample([changed(pool={"allocations": 5}, time=12.0)])
    assert row.allocations_per_second is None


def test_a_process_that_ended_is_forgotten():
    watch = _top.Watch()
    watch.sample([PROCESS])
    assert watch.sample([]) == [] and watch.history(41) == ([], [])


def test_control_characters_of_another_process_are_not_shown():
    (row,) = _top.Watch().sample([changed(command="a\x1b[2Jb\n\u202e")])
    assert row.command == "a?[2Jb??"
    assert _top.sites([PROCESS])[0].location == 'a "b"\\c?.py:3 f'


@pytest.mark.parametrize("wrong", [7, None, "x", [7], [{"live": -1, "maximum": "x"}]])
def test_foreign_figures_make_rows_of_zeros_or_none(wrong):
    rows = _top.Watch().sample([changed(time="x") | {"pools": wrong, "trackers": wrong}])
    assert [row.live for row in rows] in ([], [0])
    assert _top.sites([{"trackers": wrong}]) == []


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1023, "1.00 KiB"), (1536, "1.50 KiB"), (10 << 20, "10.0 MiB"),
     (150 << 30, "150 GiB"), (1 << 50, "1024 TiB"), (None, "-")],
)  # fmt: skip
def test_sizes_have_three_digits(count, text):
    assert _top.size(count) == text


def test_a_curve_begins_at_zero_and_its_latest_value_is_at_the_right():
    assert _top.curve([0, 8, 16], 16, 4, 2).splitlines() == ["   █", "  ██"]
    assert _top.curve([1, 3], 8, 2, 1) == "▁▃"
    assert _top.curve([5, 6, 7], 7, 2, 1) == "▇█"
    assert _top.curve([], 0, 3, 1) == "   " and _top.curve([0], 0, 1, 1) == " "


# --- the commands ----------------------------------------------------------------------------

PROGRAM = """
import sys, tarn, tarn.mr, tarn.metrics
pool = tarn.mr.PoolMemoryResource()
tarn.mr.set_current_device_resource(tarn.mr.TrackingResourceAdaptor(pool, capture_stacks=True))
kept = tarn.DeviceBuffer(size=3 << 20)
tarn.metrics.listen()
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Run a program that listens; return its process."""
    monkeypatch.setenv("TARN_IPC_DIR", str(tmp_path / "run"))
    monkeypatch.setenv("TARN_DRIVER", "sim")
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        yield process
        process.stdin.close()


def tarn_tool(*arguments, path="/usr/bin:/bin"):
    done = subprocess.run(
        [TOOL, *arguments], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    return done.returncode, done.stdout, done.stderr


def test_top_once_prints_the_pool_and_the_site_beside_the_command_alone(program):
    code, said, wrong = tarn_tool("top", "--once")  # its folder is not on the PATH
    assert (code, wrong) == (0, "")
    head, row, _, site_head, site = said.splitlines()
    assert head.split()[:5] == ["PID", "dev", "pool", "live", "reserved"]
    assert row.split()[:5] == [str(program.pid), "0", "Pool", "3.00", "MiB"]
    assert site_head.split() == ["PID", "bytes", "blocks", "site"]
    assert site.split()[-2:] == ["<string>:5", "<module>"]


def test_top_and_metrics_of_nobody_fail_with_words(tmp_path, monkeypatch):
    monkeypatch.setenv("TARN_IPC_DIR", str(tmp_path))
    assert tarn_tool("top", "--once")[0] == 1
    code, said, wrong = tarn_tool("metrics")
    assert (code, said) == (1, "") and "no process of this user listens" in wrong
    code, _, wrong = tarn_tool("top", "--once", "999999")
    assert code == 1 and "process 999999 does not listen" in wrong
    code, _, wrong = tarn_tool("top", "--interval", "0")
    assert code == 2 and "--interval is 0.0; it has to be from 0.05 to 3600 seconds" in wrong


def test_metrics_prints_text_and_json(program):
    code, said, wrong = tarn_tool("metrics", str(program.pid))
    assert (code, wrong) == (0, "")
    assert families(said)["tarn_pool_live_requested_bytes"].samples[0].value == 3 << 20
    code, said, _ = tarn_tool("metrics", "--json")
    assert code == 0 and json.loads(said)["pid"] == program.pid


def test_the_tool_lists_each_external_verb_once_with_its_summary(program):
    _, said, _ = tarn_tool("--help", path=f"{os.path.dirname(TOOL)}:/usr/bin:/bin")
    assert said.count("\n  top      shows the pools of running processes\n") == 1
    assert said.count("\n  metrics  prints the figures of running processes\n") == 1
    assert said.count("\n  nrt      prints the compiler options for programs with") == 1


def test_prometheus_is_served(program):
    with subprocess.Popen(
        [TOOL, "metrics", "--serve", "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        url = re.fullmatch(r"serving (http://127\.0\.0\.1:\d+/metrics)\n", server.stdout.readline())
        with urllib.request.urlopen(url[1], timeout=30) as answer:
            assert answer.headers["Content-Type"].startswith("application/openmetrics-text; ")
            found = families(answer.read().decode())
        assert found["tarn_process"].samples[0].labels["pid"] == str(program.pid)
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(url[1] + "/x", timeout=30)
        assert caught.value.code == 404
        caught.value.close()
        server.terminate()
        assert server.stderr.read() == ""


@pytest.mark.parametrize("address", ["x", "99999", "localhost:", ":-1"])
def test_an_address_without_a_port_is_an_error(address, capsys):
    with pytest.raises(SystemExit):
        _metrics_command.main(["--serve", address])
    assert "is not PORT or HOST:PORT" in capsys.readouterr().err


def test_a_missing_textual_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "textual.app", None)
    assert tarn.top.main([]) == 1
    assert "pip install 'tarn-gpu[top]', or use tarn top --once" in capsys.readouterr().err


# --- the live view ---------------------------------------------------------------------------


def drive(steps, looks):
    """Run the view, whose looks return `looks` in turn, and the last one from then on."""
    from textual.widgets import DataTable, Static

    taken = iter(looks)
    last = []

    def read_all(pids):
        last[:] = [next(taken, *last)] if last else [next(taken)]
        return last[0]

    async def run():
        app = tarn.top._app([], 60.0)
        async with app.run_test(size=(160, 40)) as pilot:
            await app.workers.wait_for_complete()
            await pilot.pause()
            await steps(
                app, pilot, app.query_one("#pools", DataTable), app.query_one("#problem", Static)
            )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tarn.top, "read_all", read_all)
        asyncio.run(run())


async def look(app, pilot):
    app.refresh_figures()
    await app.workers.wait_for_complete()
    await pilot.pause()


def cells(table, row):
    return [str(cell) for cell in table.get_row_at(row)]


def test_the_view_shows_pools_sites_and_curves_and_sorts():
    small = changed({**PROCESS, "pid": 40}, {"live": 1 << 20, "reserved": 9 << 30})

    async def steps(app, pilot, pools, problem):
        assert [cells(pools, i)[0] for i in (0, 1)] == ["41", "40"]  # by live bytes
        assert cells(pools, 0)[3:5] == ["1.00 GiB", "3.00 GiB"]
        assert str(app.query_one("#live-text").content) == "live of process 41: at most 1.00 GiB"
        await pilot.press("s")
        assert [cells(pools, i)[0] for i in (0, 1)] == ["40", "41"]  # by reserved bytes
        await pilot.press("down")
        assert "process 41" in str(app.query_one("#reserved-text").content)
        assert app.query_one("#sites").row_count == 2
        assert str(problem.content) == ""

    drive(steps, [([PROCESS, small], [])])


def test_the_view_says_why_there_is_nothing_and_goes_on():
    async def steps(app, pilot, pools, problem):
        assert "no process of this user listens" in str(problem.content)
        await look(app, pilot)
        assert pools.row_count == 1 and str(problem.content) == "process 7 did not answer"
        await pilot.press("space")  # paused
        await look(app, pilot)
        assert pools.row_count == 1
        await pilot.press("space")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert pools.row_count == 0

    drive(steps, [([], []), ([PROCESS], ["process 7 did not answer"]), ([], [])])


def test_the_view_does_not_interpret_markup_of_another_process():
    async def steps(app, pilot, pools, problem):
        assert cells(pools, 0)[-1] == "[red]x[/] [@click=app.quit]y"
        assert str(problem.visual) == "[bold]z"

    hostile = changed(command="[red]x[/] [@click=app.quit]y")
    drive(steps, [([hostile], ["[bold]z"])])
