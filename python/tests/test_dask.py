"""tarn.dask in one process: options, setup and teardown, and buffers in messages.

test_dask_cluster.py has real workers, whose frameworks allocate from the pool.
"""

import asyncio
import gc
import importlib.util
import os
import pickle
import time

import dask_support
import pytest

if importlib.util.find_spec("distributed") is None:
    pytest.skip("distributed is not installed", allow_module_level=True)

import dask.config
import dask.sizeof
import tarn
import tarn.dask
import tarn.ipc
from click.testing import CliRunner
from distributed.protocol import deserialize, serialize
from tarn import _dask_transfer, _frameworks, _rmm_bridge, mr
from tarn.dask import TarnPlugin

MIB = 1 << 20
ELSEWHERE = {"recipient": {"tarn": {"place": "elsewhere", "process": 1}}}


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch):
    """RMM calls Tarn by its callbacks, in this process too; later tests look for a compiler again."""
    monkeypatch.setenv("CXX", "/nowhere/c++")
    monkeypatch.setattr(_rmm_bridge, "_extension", None)


@pytest.fixture(autouse=True)
def no_frameworks(monkeypatch):
    """Configure no framework: it would allocate from the plugin's pool in all later tests too."""
    use = _frameworks.use
    monkeypatch.setattr(_frameworks, "use", lambda mr=None, frameworks=None: use(mr, frameworks=[]))


# --- options ----------------------------------------------------------------------------


@pytest.fixture
def worker():
    """An imitation of a worker, whose plugin is torn down at the end."""
    worker = dask_support.fake_worker()
    yield worker
    TarnPlugin().teardown(worker)
    gc.collect()


def classes():
    """Return the classes of the current resource and of those beneath."""
    resource, found = mr.get_current_device_resource(), []
    while resource is not None:
        found.append(type(resource).__name__)
        resource = getattr(resource, "upstream_mr", None)
    return found


def pool():
    """Return the pool of the current resource."""
    resource = mr.get_current_device_resource()
    while not isinstance(resource, mr.PoolMemoryResource):
        resource = resource.upstream_mr
    return resource


def upstream():
    """Return the class of the memory of a plugin's pool on the device of these tests."""
    has_fabric = tarn.device_info().has_fabric  # an H200 has, also without an IMEX channel
    return "ExportableMemoryResource" if has_fabric else "CudaMemoryResource"


def test_without_options_a_worker_gets_a_pool_that_others_can_open(worker):
    TarnPlugin().setup(worker)
    assert classes() == ["PoolMemoryResource", upstream()]
    assert (pool().statistics().reserved, pool().maximum_pool_size) == (0, None)
    assert tarn.ipc.export(tarn.DeviceBuffer(size=MIB)).size == MIB


UPSTREAM = """
import dask_support
from tarn import mr
from tarn.dask import TarnPlugin
TarnPlugin(rmm_allocator_external_lib_list=[]).setup(dask_support.fake_worker())
print(type(mr.get_current_device_resource().upstream_mr).__name__)
"""


@pytest.mark.parametrize(
    "fabric, wanted",
    [
        ("off", "CudaMemoryResource"),
        ("on", "ExportableMemoryResource"),
        ("no-channel", "ExportableMemoryResource"),
    ],
)
def test_the_memory_is_exportable_where_the_device_has_fabric_handles(sim_process, fabric, wanted):
    environment = {"TARN_SIM": f"fabric={fabric}", "PYTHONPATH": dask_support.FOLDER}
    assert sim_process(UPSTREAM, **environment) == wanted


