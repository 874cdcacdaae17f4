"""tarn.mr.to_rmm() and from_rmm(): both forms of the bridge to the real RMM.

RMM's own calls of the CUDA runtime fail on the simulator, so its resources stand on Tarn's here.
"""

import gc
import os
import shutil
import threading
import warnings
import weakref
from pathlib import Path

import pytest
import tarn
from tarn import _build, _rmm_bridge

rmm = pytest.importorskip("rmm", reason="rmm is not installed (./check installs it)")
from rmm.pylibrmm import stream as rmm_stream  # noqa: E402

CACHE = Path(__file__).resolve().parents[2] / "build" / "cache"
FORMS = pytest.mark.parametrize("compiled", [False, True], ids=["callback", "compiled"])


@pytest.fixture(autouse=True)
def cache(monkeypatch):
    """Keep the extension for other processes and runs of these tests."""
    monkeypatch.setenv("TARN_CACHE_DIR", str(CACHE))


@pytest.fixture
def untried(monkeypatch):
    """Let the next call look for the extension, as in a new process."""
    monkeypatch.setattr(_rmm_bridge, "_extension", None)


@pytest.fixture
def pool():
    return tarn.mr.PoolMemoryResource()


class Recorder(tarn.mr.DeviceMemoryResource):
    """A resource written in Python that records the arguments of its calls."""

    def __init__(self, upstream, error=None):
        super().__init__()
        self.upstream = upstream
        self.error = error
        self.calls = []

    def allocate(self, nbytes, stream):
        self.calls.append(("allocate", nbytes, stream))
        if self.error is not None:
            raise self.error
        return self.upstream.allocate(nbytes, stream)

    def deallocate(self, ptr, nbytes, stream):
        self.calls.append(("deallocate", nbytes, stream))
        self.upstream.deallocate(ptr, nbytes, stream)


# --- Tarn for RMM ---


@FORMS
def test_memory_of_the_bridge_is_memory_of_the_resource(pool, compiled):
    bridge = tarn.mr.to_rmm(pool, compiled=compiled)
    assert isinstance(bridge, rmm.mr.DeviceMemoryResource)
    assert bridge.compiled is compiled and bridge.tarn_resource is pool and bridge.reason is None
    block = bridge.allocate(1000)
    assert block % 256 == 0 and pool.statistics().live_requested == 1000
    bridge.deallocate(block, 1000)
    assert pool.statistics().live_blocks == 0


@FORMS
def test_a_device_buffer_of_rmm_allocates_from_the_resource(pool, compiled):
    buffer = rmm.DeviceBuffer(size=100, mr=tarn.mr.to_rmm(pool, compiled=compiled))
    assert buffer.ptr != 0 and pool.statistics().live_requested == 100
    del buffer
    assert pool.statistics().live_blocks == 0


@FORMS
def test_resources_of_rmm_stand_on_the_bridge(pool, compiled):
    bridge = tarn.mr.to_rmm(pool, compiled=compiled)
    limiter = rmm.mr.LimitingResourceAdaptor(bridge, 8192)
    counter = rmm.mr.StatisticsResourceAdaptor(limiter)
    buffer = rmm.DeviceBuffer(size=5000, mr=counter)
    assert counter.allocation_counts.current_bytes == 5000
    assert limiter.get_allocated_bytes() == 5120
    with pytest.raises(MemoryError, match="Exceeded memory limit"):
        counter.allocate(5000)
    assert counter.get_upstream().get_upstream() is bridge
    del buffer
    assert counter.allocation_counts.current_bytes == pool.statistics().live_requested == 0


@FORMS
def test_pools_of_rmm_stand_on_the_bridge(pool, compiled):
    bridge = tarn.mr.to_rmm(pool, compiled=compiled)
    for mr in (
        rmm.mr.PoolMemoryResource(bridge, 1 << 20, 1 << 22),
        rmm.mr.FixedSizeMemoryResource(bridge, 1 << 16, 4),
        rmm.mr.BinningMemoryResource(bridge, 10, 12),
    ):
        block = mr.allocate(1000)
        mr.deallocate(block, 1000)
        del mr
    assert pool.statistics().live_blocks == 0


