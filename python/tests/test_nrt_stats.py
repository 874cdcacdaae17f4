"""Counters, allocation sites, tracemalloc, and memory from a resource."""

import gc
import threading
import tracemalloc

import numpy as np
import pytest
import tarn
import tarn.nrt
from nrt_process import on_tarn, python
from numba import njit
from numba.core.runtime import _nrt_python as core
from numba.core.runtime import rtsys


@njit
def keep(n):
    return np.empty(n, np.int8)


@njit
def churn(count, n):
    total = 0
    for _i in range(count):
        total += np.empty(n, np.int8).size
    return total


@pytest.fixture(autouse=True)
def warm():
    keep(8), churn(1, 8)
    assert hasattr(core, "tarn_version")
    yield
    assert tarn.nrt.debug_modes() == ()


def test_counters_are_exact_and_always_on():
    before = tarn.nrt.stats()
    churn(1000, 100)
    held = keep(100)
    after = tarn.nrt.stats()
    assert after.mi_alloc - before.mi_alloc == after.alloc - before.alloc == 1001
    assert after.mi_free - before.mi_free == after.free - before.free == 1000
    assert after.bytes_total - before.bytes_total == 100100
    assert after.bytes_live - before.bytes_live == 100
    assert after.histogram[7] - before.histogram[7] == 1001  # 64 to 127 bytes
    assert held.size == 100


