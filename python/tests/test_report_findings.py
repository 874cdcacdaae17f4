"""The findings of `tarn report`: each rule has a log that triggers it and one that must not."""

import subprocess

import pytest
from binary_log import BinaryLog
from cli_tool import TOOL, tarn_tool
from report_logs import ALLOCATE, FAILURE, FREE, NONE, blocks, csv, path_of

MS, SECOND = 10**6, 10**9
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
GROWTH, RELEASE, TRIM, OOM, SNAPSHOT = range(5)
LIVE, CACHED, COMPLETED, FENCED, UNFENCED, CAPTURED, UNMAPPED = range(7)
STEP, OTHER = "/home/ann/train.py:88", "/home/ann/other.py:5"


class Rows:
    """Rows of a log, with a clock and fresh addresses."""

    def __init__(self):
        self.rows, self.time, self.next = [], 0, 1 << 20

    def allocate(self, size, place=STEP, stream=NONE, lasts=0):
        self.next += 1 << 12
        row = (ALLOCATE, self.next, stream, size, self.time, place, self.time + lasts)
        self.rows.append(row)
        return self.next, size

    def free(self, block, place=STEP, stream=NONE, lasts=0):
        address, size = block
        row = (FREE, address, stream, size, self.time, place, self.time + lasts)
        self.rows.append(row)

    def wait(self, ns):
        self.time += ns


def findings(data, *args):
    """The findings of a log, by rule."""
    data = csv(data.rows) if isinstance(data, Rows) else data
    done = subprocess.run([TOOL, "report", "-", "-o", "-", *args], input=data, capture_output=True)
    assert done.returncode == 0, done.stderr
    (block,) = blocks(done.stdout)
    found = {}
    for one in block["findings"]:
        found.setdefault(one["rule"], []).append(one)
    return found


def steps(log, count, keep, size=4 * MIB):
    """`count` steps of 20 ms; `keep(step)` blocks of each step stay."""
    kept = []
    for step in range(count):
        blocks_of_step = [log.allocate(size) for _ in range(4)]
        log.wait(10 * MS)
        keeps = keep(step)
        kept += blocks_of_step[:keeps]
        for block in blocks_of_step[keeps:]:
            log.free(block)
        log.wait(10 * MS)
    return kept


# --- F1 ---------------------------------------------------------------------------------


def test_a_site_that_keeps_a_block_of_each_step_grows():
    log = Rows()
    steps(log, 200, lambda step: 1)
    (one,) = findings(log)["F1"]
    assert "ann/train.py:88 grows by" in one["sentence"]
    assert one["allow"] == "train.py:88" and one["bytes"] > 500 * MIB
    oldest = [line for line in one["evidence"] if "oldest" in line]
    assert oldest == ["the oldest of its live blocks is 3.99 s old"]


def test_a_site_grows_also_where_exit_frees_its_blocks():
    log = Rows()
    kept = steps(log, 200, lambda step: 1)
    for block in kept:
        log.free(block, "<exit>")
        log.wait(20 * MS)
    found = findings(log)
    (one,) = found["F1"]
    assert "ann/train.py:88 grows by" in one["sentence"] and one["bytes"] > 500 * MIB
    assert "F2" in found


@pytest.mark.parametrize("late, fires", [(3.5, True), (10, False)])
def test_a_site_may_begin_to_grow_late(late, fires):
    """A program compiles its kernels after its first array."""
    log = Rows()
    log.allocate(4 * MIB)
    log.wait(int(late * SECOND))
    steps(log, 200, lambda step: 1)  # 4 s
    assert ("F1" in findings(log)) == fires


@pytest.mark.parametrize("case", ["warm-up", "sawtooth", "emptied list", "small", "short log"])
def test_what_does_not_grow_for_ever_is_not_said_to_grow(case):
    log = Rows()
    if case == "warm-up":
        steps(log, 200, lambda step: step < 20)
    elif case == "sawtooth":
        for _ in range(20):
            for block in steps(log, 10, lambda step: 1):
                log.free(block)
    elif case == "emptied list":  # every 60 steps of 200
        for count in 60, 60, 60, 20:
            for block in steps(log, count, lambda step: 1):
                log.free(block)
    elif case == "small":
        steps(log, 200, lambda step: 1, size=KIB)
    else:
        steps(log, 40, lambda step: 1)
    assert "F1" not in findings(log)


# --- F2 ---------------------------------------------------------------------------------


