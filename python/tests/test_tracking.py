"""The tracker: outstanding allocations, and the call stacks of Python and of native threads."""

import gc
import linecache
import os
import sys
import threading

import native_thread
import pytest
import tarn
from cli_tool import tarn_tool
from tarn import _tarn, _tracking, mr


@pytest.fixture
def tracker():
    return mr.TrackingResourceAdaptor(mr.CudaMemoryResource(), capture_stacks=True)


def make(mr, size=1000):
    return tarn.DeviceBuffer(size=size, mr=mr)


def frames(tracker):
    """Return function, file and line of the frames of the only block, the innermost first."""
    ((_, _, stack),) = _tarn._tracker_blocks(tracker)
    return [frame[:3] for frame in _tarn._stack_frames(stack)]


class Maker:
    def method(self, tracker):
        return make(tracker)


def test_the_text_of_a_block_is_that_of_a_traceback(tracker):
    kept, line = Maker().method(tracker), sys._getframe().f_lineno
    text = tracker.get_outstanding_allocations_str().splitlines()
    assert text[0] == f"{kept.ptr:#x}: 1000 B"
    method = Maker.method.__code__.co_firstlineno + 1
    lines = [(line, "test_the_text_of_a_block_is_that_of_a_traceback"),
             (method, "Maker.method"), (make.__code__.co_firstlineno + 1, "make")]  # fmt: skip
    wanted = []
    for line, name in lines:
        wanted.append(f'  File "{__file__}", line {line}, in {name}')
        wanted.append(f"    {linecache.getline(__file__, line).strip()}")
    assert text[-6:] == wanted
    assert len(text) > 7 and all(each.startswith("  ") for each in text[1:])


def test_the_frames_are_those_of_the_interpreter(tracker):
    kept = [make(tracker)]
    line = sys._getframe().f_lineno - 1
    wanted = [("make", __file__, make.__code__.co_firstlineno + 1)]
    frame = sys._getframe()
    while frame:
        lineno = line if frame is sys._getframe() else frame.f_lineno
        wanted.append((frame.f_code.co_qualname, frame.f_code.co_filename, lineno))
        frame = frame.f_back
    found = frames(tracker)
    assert len(found) == min(64, len(wanted)) and found == wanted[:64]
    kept.clear()


def recurse(calls, function, *args):
    return recurse(calls - 1, function, *args) if calls else function(*args)


@pytest.mark.parametrize("depth", [1, 5, 128])
def test_a_stack_has_at_most_its_depth(depth):
    tracker = mr.TrackingResourceAdaptor(
        mr.CudaMemoryResource(), capture_stacks=True, stack_depth=depth
    )
    kept = recurse(200, make, tracker)
    found = frames(tracker)
    assert len(found) == depth and found[0][0] == "make"
    assert all(name == "recurse" for name, _, _ in found[1:])
    del kept


def test_equal_stacks_have_one_number(tracker):
    kept = [make(tracker) for _ in range(100)]
    other = make(tracker)
    stacks = [stack for _, _, stack in _tarn._tracker_blocks(tracker)]
    assert len(set(stacks)) == 2 and len(stacks) == 101
    del kept, other


def test_a_function_that_is_defined_again_has_its_new_lines(tracker):
    """The code objects of both have one address, file, name and first line."""
    found, addresses = [], set()
    for blank in range(50):
        names = {"make": make, "tracker": tracker}
        source = "def f():\n" + "\n" * blank + "    return make(tracker)"
        exec(compile(source, "again.py", "exec"), names)
        addresses.add(id(names["f"].__code__))
        kept = names["f"]()
        found.append(frames(tracker)[1])
        del kept
        names.clear()  # the function is in a cycle with it
    assert found == [("f", "again.py", 2 + blank) for blank in range(50)]
    assert len(addresses) < 50  # or the test shows nothing


def test_a_stack_without_capture_is_not_there():
    tracker = mr.TrackingResourceAdaptor(mr.CudaMemoryResource())
    kept = make(tracker)
    assert tracker.get_outstanding_allocations_str() == f"{kept.ptr:#x}: 1000 B\n"
    assert tracker.get_allocated_bytes() == 1000


