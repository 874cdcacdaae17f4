"""tarn.mr: the upstream resources and the adaptors."""

import csv
import gc
import inspect
import threading

import pytest
import tarn
from tarn import mr

SOURCES = [
    mr.CudaMemoryResource,
    mr.CudaAsyncMemoryResource,
    mr.ManagedMemoryResource,
    mr.PinnedHostMemoryResource,
]


@pytest.mark.parametrize("make", SOURCES)
def test_every_source_hands_out_aligned_blocks_and_takes_them_back(make):
    resource = make()
    assert resource.device == 0
    blocks = [(resource.allocate(n), n) for n in (1, 255, 256, 257, 1 << 20)]
    assert all(block and block % 256 == 0 for block, _ in blocks)
    assert len({block for block, _ in blocks}) == len(blocks)
    for block, nbytes in blocks:
        resource.deallocate(block, nbytes)


@pytest.mark.parametrize("make", SOURCES)
def test_zero_bytes_are_address_zero(make):
    resource = make()
    assert resource.allocate(0) == 0
    resource.deallocate(0, 0)


@pytest.mark.parametrize("make", SOURCES)
def test_keywords_and_streams_are_as_in_rmm(make):
    resource, stream = make(), tarn.Stream()
    block = resource.allocate(nbytes=64, stream=stream)
    resource.deallocate(ptr=block, nbytes=64, stream=stream.handle)


@pytest.mark.parametrize("make", SOURCES)
def test_misuse_is_an_error_and_changes_nothing(make):
    resource = make()
    block = resource.allocate(1000)
    for pointer, nbytes in [(block + 256, 1000), (block, 999), (block, 0)]:
        with pytest.raises(tarn.InvalidArgumentError):
            resource.deallocate(pointer, nbytes)
    resource.deallocate(block, 1000)
    with pytest.raises(tarn.InvalidArgumentError):
        resource.deallocate(block, 1000)


def test_async_takes_sizes_in_words():
    resource = mr.CudaAsyncMemoryResource("1 MiB", release_threshold=0)
    resource.deallocate(resource.allocate(1 << 16), 1 << 16)
    shared = mr.CudaAsyncMemoryResource(use_default_pool=True)
    shared.deallocate(shared.allocate(10), 10)
    for size in ("much", "1 XB", "MiB"):
        with pytest.raises(ValueError):
            mr.CudaAsyncMemoryResource(size)
    with pytest.raises(NotImplementedError):
        mr.CudaAsyncMemoryResource(enable_fabric=True)


def test_async_is_exportable_on_a_pool_of_its_own_alone():
    resource = mr.CudaAsyncMemoryResource(enable_ipc=True)
    resource.deallocate(resource.allocate(10), 10)
    with pytest.raises(tarn.InvalidArgumentError, match="cannot be exported"):
        mr.CudaAsyncMemoryResource(enable_ipc=True, use_default_pool=True)


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(tarn.InvalidArgumentError):
        mr.CudaMemoryResource(device=99)


def test_a_resource_whose_class_forgot_to_initialise_it_says_so():
    class Forgetful(mr.CudaMemoryResource):
        def __init__(self):
            pass

    resource = Forgetful()
    assert resource.device is None
    with pytest.raises(TypeError, match="__init__"):
        resource.allocate(8)
    with pytest.raises(TypeError, match="__init__"):
        mr.LimitingResourceAdaptor(resource, 10)
    with pytest.raises(TypeError, match="__init__"):
        mr.DeviceMemoryResource().allocate(8)


def test_a_limiter_refuses_what_is_over_its_limit():
    limiter = mr.LimitingResourceAdaptor(mr.CudaMemoryResource(), allocation_limit=1024)
    block = limiter.allocate(300)
    assert limiter.get_allocated_bytes() == 512
    assert limiter.get_allocation_limit() == 1024
    with pytest.raises(tarn.OutOfMemoryError, match="1024"):
        limiter.allocate(600)
    limiter.deallocate(block, 300)
    assert limiter.get_allocated_bytes() == 0


