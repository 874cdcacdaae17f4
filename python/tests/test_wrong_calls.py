"""Wrong calls of the extension's own functions, which the package itself does not make."""

import sys
from pathlib import Path

import pytest
import subinterpreter
import tarn
from tarn import _nrt_python, mr

_tarn = tarn._tarn

FABRIC = [
    lambda data: _tarn.fabric_begin(data, 1000),
    lambda data: _tarn.fabric_renew(data, 1000),
    _tarn.fabric_end,
    _tarn.fabric_answer,
    _tarn.fabric_check,
    lambda data: _tarn.fabric_open(data, None, 0),
]


@pytest.mark.parametrize("call", FABRIC)
def test_fabric_messages_have_one_length(call):
    with pytest.raises(ValueError, match=r"ipc: a (fabric handle|message) has \d+ bytes, not 3"):
        call(b"abc")
    with pytest.raises(TypeError, match="is bytes, not str"):
        call("abc")


@pytest.mark.parametrize("call", FABRIC)
def test_fabric_messages_of_zeros_are_rejected(call):
    """The length of the error tells how long a message has to be."""
    with pytest.raises(ValueError) as caught:
        call(b"")
    length = int(str(caught.value).split(" has ")[1].split()[0])
    with pytest.raises(tarn.TarnError):
        call(bytes(length))


def test_a_plugin_that_is_not_prepared_allocates_nothing():
    plugin = _tarn.Plugin()
    with pytest.raises(RuntimeError, match="_prepare"):
        plugin._allocate(100)
    with pytest.raises(OverflowError):
        plugin._allocate(-1)
    with pytest.raises(TypeError, match="a class of MemoryPointer, not int"):
        plugin._prepare(_tarn.Manager(0), int, None)


def test_segments_are_closed_by_an_address_that_is_open():
    with pytest.raises(TypeError, match="int"):
        _tarn._torch_close_segments("address")
    for address in (0, 8):
        with pytest.raises(tarn.InvalidArgumentError, match="not open"):
            _tarn._torch_close_segments(address)


def test_a_freed_block_has_no_ipc_handle():
    manager = _tarn.Manager(0)
    block = manager.memalloc(100)
    block.release()
    with pytest.raises(ValueError, match="already freed"):
        manager.get_ipc_handle(block)


def test_only_resources_get_a_native_one(tmp_path):
    upstream = mr.CudaMemoryResource()
    with pytest.raises(TypeError):
        _tarn._open_pool(5, upstream, -1, 0, 0)
    with pytest.raises(TypeError):
        _tarn._wrap_logger(5, str(tmp_path / "log"), 0, False, 0, 0)
    with pytest.raises(TypeError):
        _tarn._wrap_logger(upstream, str(tmp_path / "log"), 0, False, 0, "many")
    assert not (tmp_path / "log").exists()


def test_a_logger_opens_one_log(tmp_path):
    logger = mr.LoggingResourceAdaptor(mr.CudaMemoryResource(), tmp_path / "log")
    with pytest.raises(ValueError, match="initialised only once"):
        logger.__init__(mr.CudaMemoryResource(), tmp_path / "other")
    logger.deallocate(logger.allocate(100), 100)
    logger.flush()
    assert [path.name for path in tmp_path.iterdir()] == [Path(logger.get_file_name()).name]
    assert len(Path(logger.get_file_name()).read_text().splitlines()) == 3


def test_the_atomics_of_an_old_numba_are_not_used():
    before = _nrt_python.meminfo_alloc(10)
    assert _nrt_python.memsys_set_atomic_inc_dec(1, 2) is None
    assert _nrt_python.memsys_set_atomic_cas(3) is None
    assert _nrt_python._MemInfo(before).refcount == 1  # the object's release uses Tarn's own


def test_a_subinterpreter_does_not_get_the_runtimes_module(sim_process):
    code = """
import tarn
from tarn import _nrt_python
code = '''
import importlib.machinery, importlib.util
loader = importlib.machinery.ExtensionFileLoader("tarn._nrt_python", %r)
spec = importlib.util.spec_from_loader("tarn._nrt_python", loader)
module = importlib.util.module_from_spec(spec)
loader.exec_module(module)
''' % _nrt_python.__file__
print(run_in_subinterpreter(code))
"""
    # From Python 3.12 the interpreter itself refuses before the module is asked.
    module_refuses = "supports only the main interpreter"
    python_refuses = "does not support loading in subinterpreters"
    refusal = python_refuses if sys.version_info >= (3, 12) else module_refuses
    assert refusal in sim_process(subinterpreter.RUN + code)


def test_references_are_added_and_dropped():
    meminfo = _nrt_python._MemInfo(_nrt_python.meminfo_alloc(10))
    meminfo.acquire()
    assert meminfo.refcount == 2
    meminfo.release()
    assert meminfo.refcount == 1


@pytest.mark.parametrize("kind", [mr.LimitingResourceAdaptor, mr.StatisticsResourceAdaptor])
def test_an_adaptor_without_its_init_says_so(kind):
    """repr() of it fails, so that no message may need it."""
    adaptor = kind.__new__(kind)
    for use in (lambda: adaptor.upstream_mr, lambda: adaptor.allocate(10), lambda: repr(adaptor)):
        with pytest.raises(TypeError, match=f"{kind.__name__} cannot allocate .*__init__"):
            use()
    with pytest.raises(ValueError, match=f"{kind.__name__} has no upstream"):
        _tarn._wrap_counter(adaptor)
    with pytest.raises(TypeError, match=f"{kind.__name__} is not initialised"):
        _tarn._tracker_bytes(adaptor)
    pool = mr.PoolMemoryResource.__new__(mr.PoolMemoryResource)
    with pytest.raises(TypeError, match="PoolMemoryResource is not a resource, or not initialised"):
        pool.statistics()


def test_the_size_that_numba_reports_can_be_set():
    plugin = _tarn.Plugin()
    plugin._prepare(_tarn.Manager(0), _tarn.MemoryPointer, None)
    memory = plugin._allocate(100)
    assert memory._cuda_memsize_ == 100
    memory._cuda_memsize_ = 7
    assert memory._cuda_memsize_ == 7
    del memory._cuda_memsize_
    assert memory._cuda_memsize_ == memory.bytes == 100
