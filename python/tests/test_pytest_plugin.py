"""The plugin for pytest: limits on the GPU memory of a test."""

import os
import subprocess
import sys

import pytest

pytest_plugins = ["pytester"]

ON_SIM = {"TARN_DRIVER": "sim"}
BEGIN = """
import gc, pytest, tarn
def block(size):
    return tarn.DeviceBuffer(size=size)
kept = []
"""


@pytest.fixture
def run(pytester):
    """Run tests in a process of their own, on the simulator; return the result."""

    def run(code, *options, begin=BEGIN, **environment):
        pytester.makepyfile(test_it=begin + code)
        for name, value in {**ON_SIM, **environment}.items():
            pytester._monkeypatch.setenv(name, value)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *options)

    return run


def text_of(result):
    return "\n".join(result.outlines)


def test_a_test_within_its_limits_passes(run):
    result = run("""
@pytest.mark.limit_gpu_memory("1 MiB")
@pytest.mark.limit_gpu_leaks("0 B")
def test_good():
    a = block(1 << 20)
    del a
    b = block(1 << 20)

@pytest.mark.limit_gpu_memory(100)
def test_bytes():
    block(100)
""")
    result.assert_outcomes(passed=2)


def test_a_peak_above_the_limit_fails_with_the_blocks_and_their_lines(run):
    result = run("""
def helper():
    return block(3 << 20)

@pytest.mark.limit_gpu_memory("4 MiB")
def test_big():
    a = block(1 << 20)
    b = helper()
    c = block(1 << 20)
    del c
""")
    result.assert_outcomes(failed=1)
    text = text_of(result)
    assert "the test used 5.00 MiB of GPU memory at its peak, and its limit is 4.00 MiB" in text
    assert "3.00 MiB in 1 block, allocated at" in text
    assert "line 12, in test_big" in text and "line 7, in helper" in text
    assert text.index("in test_big") < text.index("in helper")
    assert "1.00 MiB in 1 block" in text
    assert text.count("_pytest/python.py") == 0


def test_memory_from_before_the_test_does_not_count(run):
    result = run("""
kept.append(block(8 << 20))

@pytest.mark.limit_gpu_memory("1 MiB")
@pytest.mark.limit_gpu_leaks("0 B")
def test_frees_and_allocates():
    a = block(1 << 20)
    kept.clear()
""")
    result.assert_outcomes(passed=1)


def test_what_is_live_at_the_end_fails_with_its_stack(run):
    result = run("""
@pytest.mark.limit_gpu_leaks("0 B")
def test_keeps():
    kept.append(block(1000))
    for _ in range(3):
        kept.append(block(500))

@pytest.mark.limit_gpu_leaks("0 B")
def test_cycle():
    class Node: pass
    node = Node()
    node.itself, node.block = node, block(1000)

@pytest.mark.limit_gpu_leaks("1 KiB")
def test_keeps_little():
    kept.append(block(1000))

@pytest.mark.limit_gpu_leaks("1000 B")
def test_each_place_has_the_limit():
    kept.append(block(600))
    kept.append(block(600))
""")
    result.assert_outcomes(failed=1, passed=3)
    text = text_of(result)
    assert "2.44 KiB of GPU memory are live at the end of the test, at 2 places" in text
    assert "1.46 KiB in 3 blocks, allocated at" in text and "1000 B in 1 block" in text
    assert "line 10, in test_keeps" in text


def test_limits_apply_in_a_process_that_writes_a_log(run, tmp_path):
    path = tmp_path / "log.csv"
    result = run("""
@pytest.mark.limit_gpu_leaks("1 KiB")
def test_keeps():
    kept.append(block(2048))
""", TARN_LOG=str(path), TARN_LOG_STACKS="1")  # fmt: skip
    result.assert_outcomes(failed=1)
    assert "block" in text_of(result) and ",2048," in path.read_text()


def test_a_filter_sees_the_stack_and_leaves_blocks_out(run):
    result = run("""
def cache():
    kept.append(block(1000))

def is_ours(stack):
    return not any(frame.function == "cache" for frame in stack.frames)

@pytest.mark.limit_gpu_leaks("0 B", filter_fn=is_ours)
def test_cached():
    cache()

@pytest.mark.limit_gpu_leaks("0 B", filter_fn=is_ours)
def test_not_cached():
    cache()
    kept.append(block(10))
""")
    result.assert_outcomes(failed=1, passed=1)
    assert "10 B of GPU memory are live" in text_of(result)


def test_warm_up_runs_do_not_count(run):
    code = """
runs = []
@pytest.mark.limit_gpu_leaks("0 B", WARMUPS)
def test_fills_a_cache():
    runs.append(1)
    if not kept:
        kept.append(block(1000))

def test_count():
    assert len(runs) == RUNS
"""
    result = run(code.replace("WARMUPS", "warmups=2").replace("RUNS", "3"))
    result.assert_outcomes(passed=2)
    result = run(code.replace("WARMUPS", "warmups=0").replace("RUNS", "1"))
    result.assert_outcomes(failed=1, passed=1)


