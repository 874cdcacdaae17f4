"""`tarn report` on logs of real programs, which run on the simulator under `tarn run --log`."""

import textwrap

from cli_tool import tarn_tool
from report_logs import blocks

MIB = 1 << 20
BEGIN = """
    import time
    import tarn

    pool = tarn.mr.PoolMemoryResource(maximum_pool_size="512MiB")
    tarn.mr.set_current_device_resource(pool)

    def allocate(size):
        return tarn.DeviceBuffer(size=size)
"""


def report(tmp_path, program, *args):
    """The page of a program's log, as its data block."""
    return report_and_output(tmp_path, program, *args)[0]


def report_and_output(tmp_path, program, *args):
    """The page of a program's log, as its data block, and what the program printed."""
    path, log = tmp_path / "program.py", tmp_path / "program.tlog"
    path.write_text(textwrap.dedent(BEGIN) + textwrap.dedent(program))
    done = tarn_tool(
        "run", "--log", log, "--stacks", "8", *args, path, cwd=tmp_path, TARN_DRIVER="sim"
    )
    assert done.returncode == 0, done.stderr
    output = done.stdout
    page = tmp_path / "page.html"
    done = tarn_tool("report", log, "-o", page)
    assert done.returncode == 0, done.stderr
    (block,) = blocks(page.read_bytes())
    return block, output


def rules(block):
    return {one["rule"]: one for one in block["findings"]}


GROWS = """
    kept = []

    def step(number):
        blocks = [allocate({size}) for _ in range(4)]
        {keep}

    times = [time.monotonic()]
    while times[-1] < times[0] + 2.5:
        step(len(times))
        time.sleep(0.02)
        times.append(time.monotonic())
    print(max(after - before for before, after in zip(times, times[1:])))
"""
LONGEST_STEP = 0.15  # seconds: a window of the rule, 1/16 of the run
TRIES = 20


def rules_of_steps(tmp_path, keep):
    """The findings of a run without a pause: the machine may be busy with other work."""
    for _ in range(TRIES):
        block, output = report_and_output(tmp_path, GROWS.format(size=MIB, keep=keep))
        if float(output.split()[0]) < LONGEST_STEP:
            return rules(block)
    raise AssertionError("the program was interrupted in each run")


def test_a_program_that_keeps_its_blocks_grows_and_holds_them(tmp_path):
    found = rules_of_steps(tmp_path, "kept.append(blocks[0])")
    assert "program.py:" in found["F1"]["sentence"] and "allocate" in found["F1"]["sentence"]
    assert "held until exit" in found["F2"]["sentence"]


def test_a_program_that_drops_its_blocks_does_neither(tmp_path):
    found = rules_of_steps(tmp_path, "del blocks")
    assert not {"F1", "F2"} & set(found)


HOT = """
    end = time.monotonic() + 2.2
    while time.monotonic() < end:
        for _ in range(100):
            allocate(4096)
        time.sleep({sleep})
"""


def test_a_loop_that_allocates_all_the_time_is_hot(tmp_path):
    found = rules(report(tmp_path, HOT.format(sleep=0)))
    assert "times a second" in found["F6"]["sentence"]


def test_a_loop_that_mostly_sleeps_is_not_hot(tmp_path):
    assert "F6" not in rules(report(tmp_path, HOT.format(sleep=0.05)))


FULL = """
    logged = tarn.mr.LoggingResourceAdaptor(pool, "full.tlog", format="binary", stacks=8)
    tarn.mr.set_current_device_resource(logged)
    blocks = [allocate(60 << 20) for _ in range(8)]
    {free}
    try:
        big = allocate(300 << 20)
    except MemoryError:
        pass
"""


def failures(tmp_path, free):
    """The page of a program that asks for 300 MiB of 512 MiB, from the log of its pool."""
    report(tmp_path, FULL.format(free=free))
    done = tarn_tool("report", tmp_path / "full.dev0.tlog", "-o", "-")
    assert done.returncode == 0, done.stderr
    return blocks(done.stdout.encode())[0]


def test_a_failure_with_free_memory_has_its_cause_and_its_map(tmp_path):
    block = failures(tmp_path, "blocks = blocks[::2]")
    sentence = rules(block)["F7"]["sentence"]
    assert "300 MiB failed" in sentence and "the pool has reached its own maximum" in sentence
    (failure,) = block["failures"]
    assert (failure["fields"]["requested"], failure["fields"]["live"]) == (300 * MIB, 240 * MIB)
    ((_, _, parts),) = block["maps"][failure["map"]]["segments"]
    assert [(part[0], part[2]) for part in parts[:8]] == [(60 * MIB, 0), (60 * MIB, 2)] * 4
    assert all(part[4] >= 0 for part in parts if part[2] == 0)  # live blocks have stacks
    assert max(one["reserved"] for one in block["columns"]) == 480 * MIB


def test_a_request_that_the_program_retries_is_one_failure(tmp_path):
    left = "iter([True, True, False])"
    retries = f"""
    left = {left}
    retrying = tarn.mr.FailureCallbackResourceAdaptor(logged, lambda size: next(left))
    tarn.mr.set_current_device_resource(retrying)
    """
    block = failures(tmp_path, retries)
    assert block["meta"]["failures"] == 3
    (failure,) = block["failures"]
    assert failure["fields"]["failed_attempts"] == 3
    of_failures = [number for number, one in enumerate(block["maps"]) if one["kind"] == 1]
    assert of_failures == [failure["map"]]  # that of the last attempt, no other


def test_two_requests_of_other_sizes_are_two_failures(tmp_path):
    again = """
    try:
        allocate(301 << 20)
    except MemoryError:
        pass
    """
    block = failures(tmp_path, again)
    counts = [one["fields"]["failed_attempts"] for one in block["failures"]]
    assert (block["meta"]["failures"], counts) == (2, [1, 1])
    maps = [one["map"] for one in block["failures"]]
    assert len(set(maps)) == 2 and all(block["maps"][number]["kind"] == 1 for number in maps)


def test_a_program_whose_memory_suffices_has_no_failure(tmp_path):
    block = failures(tmp_path, "blocks.clear()")
    assert block["meta"]["failures"] == 0 and "F7" not in rules(block)


def test_the_log_of_a_program_has_its_process_and_its_stacks(tmp_path):
    block = report(tmp_path, GROWS.format(size=MIB, keep="kept.append(blocks[0])"))
    meta = block["meta"]
    assert "program.py" in meta["program"] and meta["start_unix_ns"] > 10**18
    assert (meta["is_cut"], meta["has_stacks"]) == (0, 1)
    functions = {frame[0] for frame in block["frames"]}
    assert {"step", "allocate"} <= functions