def test_a_thread_of_python_has_its_own_stack(tracker):
    kept = []
    thread = threading.Thread(target=lambda: kept.append(make(tracker)), name="another")
    thread.start()
    thread.join()
    names = [name for name, _, _ in frames(tracker)]
    assert names[0] == "make" and "Thread.run" in names
    assert "test_a_thread_of_python_has_its_own_stack" not in names
    kept.clear()


def native_stack(depth):
    """Return the number of a stack that a thread without Python captures."""
    return native_thread.call(native_thread.LIBRARY.tarn_stack_capture, depth) & 0xFFFFFFFF


def test_a_thread_unknown_to_python_has_native_frames():
    found = _tarn._stack_frames(native_stack(16))
    assert found and all(build_id is not None for *_, build_id in found)
    assert "libc.so" in found[0][1] and found[0][2] == 0 and found[0][3] > 0
    text = "".join(_tracking._lines(native_stack(16)))
    assert f'  File "{found[0][1]}", offset {found[0][3]:#x}' in text
    assert f"build-id {found[0][4]}" in text


class Resource(mr.TrackingResourceAdaptor):
    """A class derived in Python."""

    def allocate(self, nbytes, stream=tarn.DEFAULT_STREAM):
        return super().allocate(nbytes, stream)


def test_a_derived_class_records_its_caller():
    tracker = Resource(mr.CudaMemoryResource(), capture_stacks=True)
    kept = make(tracker)
    assert [name for name, _, _ in frames(tracker)][:2] == ["Resource.allocate", "make"]
    del kept
    assert tracker.get_outstanding_allocations_str() == ""


@pytest.mark.parametrize(
    ("depth", "error"),
    [(129, tarn.InvalidArgumentError), (2**40, tarn.InvalidArgumentError),
     (-1, OverflowError), ("16", TypeError), (None, TypeError)],
)  # fmt: skip
def test_a_wrong_depth_is_an_error(depth, error):
    upstream = mr.CudaMemoryResource()
    with pytest.raises(error):
        mr.TrackingResourceAdaptor(upstream, capture_stacks=True, stack_depth=depth)


def test_a_name_that_is_no_text_does_not_matter(tracker):
    names = {"make": make, "tracker": tracker}
    exec(compile("kept = make(tracker)", "no\udcfftext", "exec"), names)
    assert frames(tracker)[1] == ("<module>", "<other>", 1)


def test_a_capture_keeps_the_exception_that_is_handled(tracker):
    try:
        raise ValueError("first")
    except ValueError:
        kept = make(tracker)
        assert str(sys.exc_info()[1]) == "first"
    del kept


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="CPython collects between instructions since 3.12"
)
def test_a_capture_runs_no_code_of_the_program(tracker):
    """Frame objects are made on the way, and the collector counts them."""
    events = []

    def collected(phase, info):
        events.append(phase)

    def quiet():
        gc.set_threshold(5)
        try:
            tracker.allocate(8)
        finally:
            gc.set_threshold(700)
        return len(events)

    gc.collect()
    gc.callbacks.append(collected)
    try:
        assert recurse(100, quiet) == 0
    finally:
        gc.callbacks.remove(collected)
    ((address, nbytes, _),) = _tarn._tracker_blocks(tracker)
    tracker.deallocate(address, nbytes)


FULL = """
import tarn
tracker = tarn.mr.TrackingResourceAdaptor(tarn.mr.CudaMemoryResource(), capture_stacks=True)
names = {"make": tarn.DeviceBuffer, "tracker": tracker}
exec("def known(): return make(size=1, mr=tracker)", names)
known, numbers = names["known"], []
for _ in range(2):
    kept = known()
    numbers += [stack for _, _, stack in tarn._tarn._tracker_blocks(tracker)]
    del kept
    for number in range(18000 if len(numbers) == 1 else 0):
        exec(compile("make(size=1, mr=tracker)", f"{number}" + "n" * 4090, "exec"), names)
assert numbers[0] == numbers[1] != 0, numbers
exec(compile("kept = make(size=1, mr=tracker)", "one more.py", "exec"), names)
text = tracker.get_outstanding_allocations_str()
assert text.endswith(": 1 B\\n  the call stack is unknown\\n"), text
names.clear()
"""