def test_what_only_exit_frees_is_held():
    log = Rows()
    block, cycle, lost = (log.allocate(size * MIB) for size in (40, 30, 20))
    log.wait(SECOND)
    log.free(block, "<exit>")
    log.free(cycle, "<gc>")
    (one,) = findings(log)["F2"]
    assert one["sentence"] == "90.0 MiB of ann/train.py:88 are held until exit"
    assert not one["hint"]
    assert one["evidence"][1:] == [
        "the exit of the interpreter freed 40.0 MiB",
        "a collection of cycles during exit freed 30.0 MiB",
        "nothing freed 20.0 MiB",
    ]
    assert lost


LOAD = "/home/ann/load.py"


def held_by(*stacks):
    """A log whose stacks each hold blocks of 10 MiB: (number of blocks, frames)."""
    log, address = BinaryLog(chunk_bytes=65536), 0
    for count, *frames in stacks:
        stack = log.stack(*frames)
        for _ in range(count):
            address += 4096
            log.add(1, ALLOCATE, address, 10 * MIB, stack)
    return log.bytes()


def test_lines_of_one_function_are_one_finding():
    rows = [(3, ("load", LOAD, 12)), (1, ("load", LOAD, 20)), (2, ("load", LOAD, 30)),
            (1, ("load", LOAD, 40)), (1, ("load", LOAD, 50)), (4, ("read", LOAD, 60))]  # fmt: skip
    load, read = findings(held_by(*rows))["F2"]
    assert load["sentence"] == "80.0 MiB of ann/load.py load are held until exit"
    assert load["allow"] == "load.py:load" and load["bytes"] == 80 * MIB
    assert [line for line in load["evidence"] if "line" in line] == [
        "line 12: 30.0 MiB in 3 blocks",
        "line 30: 20.0 MiB in 2 blocks",
        "line 20: 10.0 MiB in 1 block",
        "2 more lines: 20.0 MiB",
    ]
    assert read["sentence"] == "40.0 MiB of ann/load.py:60 read are held until exit"


def test_callers_of_a_site_are_named():
    """A function that allocates for all others is not the reason."""
    main = ("main", "/home/ann/train.py", 5)
    library = ("array", "/usr/lib/python3/site-packages/cupy/x.py", 7)
    load = ("load", LOAD, 12)
    rows = [(3, library, load, ("mean", LOAD, 20), main), (1, library, load, main)]
    (one,) = findings(held_by(*rows))["F2"]
    assert one["evidence"][1:3] == [
        "called from ann/load.py:20 mean: 30.0 MiB",
        "called from ann/train.py:5 main: 10.0 MiB",
    ]
    (alone,) = findings(held_by((3, load)))["F2"]
    assert not any("called" in line for line in alone["evidence"])


def test_one_block_is_not_blocks():
    (one,) = findings(held_by((1, ("load", LOAD, 12))))["F2"]
    assert one["evidence"][0].startswith("1 block, the oldest is ")


def test_what_the_program_frees_is_not_held():
    log = Rows()
    first, second = log.allocate(40 * MIB), log.allocate(30 * MIB)
    log.allocate(100 * KIB)
    log.wait(SECOND)
    log.free(first, "<gc>")  # before exit: an ordinary collection
    log.free((1, 1), "<exit>")
    log.free(second, OTHER)  # a handler of atexit
    assert "F2" not in findings(log)


def test_what_is_live_in_a_cut_log_is_a_hint():
    log = BinaryLog(chunk_bytes=65536)
    stack = log.stack(("step", "/home/ann/train.py", 88))
    log.add(1, ALLOCATE, 4096, 40 * MIB, stack)
    (one,) = findings(log.bytes(closed=False))["F2"]
    assert one["hint"] and "are live when the log ends" in one["sentence"]
    assert one["allow"] == "train.py:step"
    (one,) = findings(log.bytes())["F2"]
    assert "are held until exit" in one["sentence"]


# --- F3 ---------------------------------------------------------------------------------


def collections(log, collector, lifetime):
    """40 rounds of a block that is freed at once, and one that the collector frees later."""
    late = []
    for _ in range(40):
        block = log.allocate(8 * MIB)
        late.append(log.allocate(8 * MIB))
        log.wait(5 * MS)
        log.free(block)
        log.wait(45 * MS)
        if len(late) * 50 * MS > lifetime:
            log.free(late.pop(0), collector)
    for block in late:
        log.free(block, collector)