@FORMS
def test_streams_arrive_as_themselves(pool, compiled):
    recorder = Recorder(pool)
    bridge = tarn.mr.to_rmm(recorder, compiled=compiled)
    own = tarn.Stream()
    known = {
        rmm_stream.Stream(own): own,
        rmm_stream.DEFAULT_STREAM: tarn.DEFAULT_STREAM,
        rmm_stream.LEGACY_DEFAULT_STREAM: tarn.LEGACY_DEFAULT_STREAM,
        rmm_stream.PER_THREAD_DEFAULT_STREAM: tarn.PER_THREAD_DEFAULT_STREAM,
    }
    for theirs, ours in known.items():
        bridge.deallocate(bridge.allocate(300, theirs), 300, theirs)
        assert recorder.calls[-2:] == [("allocate", 300, ours), ("deallocate", 300, ours)]
        assert isinstance(recorder.calls[-1][2], tarn.Stream)


@FORMS
def test_no_bytes_are_no_block(pool, compiled):
    bridge = tarn.mr.to_rmm(pool, compiled=compiled)
    assert bridge.allocate(0) == 0
    bridge.deallocate(0, 0)
    assert rmm.DeviceBuffer(size=0, mr=bridge).ptr == 0
    assert pool.statistics().live_blocks == 0


@FORMS
def test_out_of_memory_is_rmms_exception_with_the_message_of_tarn(pool, compiled):
    limiter = tarn.mr.LimitingResourceAdaptor(pool, 4096)
    bridge = tarn.mr.to_rmm(limiter, compiled=compiled)
    held = [limiter.allocate(4096)]
    with pytest.raises(MemoryError, match="out_of_memory: limiter: 1000 bytes exceed the limit"):
        bridge.allocate(1000)

    def free_some(nbytes):  # RMM calls it for rmm::out_of_memory alone
        limiter.deallocate(held.pop(), 4096)
        return True

    retrying = rmm.mr.FailureCallbackResourceAdaptor(bridge, free_some)
    retrying.deallocate(retrying.allocate(1000), 1000)
    assert held == []


@FORMS
def test_another_error_is_a_runtime_error_and_no_reason_to_retry(pool, compiled):
    bridge = tarn.mr.to_rmm(Recorder(pool, ValueError("no such thing")), compiled=compiled)
    called = []
    mr = rmm.mr.FailureCallbackResourceAdaptor(bridge, called.append)
    with pytest.raises(RuntimeError, match="no such thing"):
        mr.allocate(1000)
    assert called == []


@FORMS
def test_a_failed_free_goes_to_the_unraisable_hook(pool, compiled, unraisable):
    bridge = tarn.mr.to_rmm(pool, compiled=compiled)
    bridge.deallocate(0x123400, 1000)
    assert "0x123400 is not a live allocation" in str(unraisable.pop())
    assert unraisable == []


@FORMS
def test_the_bridge_keeps_the_resource_alive_and_no_longer(compiled):
    class Pool(tarn.mr.PoolMemoryResource):
        pass

    pool = Pool()
    gone = weakref.ref(pool)
    bridge = tarn.mr.to_rmm(pool, compiled=compiled)
    counter = rmm.mr.StatisticsResourceAdaptor(bridge)
    buffer = rmm.DeviceBuffer(size=100, mr=counter)
    del pool, bridge, counter
    gc.collect()
    assert gone() is not None and gone().statistics().live_requested == 100
    del buffer
    gc.collect()
    assert gone() is None


@FORMS
def test_the_collector_ends_a_cycle_of_a_bridge_and_its_buffer(pool, compiled):
    class Owner:
        pass

    owner = Owner()
    owner.itself = owner
    owner.mr = tarn.mr.to_rmm(pool, compiled=compiled)
    owner.buffer = rmm.DeviceBuffer(size=100, mr=owner.mr)
    del owner
    assert pool.statistics().live_blocks == 1
    gc.collect()
    assert pool.statistics().live_blocks == 0


@FORMS
def test_threads_share_a_bridge(pool, compiled, quick_switches):
    bridge = tarn.mr.StatisticsResourceAdaptor(pool)
    counter = rmm.mr.StatisticsResourceAdaptor(tarn.mr.to_rmm(bridge, compiled=compiled))
    failed = []

    def work(size):
        try:
            for _ in range(100):
                buffers = [rmm.DeviceBuffer(size=size, mr=counter) for _ in range(3)]
                del buffers
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(1000 * (i + 1),)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert counter.allocation_counts.total_count == 8 * 3 * 100
    assert counter.allocation_counts.current_bytes == pool.statistics().live_requested == 0