@pytest.mark.parametrize(
    "size, wanted",
    [
        (4 * MIB, 4 * MIB), ("4MiB", 4 * MIB), ("4MB", 4 * 10**6), (4.0 * MIB, 4 * MIB),
        (0.25, "quarter"), ("0.25", "quarter"), (1.0, "all"), ("1.0", "all"),
        (0, None), (0.0, None), ("0 MiB", None), (1, 1), ("1", 1),
    ],
)  # fmt: skip
def test_a_size_is_a_number_a_text_or_a_fraction_as_in_dask_cuda(worker, size, wanted):
    total = tarn.device_info().total_bytes
    TarnPlugin(rmm_maximum_pool_size=size).setup(worker)
    assert pool().maximum_pool_size == {"quarter": total // 4, "all": total}.get(wanted, wanted)


@pytest.mark.parametrize(
    "options, wanted",
    [
        ({"rmm_managed_memory": True}, ["PoolMemoryResource", "ManagedMemoryResource"]),
        (
            {"rmm_async": True, "rmm_pool_size": "4MiB", "rmm_release_threshold": "1GiB"},
            ["StatisticsResourceAdaptor", "CudaAsyncMemoryResource"],
        ),
        (
            {"rmm_async": True, "rmm_maximum_pool_size": "8MiB"},
            ["StatisticsResourceAdaptor", "LimitingResourceAdaptor", "CudaAsyncMemoryResource"],
        ),
        (
            {"rmm_track_allocations": True, "rmm_release_threshold": "4MiB"},
            ["TrackingResourceAdaptor", "PoolMemoryResource", None],
        ),
    ],
)
def test_the_options_choose_the_resources(worker, options, wanted):
    TarnPlugin(**options).setup(worker)
    assert classes() == [name or upstream() for name in wanted]
    buffer = tarn.DeviceBuffer(size=MIB)
    figures = asyncio.run(worker.metrics["tarn"](worker))
    assert figures["live"] == MIB <= figures["reserved"]
    assert (figures["live_blocks"], figures["allocations"]) == (1, 1)
    del buffer


def test_a_heartbeat_does_not_sum_the_sites_of_a_tracker(worker, monkeypatch):
    TarnPlugin(rmm_track_allocations=True).setup(worker)
    monkeypatch.delattr(tarn.metrics, "_sites")
    assert asyncio.run(worker.metrics["tarn"](worker))["live"] == 0


def test_the_pool_reserves_its_size_at_the_start(worker):
    TarnPlugin(rmm_pool_size="32MiB").setup(worker)
    assert pool().statistics().reserved == 32 * MIB


def test_a_log_has_the_name_of_its_worker_and_process(worker, tmp_path):
    worker.name = "tcp://10.0.0.1:5"
    TarnPlugin(rmm_log_directory=tmp_path / "made" / "here").setup(worker)
    tarn.DeviceBuffer(size=1000)
    mr.get_current_device_resource().flush()
    (log,) = (tmp_path / "made" / "here").iterdir()
    assert log.name == f"rmm_log_10.0.0.1:5.{os.getpid()}.dev0.txt"
    assert ",allocate," in log.read_text() and ",1000,0" in log.read_text()


@pytest.mark.parametrize(
    "options, words",
    [
        (
            {"rmm_pool_size": "8 parsecs"},
            "rmm_pool_size='8 parsecs' is invalid: it has to be a num",
        ),
        ({"rmm_pool_size": -1}, "rmm_pool_size=-1 is invalid"),
        ({"rmm_pool_size": "-1GB"}, "rmm_pool_size='-1GB' is invalid"),
        ({"rmm_pool_size": True}, "rmm_pool_size=True is invalid"),
        ({"rmm_pool_size": 1.5}, "rmm_pool_size=1.5 is invalid"),
        ({"rmm_pool_size": float("nan")}, "rmm_pool_size=nan is invalid"),
        ({"rmm_pool_size": "inf"}, "rmm_pool_size='inf' is invalid"),
        ({"rmm_maximum_pool_size": 2**64}, "rmm_maximum_pool_size=18446744073709551616 is invalid"),
        ({"rmm_release_threshold": [1]}, r"rmm_release_threshold=\[1\] is invalid"),
        ({"rmm_async": "yes"}, "rmm_async='yes' is invalid: it has to be True or False"),
        ({"rmm_log_directory": 5}, "rmm_log_directory=5 is invalid: it has to be the path"),
        ({"rmm_log_directory": ""}, "rmm_log_directory='' is invalid"),
        (
            {"rmm_allocator_external_lib_list": "cupy,tensorflow"},
            "rmm_allocator_external_lib_list='cupy,tensorflow' is invalid: .* numba",
        ),
        ({"rmm_allocator_external_lib_list": 5}, "rmm_allocator_external_lib_list=5 is invalid"),
        (
            {"rmm_async": True, "rmm_managed_memory": True},
            "rmm_async=True excludes rmm_managed_mem",
        ),
        (
            {"rmm_pool_size": "2GB", "rmm_maximum_pool_size": "1GB"},
            "rmm_pool_size='2GB' exceeds rmm_maximum_pool_size='1GB'",
        ),
    ],
)
def test_an_error_of_an_option_names_it_with_its_value(options, words):
    with pytest.raises(ValueError, match=words):
        TarnPlugin(**options)


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"rmm_pool_size": "1TiB"}, tarn.OutOfMemoryError, "rmm_pool_size='1TiB': .*OUT_OF_MEM"),
        (  # a millionth of any device has less than 64 MiB
            {"rmm_pool_size": "64MiB", "rmm_maximum_pool_size": 1e-6},
            tarn.InvalidArgumentError,
            "rmm_pool_size='64MiB', rmm_maximum_pool_size=1e-06: .*exceeds",
        ),
        ({"rmm_log_directory": "/proc/none"}, OSError, "rmm_log_directory='/proc/none': "),
    ],
)
def test_a_setup_that_fails_names_the_options_and_changes_nothing(worker, options, error, words):
    before = mr.get_current_device_resource()
    with pytest.raises(error, match=words) as caught:
        TarnPlugin(**options).setup(worker)
    assert mr.get_current_device_resource() is before
    assert (worker.metrics, worker.handlers, worker.rpc.connection_args) == ({}, {}, {})
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_an_option_that_is_not_given_comes_from_dasks_configuration(worker):
    settings = dask.config.collect_env(
        {"DASK_TARN__RMM_MAXIMUM_POOL_SIZE": "8MiB", "DASK_TARN__RMM_TRACK_ALLOCATIONS": "true"}
    )
    with dask.config.set(settings):
        TarnPlugin(rmm_track_allocations=False).setup(worker)
    assert classes()[0] == "PoolMemoryResource" and pool().maximum_pool_size == 8 * MIB