def test_blocks_that_wait_for_the_collector_are_found():
    log = Rows()
    collections(log, "<gc>", 500 * MS)
    (one,) = findings(log)["F3"]
    assert "waits for Python's cycle collector" in one["sentence"]


@pytest.mark.parametrize("collector, lifetime", [(OTHER, 500 * MS), ("<gc>", 0)])
def test_late_frees_by_others_and_early_collections_are_not_found(collector, lifetime):
    log = Rows()
    collections(log, collector, lifetime)
    assert "F3" not in findings(log)


# --- F4 ---------------------------------------------------------------------------------


def spike(size, at, rounds=200):
    log = Rows()
    log.allocate(100 * MIB, OTHER)
    for number in range(rounds):
        if number == at:
            block = log.allocate(size)
            log.wait(1 * MS)
            log.free(block)
        block = log.allocate(MIB, OTHER)
        log.wait(10 * MS)
        log.free(block)
    return log


def test_a_short_peak_is_found_with_what_grew_in_it():
    (one,) = findings(spike(GIB, 100))["F4"]
    assert "short peak" in one["sentence"]
    assert any("train.py:88 grew by 1.00 GiB" in line for line in one["evidence"])


@pytest.mark.parametrize("size, at", [(40 * MIB, 100), (GIB, 0)])
def test_a_small_peak_and_one_at_the_start_are_not_found(size, at):
    assert "F4" not in findings(spike(size, at))


def test_a_ramp_has_no_short_peak():
    log = Rows()
    steps(log, 200, lambda step: 1)
    assert "F4" not in findings(log)


# --- F6 ---------------------------------------------------------------------------------