def test_the_failure_of_a_test_is_its_own(run):
    result = run("""
@pytest.mark.limit_gpu_memory("0 B")
def test_wrong():
    kept.append(block(10))
    assert 1 == 2
""")
    result.assert_outcomes(failed=1)
    text = text_of(result)
    assert "assert 1 == 2" in text and "limit_gpu_memory: the test" not in text


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("limit_gpu_memory()", "limit_gpu_memory: "),
        ("limit_gpu_memory('lots')", "limit_gpu_memory: Could not parse 'lots'"),
        ("limit_gpu_memory(-1)", "limit_gpu_memory: -1 is less than 0 bytes"),
        ("limit_gpu_memory(None)", "limit_gpu_memory: None is no number of bytes"),
        ("limit_gpu_leaks(1, warmups=-1)", "limit_gpu_leaks: warmups is -1"),
        ("limit_gpu_leaks(1, colour='red')", "limit_gpu_leaks: "),
    ],
)
def test_wrong_arguments_fail_the_test(run, mark, message):
    result = run(f"@pytest.mark.{mark}\ndef test_it(): pass\n", "--strict-markers")
    result.assert_outcomes(failed=1)
    assert message in text_of(result)


def test_nothing_of_tarn_is_imported_without_a_marker(run):
    code = """
import sys
def test_it():
    assert not [name for name in sys.modules if name == "tarn" or name.startswith("tarn.")]
"""
    run(code, begin="import pytest").assert_outcomes(passed=1)
    marked = code + "@pytest.mark.limit_gpu_memory(1)\ndef test_other(): pass\n"
    run(marked, begin="import pytest").assert_outcomes(failed=1, passed=1)


def test_workers_of_xdist_measure_their_own_tests(run):
    result = run(
        """
@pytest.mark.parametrize("number", range(6))
@pytest.mark.limit_gpu_memory("1 MiB")
def test_it(number):
    block((1 << 20) + number % 2)
""",
        "-n", "2", "-p", "xdist",
    )  # fmt: skip
    result.assert_outcomes(passed=3, failed=3)


NUMBA = """
import pytest
from numba import cuda
kept = []
"""


def test_numbas_memory_counts(run, sim_folder):
    result = run(
        """
@pytest.mark.limit_gpu_memory("1 MiB")
def test_device():
    cuda.device_array(2 << 20, dtype="u1")

@pytest.mark.limit_gpu_leaks("0 B")
def test_pinned():
    kept.append(cuda.pinned_array(100, dtype="u1"))

@pytest.mark.limit_gpu_memory("1 MiB")
@pytest.mark.limit_gpu_leaks("0 B")
def test_good():
    a = cuda.device_array(1 << 20, dtype="u1")
""",
        begin=NUMBA,
        LD_LIBRARY_PATH=sim_folder,
    )
    result.assert_outcomes(failed=2, passed=1)
    text = text_of(result)
    assert "used 2.00 MiB of GPU memory" in text and "100 B of GPU memory are live" in text
    assert "line 7, in test_device" in text


def test_numbas_memory_counts_where_its_manager_was_used_before(run, sim_folder):
    result = run(
        """
import tarn
tarn.use()
cuda.device_array(1)

@pytest.mark.limit_gpu_leaks("0 B")
def test_managed():
    kept.append(cuda.managed_array(100, dtype="u1"))
""",
        begin=NUMBA,
        LD_LIBRARY_PATH=sim_folder,
    )
    result.assert_outcomes(failed=1)
    assert "100 B of GPU memory are live" in text_of(result)


@pytest.fixture
def sim_folder():
    import tarn

    return os.path.join(tarn.get_library_dir(), "tarn", "sim")


def test_memory_that_is_not_tarns_fails_a_limit(run, sim_folder):
    code = """
cuda.device_array(1)  # with Numba's own manager

@pytest.mark.limit_gpu_memory("1 GiB")
def test_it(): pass

def test_other(): pass
"""
    result = run(code, begin=NUMBA, LD_LIBRARY_PATH=sim_folder)
    result.assert_outcomes(failed=1, passed=1)
    text = text_of(result)
    assert "the memory of numba is not Tarn's, and cannot be counted" in text
    assert "`tarn run pytest`" in text


def test_on_numbas_simulator_a_limit_is_skipped(run):
    code = "@pytest.mark.limit_gpu_memory('1 GiB')\ndef test_it(): pass\n"
    result = run(code, "-rs", "-W", "ignore", begin=NUMBA, NUMBA_ENABLE_CUDASIM="1")
    result.assert_outcomes(skipped=1)
    assert "numba uses no GPU memory" in text_of(result)


def test_the_module_is_no_part_of_the_package():
    code = "import sys, pytest_tarn; print('tarn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