@pytest.mark.parametrize(
    "section, words",
    [
        ({"rmm-poolsize": 1}, "dask.config tarn.rmm_poolsize is unknown; known are rmm_pool_size"),
        ({"rmm-pool-size": "x"}, "dask.config tarn.rmm_pool_size='x' is invalid"),
        (5, "dask.config tarn=5 is no mapping"),
    ],
)
def test_an_error_of_the_configuration_names_it(section, words):
    with dask.config.set({"tarn": section}), pytest.raises((ValueError, TypeError), match=words):
        TarnPlugin()


def test_the_command_line_rejects_a_wrong_option_before_the_worker_starts():
    for arguments, words in (
        (
            ["--rmm-pool-size", "x"],
            "Invalid value for '--rmm-pool-size': TarnPlugin: rmm_pool_size",
        ),
        (["--rmm-poolsize", "1"], "No such option"),
    ):
        result = CliRunner().invoke(tarn.dask.dask_setup, arguments)
        assert result.exit_code == 2 and words in result.output


# --- setup and teardown -----------------------------------------------------------------


def test_a_second_setup_changes_nothing_and_a_second_teardown_neither(worker):
    before = mr.get_current_device_resource()
    worker.metrics["rmm"] = "the metric of RMM"
    plugin = TarnPlugin(rmm_pool_size="4MiB")
    plugin.setup(worker)
    first, metrics = pool(), dict(worker.metrics)
    assert set(metrics) == {"rmm", "tarn"}
    plugin.setup(worker)
    assert pool() is first and worker.metrics == metrics
    for _ in range(2):
        plugin.teardown(worker)
        assert mr.get_current_device_resource() is before
        assert worker.metrics == {"rmm": "the metric of RMM"}
        assert worker.handlers == {}
        assert worker.rpc.connection_args == {"handshake_overrides": {}}