def loop(interval, lasts, lifetime=1000, sizes=(4096,)):
    log = Rows()
    for number in range(2 * SECOND // interval):
        block = log.allocate(sizes[number % len(sizes)], lasts=lasts)
        log.wait(lifetime)
        log.free(block, lasts=lasts)
        log.wait(interval - lifetime)
    return log


def test_a_hot_loop_is_found():
    (one,) = findings(loop(80_000, 20_000))["F6"]
    assert "allocates 12,500 times a second" in one["sentence"] and not one["hint"]
    (cheap,) = findings(loop(80_000, 10))["F6"]
    assert cheap["hint"]


@pytest.mark.parametrize("log", [loop(200_000, 10), loop(80_000, 10, sizes=(1, 2, 3, 4096))])
def test_a_slow_loop_and_one_of_many_sizes_are_not_found(log):
    assert "F6" not in findings(log)


def test_blocks_that_live_long_make_no_hot_loop():
    log, blocks_of_loop = Rows(), []
    for _ in range(25_000):
        blocks_of_loop.append(log.allocate(4096))
        log.wait(80_000)
        if len(blocks_of_loop) > 1000:
            log.free(blocks_of_loop.pop(0))
    assert "F6" not in findings(log)


# --- F7 ---------------------------------------------------------------------------------

FULL = {
    "requested": 4 * GIB, "live": 9 * GIB, "cached": 5 * GIB, "reserved": 14 * GIB,
    "maximum": NONE, "same_stream": 5 * GIB, "largest_free": 5 * GIB,
    "device_free": GIB, "device_total": 16 * GIB,
}  # fmt: skip


def failing(retried=False, **report):
    log = BinaryLog(chunk_bytes=65536)
    stack = log.stack(("step", "/home/ann/train.py", 88))
    log.add(1, ALLOCATE, 4096, MIB, stack)
    log.add(5 * SECOND, FAILURE, 0, report.get("requested", FULL["requested"]), stack)
    if report:
        log.pool(5 * SECOND + 1, OOM, 14 * GIB, 9 * GIB, report=FULL | report, stack=stack)
    log.flush()
    if retried:
        log.add(5 * SECOND + 2, ALLOCATE, 8192, FULL["requested"], stack)
    log.add(6 * SECOND, FREE, 4096)
    return log.bytes()


@pytest.mark.parametrize(
    "report, cause",
    [
        ({"requested": 20 * GIB}, "more than the device has"),
        ({"requested": 15 * GIB, "maximum": 14 * GIB}, "more than the pool's maximum"),
        ({"cached": 0, "maximum": 14 * GIB, "device_free": 5 * GIB, "device_total": 19 * GIB},
         "its own maximum"),
        ({"cached": 0, "reserved": 9 * GIB, "device_total": 19 * GIB}, "other processes"),
        ({"cached": GIB, "captured": 4 * GIB, "device_total": 15 * GIB}, "captured graphs"),
        ({"other_streams": 2 * GIB}, "other streams"),
        ({"unfenced": 2 * GIB}, "no event covers"),
        ({"largest_free": GIB}, "fragmented"),
    ],
)  # fmt: skip
def test_a_failure_has_its_first_cause(report, cause):
    (one,) = findings(failing(**report))["F7"]
    assert cause in one["sentence"] and not one["hint"]
    assert one["time"] == 5 * SECOND


def test_a_failure_without_free_memory_is_no_riddle():
    full = {"cached": GIB, "device_total": 15 * GIB, "largest_free": GIB}
    assert "F7" not in findings(failing(**full))


def test_a_failure_without_a_report_and_one_that_is_retried_are_hints():
    (one,) = findings(failing())["F7"]
    assert one["hint"] and "does not say why" in one["sentence"]
    (one,) = findings(failing(retried=True, other_streams=2 * GIB))["F7"]
    assert one["hint"] and "succeeded within a second" in one["evidence"][-1]


@pytest.mark.parametrize(
    "report, says",
    [
        ({"cached": 0, "reserved": 9 * GIB, "device_total": 19 * GIB},
         "hold 9.00 GiB of the device's 19.0 GiB"),
        ({"largest_free": GIB}, "fragmented: 5.00 GiB are free, the largest block has 1.00 GiB"),
        ({"unfenced": 2 * GIB}, "no event covers: 2.00 GiB of 5.00 GiB"),
        ({"other_streams": 2 * GIB}, "other streams: 2.00 GiB of 5.00 GiB"),
        ({"cached": 0, "maximum": 14 * GIB, "device_free": 5 * GIB, "device_total": 19 * GIB},
         "maximum of 14.0 GiB, and the device has 5.00 GiB free"),
    ],
)  # fmt: skip
def test_the_sentence_of_a_failure_has_its_figures(report, says):
    (one,) = findings(failing(**report))["F7"]
    assert says in one["sentence"]
    assert one["sentence"].startswith("an allocation of 4.00 GiB failed at 5.00 s: ")


def test_memory_that_suffices_with_that_of_the_device_is_fragmented():
    (one,) = findings(failing(cached=3 * GIB, largest_free=GIB, device_free=3 * GIB))["F7"]
    assert one["sentence"].endswith(
        "the pool is fragmented: 3.00 GiB are free in it, the largest block has 1.00 GiB, "
        "and the device has 3.00 GiB more"
    )


def test_a_failure_names_the_line_that_requested_it():
    """The stack of a failure has no other bytes."""
    log = BinaryLog(chunk_bytes=65536)
    stack = log.stack(("mosaic", "/home/ann/photos.py", 31), ("main", "/home/ann/photos.py", 40))
    log.add(1, ALLOCATE, 4096, MIB, log.stack(("step", "/home/ann/train.py", 88)))
    log.add(5 * SECOND, FAILURE, 0, 4 * GIB, stack)
    log.pool(5 * SECOND + 1, OOM, 14 * GIB, 9 * GIB, report=FULL | {"largest_free": GIB})
    done = tarn_tool("report", "-", "-o", "-", input=log.bytes())
    (block,) = blocks(done.stdout.encode())
    (one,) = [one for one in block["findings"] if one["rule"] == "F7"]
    assert one["evidence"][0] == "requested by ann/photos.py:31 mosaic"
    wanted = [("main", "/home/ann/photos.py", 40), ("mosaic", "/home/ann/photos.py", 31)]
    assert path_of(block, one["node"]) == wanted
    assert path_of(block, block["failures"][0]["node"]) == wanted


def test_an_allocation_that_is_tried_again_is_one_finding():
    """Numba frees what it can, and tries again from another line."""
    log = BinaryLog(chunk_bytes=65536)
    log.add(1, ALLOCATE, 4096, MIB)
    for number, time in enumerate((SECOND, SECOND + 31_000, SECOND + 60_000, 5 * SECOND)):
        library = ("memalloc", "/usr/lib/python3/site-packages/numba_cuda/d.py", 7 + number)
        stack = log.stack(library, ("load", LOAD, 12))
        log.add(time, FAILURE, 0, 4 * GIB, stack)
        log.pool(time + 1, OOM, 14 * GIB, 0, report=FULL | {"unfenced": 2 * GIB})
    again, last = sorted(findings(log.bytes())["F7"], key=lambda one: one["time"])
    assert again["evidence"][-1] == "it failed 3 times, within a second of each other"
    assert not any("times" in line for line in last["evidence"])


def attempts(requests):
    """The attempts of each failure in the page, of requests (time, size, stream, thread, line)."""
    log = BinaryLog(chunk_bytes=65536)
    for time, size, stream, thread, line in requests:
        stack = log.stack(("step", "/home/ann/train.py", line))
        log.add(time, FAILURE, 0, size, stack, stream)
        log.pool(time + 1, OOM, 14 * GIB, 0, report=FULL | {"requested": size})
        log.flush(thread)
    done = tarn_tool("report", "-", "-o", "-", input=log.bytes())
    (block,) = blocks(done.stdout.encode())
    assert block["meta"]["failures"] == len(requests)
    return [one["fields"]["failed_attempts"] for one in block["failures"]], done.stdout


def test_a_request_that_is_retried_twice_is_one_card():
    counts, page = attempts([(SECOND + 40_000 * i, 4 * GIB, 7, 1, 88) for i in range(3)])
    assert counts == [3]
    assert page.count("<h3>Out of memory") == 1 and "it failed 3 times." in page


@pytest.mark.parametrize(
    "other",
    [
        (SECOND + 1000, 4 * GIB, 8, 1, 88),
        (SECOND + 1000, 3 * GIB, 7, 1, 88),
        (SECOND + 1000, 4 * GIB, 7, 2, 88),
        (SECOND + 1000, 4 * GIB, 7, 1, 90),
        (3 * SECOND, 4 * GIB, 7, 1, 88),
    ],
    ids=["stream", "size", "thread", "line", "time"],
)
def test_another_request_is_a_card_of_its_own(other):
    counts, page = attempts([(SECOND, 4 * GIB, 7, 1, 88), other])
    assert counts == [1, 1]
    assert page.count("<h3>Out of memory") == 2 and "it failed" not in page


def test_failures_are_one_of_two_rows_and_all_are_counted():
    log = BinaryLog(chunk_bytes=65536)
    for number in range(40):
        log.add(number * SECOND, FAILURE, 0, 4 * GIB)
        log.pool(number * SECOND + 1, OOM, 14 * GIB, 0, report=FULL | {"unfenced": 2 * GIB})
        log.flush()
    done = tarn_tool("report", "-", "-o", "-", input=log.bytes())
    (block,) = blocks(done.stdout.encode())
    assert block["meta"]["failures"] == 40
    assert [one["time"] // SECOND for one in block["failures"]] == [*range(16), *range(24, 40)]
    assert all(one["fields"]["unfenced"] == 2 * GIB for one in block["failures"])
    assert "2 first" not in done.stdout and "16 of 40 failures" in done.stdout
    assert [one["rule"] for one in block["findings"]] == ["F7"] * 3
    assert block["findings"][2]["evidence"][-1] == "29 more like this"


# --- pools ------------------------------------------------------------------------------


def busy(log, seconds=2, frees=NONE):
    """Rows enough for the rules, of one site."""
    stack = log.stack(("step", "/home/ann/train.py", 88))
    for number in range(100):
        time = 1 + number * seconds * SECOND // 100
        log.add(time, ALLOCATE, 4096, MIB, stack)
        log.add(time + MS, FREE, 4096, MIB, stack, stream=frees)
    log.flush()


def tiled(*parts, base=1 << 40):
    """Blocks one behind another, of (bytes, state) or (bytes, state, requested, stream)."""
    found, at = [], base
    for size, state, *more in parts:
        requested, stream = (*more, *(0, 0)[len(more) :])
        found.append((at, size, requested, stream, base, state))
        at += size
    return found


def snapshot(parts, cause=SNAPSHOT, later=None, **options):
    log = BinaryLog(chunk_bytes=65536)
    busy(log, **options)
    reserved = sum(size for size, state, *_ in parts if state != UNMAPPED)
    log.pool(3 * SECOND, cause, reserved, 0, tiled(*parts), report=FULL if cause == OOM else None)
    log.flush()
    if later is not None:
        log.pool(4 * SECOND, later, reserved, 0)
    return log.bytes()


PIECES = [(512 * MIB, COMPLETED), (MIB, LIVE)] * 6
WHOLE = [(3 * GIB, COMPLETED), (MIB, LIVE)]


def test_a_pool_in_pieces_that_grows_is_fragmented():
    (one,) = findings(snapshot(PIECES, later=GROWTH))["F8"]
    assert "3.00 GiB in all, the largest block has 512 MiB" in one["sentence"]
    assert sum("in the way" in line for line in one["evidence"]) == 3
    assert one["evidence"][-1] == "without them one block would have 2.00 GiB"


@pytest.mark.parametrize("parts, later", [(PIECES, None), (WHOLE, GROWTH)])
def test_a_pool_in_one_piece_or_without_need_is_not_fragmented(parts, later):
    assert "F8" not in findings(snapshot(parts, later=later))


def reserving(seconds, device_free):
    log = BinaryLog(chunk_bytes=65536)
    report = FULL | {"device_free": device_free, "device_total": 16 * GIB}
    log.pool(1, OOM, 8 * GIB, 0, report=report)
    log.flush()
    busy(log, seconds=seconds)
    return log.bytes()


def test_reserved_memory_that_nobody_uses_on_a_full_device_is_found():
    (one,) = findings(reserving(100, GIB))["F9"]
    assert "8.00 GiB that it does not use" in one["sentence"]


@pytest.mark.parametrize("seconds, device_free", [(100, 8 * GIB), (30, GIB)])
def test_reserved_memory_on_an_empty_device_or_for_a_short_time_is_not_found(seconds, device_free):
    assert "F9" not in findings(reserving(seconds, device_free))


@pytest.mark.parametrize("asked, count, fires", [(3, 200, True), (4, 200, False), (1, 80, False)])
def test_rounding_is_found_where_many_blocks_round_up_much(asked, count, fires):
    parts = [(4 * MIB, LIVE, asked * MIB)] * count
    if asked == 3:
        parts = parts * 2
    assert ("F10" in findings(snapshot(parts))) == fires


@pytest.mark.parametrize("frees, stream, fires", [(NONE, 0, True), (7, 0, False), (NONE, 7, False)])
def test_frees_without_a_stream_are_found_where_memory_waits_for_them(frees, stream, fires):
    parts = [(GIB, UNFENCED, 0, stream), (GIB, COMPLETED)]
    found = findings(snapshot(parts, frees=frees))
    assert ("F11" in found) == fires
    if fires:
        assert "1.00 GiB of 2.00 GiB free bytes wait" in found["F11"][0]["evidence"][1]


# --- F12 --------------------------------------------------------------------------------


def workers(tmp_path, peaks, failures=(), commands=None):
    """The findings of each of several processes."""
    paths = []
    for number, peak in enumerate(peaks):
        command = commands[number] if commands else "python train.py"
        log = BinaryLog(chunk_bytes=65536, pid=100 + number, command=command, gpu0="GPU-7")
        stack = log.stack(("load", "/home/ann/data.py", 12 + number))
        log.add(1, ALLOCATE, 4096, peak, stack)
        if number in failures:
            log.add(2, FAILURE, 0, GIB, stack)
        log.add(3, FREE, 4096)
        paths.append(tmp_path / f"{number}.tlog")
        paths[-1].write_bytes(log.bytes())
    done = tarn_tool("report", *paths, "-o", "-")
    assert done.returncode == 0, done.stderr
    return [
        [one for one in block["findings"] if one["rule"] == "F12"]
        for block in blocks(done.stdout.encode())
    ]


def test_one_worker_with_a_larger_peak_is_found_with_its_site(tmp_path):
    found = workers(tmp_path, [4 * GIB, 4 * GIB, 9 * GIB, 4 * GIB])
    assert [len(one) for one in found] == [0, 0, 1, 0]
    assert "a peak of 9.00 GiB; the median of 4 is 4.00 GiB" in found[2][0]["sentence"]
    assert found[2][0]["evidence"][1].startswith("ann/data.py load: 9.00 GiB")


def test_one_worker_that_fails_alone_is_found(tmp_path):
    found = workers(tmp_path, [4 * GIB] * 3, failures=[1])
    assert [len(one) for one in found] == [0, 1, 0]


def test_workers_that_are_alike_few_or_of_other_commands_are_not_found(tmp_path):
    for peaks, options in (
        ([10 * GIB, 10 * GIB, 12 * GIB], {}),
        ([4 * GIB, 9 * GIB], {}),
        ([4 * GIB, 4 * GIB, 9 * GIB], {"commands": ["a", "a", "b"]}),
        ([4 * GIB] * 3, {"failures": [0, 1]}),
    ):
        assert workers(tmp_path, peaks, **options) == [[] for _ in peaks]