def test_a_full_table_costs_stacks_and_no_allocations(sim_process):
    sim_process(FULL)


def test_live_memory_is_summed_by_stack():
    tracker = mr.TrackingResourceAdaptor(mr.CudaMemoryResource(), capture_stacks=True)
    kept = [tarn.DeviceBuffer(size=100, mr=tracker) for _ in range(3)]
    kept += [tarn.DeviceBuffer(size=1000, mr=tracker)]
    stacks = tarn._tarn._tracker_stacks(tracker)
    assert sorted(row[1:] for row in stacks) == [(300, 3), (1000, 1)]
    assert len({row[0] for row in stacks}) == 2
    kept.clear()
    assert tarn._tarn._tracker_stacks(tracker) == []


def test_stacks_that_alternate_are_summed():
    tracker = mr.TrackingResourceAdaptor(mr.CudaMemoryResource(), capture_stacks=True)
    makers = [
        lambda: make(tracker, 1),
        lambda: make(tracker, 2),
        lambda: make(tracker, 3),
    ]
    kept = [makers[i % 5 % 3]() for i in range(100)]
    rows = [row[1:] for row in tarn._tarn._tracker_stacks(tracker)]
    assert sorted(rows) == [(40, 40), (60, 20), (80, 40)]
    del kept


def test_prefixes_that_are_rejected_leave_no_memory():
    def resident_bytes():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before, prefix = resident_bytes(), "x" * (1 << 20)
    for _ in range(100):
        with pytest.raises(TypeError):
            _tarn.log_internal([prefix, None])
    assert resident_bytes() - before < 50 << 20


# --- a log of the outstanding allocations ---


def leak_in_a_function(tracker):
    return make(tracker, 3000)


@pytest.mark.parametrize(
    ("suffix", "found"),
    [(".collapsed", "leak_in_a_function ("), (".speedscope.json", "leak_in_a_function"),
     (".json", "test_tracking.py:"), (".pickle", "leak_in_a_function"),
     (".csv", "test_tracking.py:")],
)  # fmt: skip
def test_the_live_blocks_are_exported_with_their_stacks(tracker, tmp_path, suffix, found):
    kept = [leak_in_a_function(tracker), make(tracker)]
    make(tracker, 5000)  # freed
    log, out = tmp_path / "live.tarn", tmp_path / f"live{suffix}"
    tracker.dump_log(log)
    assert tarn_tool("convert", log, "--output", out).returncode == 0
    assert found.encode() in out.read_bytes()
    assert len(kept) == 2


def test_the_log_has_the_outstanding_bytes(tracker, tmp_path):
    kept = [leak_in_a_function(tracker), make(tracker)]
    log = tmp_path / "live.tarn"
    tracker.dump_log(log)
    tracker.dump_log(str(log))  # replaces it
    out = tmp_path / "live.collapsed"
    assert tarn_tool("convert", log, "--output", out, "--at", "end").returncode == 0
    sizes = sorted(int(line.rsplit(" ", 1)[1]) for line in out.read_text().splitlines())
    assert sizes == [1000, 3000] and sum(sizes) == tracker.get_allocated_bytes()
    line = make.__code__.co_firstlineno + 1
    assert f"test_tracking.py:{line}\n" in tarn_tool("log", log).stdout
    del kept


def test_a_log_that_cannot_be_written_is_an_error(tracker, tmp_path):
    with pytest.raises(tarn.TarnError, match="No such file"):
        tracker.dump_log(tmp_path / "none" / "x.tarn")
    with pytest.raises(TypeError):
        tracker.dump_log(3)
    with pytest.raises(ValueError, match="null"):
        tracker.dump_log("a\0b")