def test_a_heartbeat_that_is_under_way_keeps_its_metrics(worker):
    worker.metrics = present = {"rmm": None}
    heartbeat = iter(present.items())
    TarnPlugin().setup(worker)
    TarnPlugin().teardown(worker)
    assert list(heartbeat) == [("rmm", None)]


def test_workers_of_one_process_share_the_pool_until_the_last_ends(worker):
    before, second = mr.get_current_device_resource(), dask_support.fake_worker("second")
    plugins = [TarnPlugin(rmm_pool_size="4MiB") for _ in range(2)]
    plugins[0].setup(worker)
    shared = pool()
    plugins[1].setup(second)
    assert pool() is shared
    plugins[0].teardown(worker)
    assert pool() is shared
    plugins[1].teardown(second)
    assert mr.get_current_device_resource() is before


def test_other_options_replace_the_pool_and_blocks_return_to_theirs(worker):
    before = mr.get_current_device_resource()
    TarnPlugin(rmm_pool_size="4MiB").setup(worker)
    first = pool()
    block = tarn.DeviceBuffer(size=1000)
    TarnPlugin(rmm_pool_size="8MiB").setup(worker)
    assert pool() is not first and pool().statistics().reserved == 8 * MIB
    del block
    assert first.statistics().live == 0
    TarnPlugin().teardown(worker)
    assert mr.get_current_device_resource() is before


def test_a_plugin_registered_again_finds_the_pool_whose_blocks_are_live(worker):
    plugin = TarnPlugin(rmm_pool_size="4MiB")
    plugin.setup(worker)
    first, block = pool(), tarn.DeviceBuffer(size=1000)
    plugin.teardown(worker)
    TarnPlugin(rmm_pool_size="4MiB").setup(worker)
    assert pool() is first
    del block


def test_a_resource_that_the_program_sets_later_stays_at_the_teardown(worker):
    plugin = TarnPlugin()
    plugin.setup(worker)
    own = mr.PoolMemoryResource()
    mr.set_current_device_resource(own)
    plugin.teardown(worker)
    assert mr.get_current_device_resource() is own


# --- messages ---------------------------------------------------------------------------


def buffer_of(size, value=7):
    return tarn.DeviceBuffer.to_device(bytes([value]) * size)


def test_without_an_announcement_pickle_serves_a_buffer_as_before():
    for context in None, {}, {"recipient": {}}, {"recipient": {"tarn": 5}}, {"recipient": 5}:
        header, frames = serialize(buffer_of(1000), context=context)
        assert header["serializer"] == "pickle"
        assert frames[1] == bytes([7]) * 1000  # beside the pickle, not in it
        assert deserialize(header, frames).tobytes() == bytes([7]) * 1000


class Derived(tarn.DeviceBuffer):
    """A class of a program, with more than the bytes."""

    def __reduce__(self):
        return Derived.to_device, (self.tobytes()[::-1],)


def test_a_derived_class_keeps_its_own_pickle():
    for serializers in ("dask", "pickle"), ("cuda", "dask", "pickle"):
        header, frames = serialize(
            Derived.to_device(b"abc"), serializers=serializers, context=ELSEWHERE
        )
        assert header["serializer"] == "pickle"
        again = deserialize(header, frames)
        assert type(again) is Derived and again.tobytes() == b"cba"


@pytest.mark.parametrize("size", [0, 1, 1000, 1 * MIB])
def test_to_another_machine_the_bytes_go_beside_the_message(size):
    header, frames = serialize(buffer_of(size), context=ELSEWHERE)
    assert header["serializer"] == "dask" and all(type(frame) is memoryview for frame in frames)
    assert sum(frame.nbytes for frame in frames) == size
    again = deserialize(pickle.loads(pickle.dumps(header)), [bytes(frame) for frame in frames])
    assert type(again) is tarn.DeviceBuffer and again.tobytes() == bytes([7]) * size