def test_counters_of_threads_that_ended_are_kept():
    before = tarn.nrt.stats()
    work = njit(nogil=True)(churn.py_func)
    work(1, 8)
    threads = [threading.Thread(target=work, args=(1000, 64)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = tarn.nrt.stats()
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free == 8001


def test_what_numba_shows_is_a_view():
    assert not core.memsys_stats_enabled()
    with pytest.raises(RuntimeError, match="NRT stats are disabled."):
        rtsys.get_allocation_stats()
    core.memsys_enable_stats()
    try:
        one = rtsys.get_allocation_stats()
        churn(10, 8)
        two = rtsys.get_allocation_stats()
        assert [b - a for a, b in zip(one, two)] == [10, 10, 10, 10]
    finally:
        core.memsys_disable_stats()
    churn(10, 8)
    core.memsys_enable_stats()
    assert rtsys.get_allocation_stats() == two  # it did not change
    core.memsys_disable_stats()


def test_a_failed_allocation_is_counted_apart():
    before = tarn.nrt.stats()
    with pytest.raises(MemoryError):
        keep(2**60)
    after = tarn.nrt.stats()
    assert after.failed == before.failed + 1 and after.alloc == before.alloc


# --- allocation sites ----------------------------------------------------------------------


@njit
def one_site(n):
    return np.empty(n)


@njit
def other_site(n):
    return np.ones(n)


def test_leaks_name_the_compiled_function():
    assert gc.get_freeze_count() > 0  # also after gc.freeze(), which hides the dispatchers
    one_site(1), other_site(1)
    tarn.nrt.debug("sites")
    try:
        before = tarn.nrt.snapshot()
        held = [one_site(1000) for _ in range(3)] + [other_site(10)]
        found = tarn.nrt.leaks(before)
        assert [(site.blocks, site.bytes) for site in found] == [(3, 24000), (1, 80)]
        assert found[0].function.startswith(f"one_site ({__file__}:")
        assert found[1].function.startswith(f"other_site ({__file__}:")
        del held
        gc.collect()
        assert tarn.nrt.leaks(before) == []
    finally:
        assert tarn.nrt.debug() == ("sites",)


def test_the_report_at_exit_names_the_compiled_function(tmp_path):
    program = tmp_path / "leaky.py"
    program.write_text("""
import ctypes, sys
import numpy as np
from numba import njit

@njit
def leaky(n):
    return np.empty(n)

kept = leaky(1000)
ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept.base))
sys.exit(3)
""")
    said = python("-m", "tarn.nrt", program, code=3, TARN_NRT_DEBUG="sites,report")
    assert "at exit runtime default: 8000 bytes in 1 live blocks, from 1 sites" in said
    assert f"8000 bytes        1 blocks  leaky ({program}:6)" in said


def test_debug_modes_have_names():
    assert tarn.nrt.debug("poison", "guard") == ()
    assert tarn.nrt.debug_modes() == ("poison", "guard")
    made = keep(5)
    assert made.view(np.uint8).tolist() == [0xCB] * 5
    assert tarn.nrt.debug() == ("poison", "guard")
    with pytest.raises(tarn.InvalidArgumentError):
        tarn.nrt.debug("poisn")


def test_every_mode_has_the_number_that_c_has():
    for name, number in tarn.nrt.MODES.items():
        assert tarn._tarn.nrt_modes_parse(name) == number


def test_trim_gives_back_what_nobody_needs():
    blocks = [keep(64) for _ in range(10000)]
    del blocks
    gc.collect()
    tarn.nrt.trim()
    assert tarn.nrt.stats().bytes_live < 64 * 1000


# --- tracemalloc ---------------------------------------------------------------------------


def traced(function):
    """Return the bytes that tracemalloc attributes to `function`'s line, and its result."""
    tracemalloc.start()
    try:
        before = tracemalloc.take_snapshot()
        kept = function()
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
    return after.compare_to(before, "lineno")[0].size, kept


@pytest.mark.parametrize("size, count", [(1000000, 1), (100, 5000), (8, 5000)])
def test_tracemalloc_sees_every_block(size, count):
    kept = None  # memory of Python itself for so many arrays, measured with NumPy's own
    _plain, kept = traced(lambda: [np.lib.stride_tricks.as_strided(one) for one in [ONE] * count])
    seen, kept = traced(lambda: [keep(size) for _ in range(count)])
    assert seen >= size * count
    if count == 1:
        assert seen < size * 1.015
    assert len(kept) == count


ONE = np.zeros(1)


def test_after_tracing_small_blocks_share_memory_again():
    traced(lambda: keep(8))
    assert tarn.nrt.debug_modes() == ()


def test_tracing_keeps_the_modes_that_were_asked_for():
    tarn.nrt.debug("sites")
    tracemalloc.start()
    assert tarn.nrt.debug_modes() == ("sites", "unpooled")
    tarn.nrt.debug("poison")
    assert tarn.nrt.debug_modes() == ("poison", "unpooled")
    tracemalloc.stop()
    assert tarn.nrt.debug() == ("poison",)


def test_tracing_from_the_start_of_python_is_seen():
    program = """
import tracemalloc
import numpy as np
from numba import njit
import tarn.nrt
print(tarn.nrt.debug_modes())
tracemalloc.stop()
print(tarn.nrt.debug_modes())
"""
    assert on_tarn(program, PYTHONTRACEMALLOC="1").splitlines() == ["('unpooled',)", "()"]


# --- memory from a resource ----------------------------------------------------------------


def test_np_empty_is_pinned_memory(counted):
    pinned = tarn.mr.PinnedHostMemoryResource()
    resource = tarn.mr.StatisticsResourceAdaptor(pinned)
    tarn.nrt.use_resource(resource)
    try:
        made = keep(100000)
        assert resource.allocation_counts.current_bytes >= 100000
        made[:] = 7
        core.memsys_use_cpython_allocator()
    finally:
        tarn.nrt.use_resource(None)
    later = keep(100000)
    assert made.sum() == 700000 and later.size == 100000
    del made
    tarn.nrt.trim()
    assert resource.allocation_counts.current_bytes == 0


@njit
def grow(n):
    items = [0.5]
    for i in range(n):
        items.append(float(i))
    return len(items)


def test_lists_grow_in_memory_of_a_resource_without_realloc():
    resource = tarn.mr.StatisticsResourceAdaptor(tarn.mr.PinnedHostMemoryResource())
    tarn.nrt.use_resource(resource)
    try:
        assert grow(20000) == 20001
    finally:
        tarn.nrt.use_resource(None)
    tarn.nrt.trim()
    assert resource.allocation_counts.peak_bytes >= 160000
    assert resource.allocation_counts.current_bytes == 0


def test_a_limit_is_a_memory_error_in_compiled_code():
    limit = tarn.mr.LimitingResourceAdaptor(tarn.mr.PinnedHostMemoryResource(), 1 << 20)
    tarn.nrt.use_resource(limit)
    try:
        with pytest.raises(MemoryError):
            keep(1 << 20)
    finally:
        tarn.nrt.use_resource(None)


def test_what_is_no_resource_is_refused():
    with pytest.raises(TypeError):
        tarn.nrt.use_resource(5)


def test_a_choice_made_before_numba_is_kept():
    program = """
import tarn, tarn.nrt
resource = tarn.mr.StatisticsResourceAdaptor(tarn.mr.PinnedHostMemoryResource())
tarn.nrt.use_resource(resource)
import numpy as np
from numba import njit
made = njit(lambda: np.empty(100000))()
print(resource.allocation_counts.current_bytes >= 800000)
"""
    assert on_tarn(program, TARN_DRIVER="sim") == "True"