def test_statistics_count_and_stack():
    counter = mr.StatisticsResourceAdaptor(mr.CudaMemoryResource())
    a = counter.allocate(100)
    before = counter.push_counters()
    assert (before.current_bytes, before.current_count) == (100, 1)
    b = counter.allocate(50)
    counter.deallocate(b, 50)
    counter.deallocate(a, 100)
    top = counter.pop_counters()
    assert (top.current_bytes, top.peak_bytes, top.total_bytes) == (-100, 50, 50)
    counts = counter.allocation_counts
    assert counts == (0, 0, 150, 2, 150, 2)
    assert counts.peak_bytes == 150 and counts.total_count == 2
    with pytest.raises(IndexError):
        counter.pop_counters()


def test_adaptors_stack_and_know_what_is_beneath():
    source = mr.CudaMemoryResource()
    limiter = mr.LimitingResourceAdaptor(source, 1 << 20)
    counter = mr.StatisticsResourceAdaptor(limiter)
    assert counter.upstream_mr is limiter and counter.get_upstream() is limiter
    assert limiter.upstream_mr is source
    block = counter.allocate(10)
    assert limiter.get_allocated_bytes() == 256
    counter.deallocate(block, 10)


def test_an_adaptor_keeps_its_upstream_alive():
    counter = mr.StatisticsResourceAdaptor(
        mr.LimitingResourceAdaptor(mr.CudaMemoryResource(), 1 << 20)
    )
    gc.collect()
    counter.deallocate(counter.allocate(10), 10)


def test_what_is_no_resource_is_no_upstream():
    for upstream in (None, 3, mr.CudaMemoryResource):
        with pytest.raises(TypeError):
            mr.StatisticsResourceAdaptor(upstream)


def test_a_resource_is_initialised_once():
    source = mr.CudaMemoryResource()
    with pytest.raises(ValueError):
        source.__init__()
    counter = mr.StatisticsResourceAdaptor(source)
    with pytest.raises(ValueError):
        counter.__init__(source)


def test_letting_a_resource_go_with_blocks_out_is_reported(unraisable):
    limiter = mr.LimitingResourceAdaptor(mr.CudaMemoryResource(), 1 << 20)
    block = limiter.allocate(10)
    del limiter
    assert len(unraisable) == 1 and isinstance(unraisable[0], tarn.TarnError)
    mr.CudaMemoryResource().deallocate(block, 10)


def test_the_log_has_a_line_for_each_call(tmp_path):
    logger = mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), str(tmp_path / "log.csv"))
    assert logger.get_file_name() == str(tmp_path / "log.dev0.csv")
    block = logger.allocate(100)
    logger.deallocate(block, 100)
    logger.flush()
    with open(logger.get_file_name()) as file:
        lines = file.read().splitlines()
    assert lines[0] == "Thread,Time,Action,Pointer,Size,Stream"
    assert [line.split(",")[2:] for line in lines[1:]] == [
        ["allocate", hex(block), "100", "0"],
        ["free", hex(block), "100", "0"],
    ]


def test_a_log_is_complete_when_its_logger_is_gone(tmp_path):
    logger = mr.LoggingResourceAdaptor(
        mr.CudaMemoryResource(), tmp_path / "log.csv", format="nbep7"
    )
    logger.deallocate(logger.allocate(100), 100)
    name = logger.get_file_name()
    del logger
    with open(name) as file:
        assert len(file.read().splitlines()) == 3


def locations(logger):
    logger.flush()
    with open(logger.get_file_name(), newline="") as file:
        return [row["Location"] for row in csv.DictReader(file)]


def here(lines):
    """Return the Location of the line this many lines above that of the call."""
    return f"{__file__}:{inspect.currentframe().f_back.f_lineno - lines}"