def near():
    """Return the context of a recipient in another process on this machine."""
    return {"recipient": {"tarn": {"place": _dask_transfer.place(), "process": 1}}}


@pytest.fixture
def attached(worker):
    """A worker with a pool of small reserve."""
    TarnPlugin().setup(worker)
    yield worker
    _dask_transfer._end_exports(list(_dask_transfer._exports))


def test_a_block_for_this_machine_lives_until_it_is_acknowledged(attached):
    header, frames = serialize(buffer_of(MIB), context=near())
    (token,) = _dask_transfer._exports
    assert (frames, header["sub-header"]["token"]) == ([], token)
    assert pool().statistics().live == MIB and tarn.ipc.counts()["served"] == 1
    attached.handlers["tarn_received"](tokens=["unknown", token, token])
    assert pool().statistics().live == 0 and _dask_transfer.exports() == 0


def test_a_block_that_nobody_acknowledges_ends_after_a_minute(attached, monkeypatch):
    serialize(buffer_of(MIB), context=near())
    asyncio.run(attached.metrics["tarn"](attached))
    assert pool().statistics().live == MIB
    later = time.monotonic() + 61
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert asyncio.run(attached.metrics["tarn"](attached))["exports"] == 0
    assert pool().statistics().live == 0


def test_the_teardown_releases_the_blocks_that_wait(attached):
    serialize(buffer_of(MIB), context=near())
    present = pool()
    TarnPlugin().teardown(attached)
    assert present.statistics().live == 0 and _dask_transfer.exports() == 0


@pytest.mark.parametrize("case", ["small", "process", "place", "memory", "no worker"])
def test_the_bytes_go_through_the_host_where_no_handle_helps(attached, case):
    context, size = near(), 1000 if case == "small" else MIB
    if case == "process":
        context["recipient"]["tarn"]["process"] = os.getpid()
    elif case == "place":
        context["recipient"]["tarn"]["place"] = ""
    elif case == "no worker":
        _dask_transfer.detach(attached)
    source = mr.PoolMemoryResource() if case == "memory" else None  # on VMM: without handles
    buffer = tarn.DeviceBuffer.to_device(bytes(size), mr=source)
    header, frames = serialize(buffer, context=context)
    assert "handle" not in header["sub-header"] and frames[0].nbytes == size
    assert _dask_transfer.exports() == 0


QUEUED = """
import types
import tarn, tarn.dask, dask_support
from distributed.protocol import deserialize, serialize
from tarn import _dask_transfer

worker = dask_support.fake_worker()
_dask_transfer.attach(worker)
tarn.mr.set_current_device_resource(tarn.mr.PoolMemoryResource(tarn.mr.CudaMemoryResource()))
here = {"recipient": {"tarn": {"place": _dask_transfer.place(), "process": 1}}}
elsewhere = {"recipient": {"tarn": {"place": "", "process": 1}}}
SIZE = 1 << 20
source = tarn.DeviceBuffer.to_device(b"\\1" * SIZE)
stream = tarn.Stream(flags=1)

def late():
    buffer = tarn.DeviceBuffer.to_device(bytes(SIZE))
    buffer.reserve(0, stream=stream)
    buffer.copy_from_device(source, stream=stream)
    return buffer

wrong = [0, 0, 0]
for _ in range(10):
    again = deserialize(*serialize(late(), context=elsewhere))
    wrong[0] += again.tobytes() != b"\\1" * SIZE
    sent = late()
    header, frames = serialize(sent, context=here)
    assert "handle" in header["sub-header"] and frames == []
    wrong[1] += sent.tobytes() != b"\\1" * SIZE
    frame = serialize(late(), serializers=["cuda"])[1][0]
    wrong[2] += frame.tobytes() != b"\\1" * SIZE
print(wrong)
"""