@FORMS
def test_rmm_may_hold_the_gil_while_another_thread_that_needs_it_blocks_the_pool(compiled):
    """The constructor of RMM's pool allocates with the GIL; the upstream of Tarn's needs it."""
    inside, entered = threading.Event(), threading.Event()

    class Slow(tarn.mr.UpstreamResourceAdaptor):
        def allocate(self, nbytes, stream):
            entered.set()
            inside.wait(0.2)  # the pool's lock of growth is held
            return super().allocate(nbytes, stream)

        def deallocate(self, ptr, nbytes, stream):
            super().deallocate(ptr, nbytes, stream)

    pool = tarn.mr.PoolMemoryResource(Slow(tarn.mr.CudaMemoryResource()))
    bridge = tarn.mr.to_rmm(pool, compiled=compiled)
    blocks = []
    other = threading.Thread(target=lambda: blocks.append(pool.allocate(1 << 20)))
    other.start()
    entered.wait()
    theirs = rmm.mr.PoolMemoryResource(bridge, 1 << 20)
    other.join()
    del theirs
    pool.deallocate(blocks.pop(), 1 << 20)


AT_EXIT = """
import tarn, rmm
pool = tarn.mr.PoolMemoryResource()
bridge = tarn.mr.to_rmm(pool, compiled={compiled})
rmm.mr.set_per_device_resource(0, rmm.mr.StatisticsResourceAdaptor(bridge))
kept = rmm.DeviceBuffer(size=1000, mr=rmm.mr.get_per_device_resource(0))
cycle = [kept]
cycle.append(cycle)
del kept
live = pool.statistics().live_requested
del pool, bridge
print(live)
"""


@FORMS
def test_the_current_resource_of_rmm_may_be_a_bridge_until_the_process_ends(sim_process, compiled):
    assert sim_process(AT_EXIT.format(compiled=compiled)) == "1000"


@FORMS
def test_memory_of_a_resource_written_in_python_may_live_until_the_process_ends(
    sim_process, compiled
):
    code = AT_EXIT.replace(
        "bridge =",
        """
class Own(tarn.mr.UpstreamResourceAdaptor):
    def allocate(self, nbytes, stream):
        return super().allocate(nbytes, stream)
    def deallocate(self, ptr, nbytes, stream):
        super().deallocate(ptr, nbytes, stream)
bridge =""",
    ).replace("to_rmm(pool,", "to_rmm(Own(pool),")
    assert sim_process(code.format(compiled=compiled)) == "1000"


# --- RMM for Tarn ---


@pytest.fixture
def theirs(pool):
    """A resource of RMM that works on the simulator, and that counts."""
    return rmm.mr.StatisticsResourceAdaptor(tarn.mr.to_rmm(pool, compiled=False))


@FORMS
def test_a_pool_of_tarn_stands_on_a_resource_of_rmm(theirs, compiled):
    upstream = tarn.mr.from_rmm(theirs, compiled=compiled)
    assert upstream.compiled is compiled and upstream.rmm_resource is theirs
    assert upstream.device == 0
    own = tarn.mr.PoolMemoryResource(upstream)
    block = own.allocate(1000)
    assert theirs.allocation_counts.current_bytes == own.statistics().reserved > 0
    own.deallocate(block, 1000)
    own.trim()
    assert theirs.allocation_counts.current_bytes == 0


@FORMS
def test_a_pool_of_tarn_stands_on_a_resource_of_rmm_that_ignores_alignments(pool, compiled):
    def allocate(nbytes, stream):
        return pool.allocate(nbytes + 256, stream) + 256

    def deallocate(ptr, nbytes, stream):
        pool.deallocate(ptr - 256, nbytes + 256, stream)

    mr = rmm.mr.CallbackMemoryResource(allocate, deallocate)
    own = tarn.mr.PoolMemoryResource(tarn.mr.from_rmm(mr, compiled=compiled))
    blocks = [own.allocate(1 << 20) for _ in range(4)]
    for block in blocks:
        own.deallocate(block, 1 << 20)
    del own
    assert pool.statistics().live_blocks == 0


@FORMS
def test_a_resource_of_rmm_can_be_tarns_current_one(theirs, compiled):
    tarn.mr.set_current_device_resource(tarn.mr.from_rmm(theirs, compiled=compiled))
    buffer = tarn.DeviceBuffer(size=300)
    assert theirs.allocation_counts.current_bytes == 300
    del buffer
    assert theirs.allocation_counts.current_bytes == 0
    assert tarn.mr.get_current_device_resource().allocate(0) == 0