@pytest.mark.parametrize("under_a_pool", [False, True])
def test_rows_of_a_log_have_the_line_of_the_program(tmp_path, under_a_pool):
    """Of buffers and of calls; in a pool's upstream the location of the call that made it grow."""
    source = mr.CudaMemoryResource()
    logger = mr.LoggingResourceAdaptor(source, tmp_path / "log.csv", format="nbep7")
    resource = mr.PoolMemoryResource(logger) if under_a_pool else logger
    buffer = tarn.DeviceBuffer(size=100, mr=resource)
    expected = [here(1)]
    del buffer
    expected += [] if under_a_pool else [here(1)]
    block = resource.allocate(4 << 20)
    expected += [here(1)]
    resource.deallocate(block, 4 << 20)
    if under_a_pool:
        resource.trim()
    expected += [here(1)] * 2 if under_a_pool else [here(3)]
    assert locations(logger) == expected


def test_rows_of_a_log_name_a_collection(tmp_path):
    logger = mr.LoggingResourceAdaptor(
        mr.CudaMemoryResource(), tmp_path / "log.csv", format="nbep7"
    )
    gc.collect()
    cycle = [tarn.DeviceBuffer(size=100, mr=logger)]
    cycle.append(cycle)
    del cycle
    gc.collect()
    assert locations(logger) == [here(4), "<gc>"]


def test_rows_of_a_log_name_the_end_of_the_interpreter(sim_process, tmp_path):
    code = f"""
import tarn
logger = tarn.mr.LoggingResourceAdaptor(
    tarn.mr.CudaMemoryResource(), {str(tmp_path / "log.csv")!r}, format="nbep7"
)
buffer = tarn.DeviceBuffer(size=100, mr=logger)
"""
    sim_process(code)
    rows = (tmp_path / "log.dev0.csv").read_text().splitlines()[1:]
    assert [row.rpartition(",")[2] for row in rows] == ["<string>:6", "<exit>"]


def test_threads_that_grow_a_pool_over_a_logger_find_their_places(tmp_path):
    """The walk of the stack needs the GIL, while the pool holds a lock of its own."""
    logger = mr.LoggingResourceAdaptor(
        mr.CudaMemoryResource(), tmp_path / "log.csv", format="nbep7"
    )
    pool = mr.PoolMemoryResource(logger)

    def work():
        for _ in range(30):
            buffers = [tarn.DeviceBuffer(size=5 << 20, mr=pool) for _ in range(3)]
            buffers.clear()
            pool.trim()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = locations(logger)
    assert len(found) > 8 and all(place.startswith(__file__ + ":") for place in found)


def test_the_log_file_comes_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.delenv("RMM_LOG_FILE", raising=False)
    with pytest.raises(ValueError, match="RMM_LOG_FILE"):
        mr.LoggingResourceAdaptor(mr.CudaMemoryResource())
    monkeypatch.setenv("RMM_LOG_FILE", str(tmp_path / "log"))
    assert mr.LoggingResourceAdaptor(mr.CudaMemoryResource()).get_file_name().endswith("log.dev0")


def test_a_log_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(tarn.TarnError, match="nowhere") as caught:
        mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), tmp_path / "nowhere" / "log.csv")
    assert caught.value.native == 2  # ENOENT
    with pytest.raises(ValueError, match="format"):
        mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), tmp_path / "log", format="xml")


def test_threads_may_share_a_resource(counted):
    def work():
        for size in range(1, 200):
            counted.mr.deallocate(counted.mr.allocate(size), size)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted.allocations == 8 * 199


def test_available_memory_is_free_and_total():
    free, total = mr.available_device_memory()
    assert 0 < free <= total


def test_resources_print_as_what_they_are():
    assert repr(mr.CudaMemoryResource()) == "<tarn.mr.CudaMemoryResource of device 0>"
    limiter = mr.LimitingResourceAdaptor(mr.CudaMemoryResource(), 1)
    assert repr(limiter) == (
        "<tarn.mr.LimitingResourceAdaptor over <tarn.mr.CudaMemoryResource of device 0>>"
    )