@pytest.mark.skipif(not tarn.driver_info().is_simulator, reason="needs streams that are late")
def test_a_buffer_is_sent_with_the_result_of_the_work_on_its_stream(sim_process):
    environment = {"TARN_SIM": "mode=seeded,seed=1", "PYTHONPATH": dask_support.FOLDER}
    assert sim_process(QUEUED, **environment) == "[0, 0, 0]"


HANDLE = [bytes(64), MIB, 0, 0, bytes(16), b""]
OPENS = {"size": MIB, "handle": HANDLE, "owner": "tcp://x", "token": "t", "process": 0}


@pytest.mark.parametrize(
    "sub_header, frames, error, words",
    [
        (None, [], ValueError, "None is no header of a DeviceBuffer"),
        ({}, [], ValueError, "is no header"),
        ({"size": -1}, [], ValueError, "is no header"),
        ({"size": True}, [], ValueError, "is no header"),
        ({"size": "5"}, [b"12345"], ValueError, "is no header"),
        ({"size": 5}, [b"1234"], ValueError, "1 frames of 4 bytes, and the header has 5"),
        ({"size": 5}, [b"12", b"345"], ValueError, "2 frames of 5 bytes"),
        ({"size": 5}, [], ValueError, "0 frames of 0 bytes"),
        ({"size": 0}, [b""], ValueError, "1 frames of 0 bytes"),
        ({"size": MIB, "handle": HANDLE}, [], ValueError, "incomplete handle"),
        ({**OPENS, "handle": HANDLE[:4]}, [], ValueError, "incomplete handle"),
        ({**OPENS, "handle": 5}, [], ValueError, "incomplete handle"),
        ({**OPENS, "handle": [*HANDLE[:4], "text"]}, [], ValueError, "wrong types"),
        ({**OPENS, "handle": [*HANDLE[:5], "text"]}, [], ValueError, "wrong types"),
        ({**OPENS, "owner": 5}, [], ValueError, "wrong types"),
        ({**OPENS, "size": 5}, [], ValueError, "the handle has 1048576 bytes and the header 5"),
        ({**OPENS, "handle": [b"", *HANDLE[1:]]}, [], ValueError, "parts of 0 and 16 bytes"),
        (OPENS, [], EOFError, "1048576 bytes of tcp://x cannot be opened"),
    ],
)
def test_a_broken_header_is_an_error_and_changes_nothing(sub_header, frames, error, words):
    header = {
        "serializer": "dask",
        "sub-header": sub_header,
        "type-serialized": pickle.dumps(tarn.DeviceBuffer),
    }
    before = tarn.ipc.counts()
    with pytest.raises(error, match=words):
        deserialize(header, frames)
    assert tarn.ipc.counts() == before and _dask_transfer._failures == {}


class OfAnother:
    """Device memory of another library: what UCX may receive into."""

    def __init__(self, buffer):
        self._buffer = buffer
        self.nbytes = buffer.size
        self.__cuda_array_interface__ = buffer.__cuda_array_interface__


def test_between_devices_the_memory_itself_is_the_frame():
    header, (frame,) = serialize(buffer_of(1000), serializers=["cuda"], context=ELSEWHERE)
    assert header["serializer"] == "cuda" and type(frame) is tarn.DeviceBuffer
    assert deserialize(header, [frame]) is frame
    again = deserialize(header, [OfAnother(frame)])
    assert again.tobytes() == frame.tobytes() and again.ptr != frame.ptr
    header, _ = serialize(buffer_of(0), serializers=["cuda"])
    assert deserialize(header, [b""]).size == 0
    for frames in [], [frame, frame], [frame], [5]:
        with pytest.raises(ValueError, match="does not describe"):
            deserialize(header, frames)


def test_dask_counts_the_bytes_of_a_buffer():
    assert dask.sizeof.sizeof(buffer_of(12345)) == 12345