@FORMS
def test_streams_arrive_at_rmm_as_themselves(pool, compiled):
    seen = []

    def allocate(nbytes, stream):
        seen.append(tarn.Stream(stream))
        return pool.allocate(nbytes, stream)

    mr = rmm.mr.CallbackMemoryResource(allocate, pool.deallocate)
    upstream = tarn.mr.from_rmm(mr, compiled=compiled)
    own = tarn.Stream()
    for stream in (
        own,
        tarn.DEFAULT_STREAM,
        tarn.LEGACY_DEFAULT_STREAM,
        tarn.PER_THREAD_DEFAULT_STREAM,
    ):
        upstream.deallocate(upstream.allocate(300, stream), 300, stream)
        assert seen.pop() == stream
    upstream.deallocate(upstream.allocate(300, tarn.NO_STREAM), 300, tarn.NO_STREAM)
    assert seen.pop() in (tarn.DEFAULT_STREAM, tarn.LEGACY_DEFAULT_STREAM)


@FORMS
def test_errors_of_rmm_are_errors_of_tarn(pool, compiled):
    limiter = tarn.mr.from_rmm(
        rmm.mr.LimitingResourceAdaptor(tarn.mr.to_rmm(pool, compiled=False), 4096), compiled
    )
    own = tarn.mr.StatisticsResourceAdaptor(limiter)
    with pytest.raises(MemoryError, match="Exceeded memory limit"):
        own.allocate(5000)

    def fail(nbytes, stream):
        raise ValueError("no such thing")

    own = tarn.mr.StatisticsResourceAdaptor(
        tarn.mr.from_rmm(rmm.mr.CallbackMemoryResource(fail, fail), compiled)
    )
    with pytest.raises(RuntimeError, match="no such thing"):
        own.allocate(1000)
    assert own.allocation_counts.total_count == 0


@FORMS
def test_the_resource_of_tarn_keeps_that_of_rmm_alive_and_no_longer(pool, compiled):
    class Theirs(rmm.mr.CallbackMemoryResource):
        pass

    mr = Theirs(pool.allocate, pool.deallocate)
    gone = weakref.ref(mr)
    own = tarn.mr.PoolMemoryResource(tarn.mr.from_rmm(mr, compiled=compiled))
    block = own.allocate(1000)
    del mr
    gc.collect()
    assert gone() is not None
    own.deallocate(block, 1000)
    del own
    gc.collect()
    assert gone() is None and pool.statistics().live_blocks == 0


def test_an_uninitialised_resource_of_rmm_is_rejected():
    _load_or_skip()
    with pytest.raises(ValueError, match="is not initialised"):
        tarn.mr.from_rmm(rmm.mr.DeviceMemoryResource(), compiled=True)


# --- both ---


@FORMS
def test_two_bridges_in_a_row_are_none(pool, theirs, compiled):
    assert tarn.mr.from_rmm(tarn.mr.to_rmm(pool, compiled), compiled) is pool
    assert tarn.mr.to_rmm(tarn.mr.from_rmm(theirs, compiled), compiled) is theirs


def test_the_wrong_library_is_a_type_error_that_names_the_call(pool, theirs):
    for call in (
        tarn.mr.PoolMemoryResource,
        tarn.mr.StatisticsResourceAdaptor,
        tarn.mr.set_current_device_resource,
        tarn.mr.to_rmm,
        lambda mr: tarn.DeviceBuffer(size=8, mr=mr),
    ):
        with pytest.raises(TypeError, match=r"tarn\.mr\.from_rmm\(\) converts a resource of RMM"):
            call(theirs)
    with pytest.raises(TypeError, match="is not a tarn.mr.DeviceMemoryResource$"):
        tarn.mr.PoolMemoryResource(3)
    for wrong in (pool, 3):
        with pytest.raises(TypeError, match="is not a rmm.mr.DeviceMemoryResource"):
            tarn.mr.from_rmm(wrong)


def test_the_error_of_rmm_names_the_class_of_tarn(pool):
    with pytest.raises(TypeError, match=r"got tarn\.mr\.PoolMemoryResource"):
        rmm.mr.StatisticsResourceAdaptor(pool)


# --- the choice of the form ---


def _load_or_skip():
    assert tarn.mr.to_rmm(tarn.mr.PoolMemoryResource(), compiled=True).compiled


def test_the_extension_is_the_default_where_it_can_be_compiled(pool):
    assert tarn.mr.to_rmm(pool).compiled
    assert tarn.mr.from_rmm(rmm.mr.StatisticsResourceAdaptor(tarn.mr.to_rmm(pool))).compiled


@pytest.mark.skipif(shutil.which("clang++") is None, reason="there is no clang++")
def test_clang_compiles_the_extension_as_well(sim_process):
    code = """
import rmm, tarn
bridge = tarn.mr.to_rmm(tarn.mr.LimitingResourceAdaptor(tarn.mr.CudaMemoryResource(), 4096), True)
bridge.deallocate(bridge.allocate(1000), 1000)
try:
    rmm.mr.FailureCallbackResourceAdaptor(bridge, print).allocate(5000)
except MemoryError:
    print("end")
"""
    assert sim_process(code, CXX="clang++").split() == ["5000", "end"]


def test_without_a_compiler_callbacks_are_the_default_and_the_reason_is_there(
    pool, untried, monkeypatch
):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bridge = tarn.mr.to_rmm(pool)
    assert not bridge.compiled and "C++ compiler is missing" in bridge.reason
    assert not tarn.mr.from_rmm(rmm.mr.StatisticsResourceAdaptor(bridge)).compiled
    for call in (tarn.mr.to_rmm, lambda mr, compiled: tarn.mr.from_rmm(theirs, compiled)):
        theirs = rmm.mr.StatisticsResourceAdaptor(bridge)
        with pytest.raises(RuntimeError, match="CXX=no-such-compiler not found"):
            call(pool, compiled=True)


@pytest.mark.parametrize("header", ["Python.h", "rmm/resource_ref.hpp", "cuda_runtime_api.h"])
def test_without_a_header_the_message_names_it(pool, untried, monkeypatch, header):
    find = _build.find_header

    def find_others(name, folders, hint):
        return find(name, [] if name == header else folders, hint)

    monkeypatch.setattr(_build, "find_header", find_others)
    with pytest.raises(RuntimeError, match=f"the header {header} is missing: install"):
        tarn.mr.to_rmm(pool, compiled=True)
    assert header in tarn.mr.to_rmm(pool).reason


def test_another_layout_of_rmms_objects_is_no_extension(pool, untried, monkeypatch):
    monkeypatch.setattr(_rmm_bridge, "_RMM_OBJECT_BYTES", 40)
    with pytest.raises(RuntimeError, match=r"RMM 26\.10 is missing: .* 56 bytes, not 40"):
        tarn.mr.to_rmm(pool, compiled=True)
    assert not tarn.mr.to_rmm(pool).compiled


def test_a_forked_child_finds_no_lock_of_its_parents_threads():
    with _rmm_bridge._lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if _rmm_bridge._lock.acquire(blocking=False) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_compiler_that_fails_is_warned_of(pool, untried, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "g++ -fno-such-option")
    with pytest.warns(RuntimeWarning, match="fno-such-option"):
        bridge = tarn.mr.to_rmm(pool)
    assert not bridge.compiled and "fno-such-option" in bridge.reason
    with pytest.raises(RuntimeError, match="fno-such-option"):
        tarn.mr.to_rmm(pool, compiled=True)


def test_a_file_that_does_not_load_is_an_error(pool, untried, monkeypatch, tmp_path):
    (tmp_path / "tarn_rmm.so").write_bytes(b"nothing")
    monkeypatch.setattr(_build, "build", lambda *args, **more: tmp_path / "tarn_rmm.so")
    with pytest.raises(RuntimeError, match=r"tarn_rmm\.so cannot be loaded"):
        tarn.mr.to_rmm(pool, compiled=True)


def test_without_rmm_both_calls_are_an_import_error(sim_process):
    code = """
import sys
sys.modules["rmm"] = None
import tarn
for call in (tarn.mr.to_rmm, tarn.mr.from_rmm):
    try:
        call(tarn.mr.CudaMemoryResource())
    except ImportError as error:
        print(error.name.partition(".")[0])
"""
    assert sim_process(code).split() == ["rmm", "rmm"]


def test_the_import_of_tarn_imports_no_rmm(sim_process):
    assert sim_process("import sys, tarn.mr; print('rmm' in sys.modules)") == "False"
