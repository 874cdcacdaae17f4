"""Numba's own classes, and the members that Tarn leaves to them.

docs/emm-rows.md lists all requirements with their tests; these are the ones that no other test
covers. Numba is stock, its manager Tarn's.
"""

import ast
import gc
import inspect
import pathlib

import numba_support  # noqa: F401 (opens the driver before Numba does)
import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("numba")

import tarn  # noqa: E402
import tarn.numba  # noqa: E402
from numba import cuda, types  # noqa: E402
from numba.cuda.cudadrv import driver  # noqa: E402

tarn.numba.use_tarn_for_numba()


def test_names_are_where_plugins_look_for_them():
    """The names are in numba.cuda and its driver; the draft's module was never added."""
    for name in (
        "BaseCUDAMemoryManager", "HostOnlyCUDAMemoryManager", "GetIpcHandleMixin",
        "MemoryPointer", "MappedMemory", "PinnedMemory", "MemoryInfo", "IpcHandle",
        "set_memory_manager",
    ):  # fmt: skip
        assert getattr(cuda, name) is getattr(driver, name)
    for name in (
        "OwnedPointer", "AutoFreePointer", "MappedOwnedPointer", "ManagedMemory",
        "NumbaCUDAMemoryManager",
    ):  # fmt: skip
        assert inspect.isclass(getattr(driver, name))
    with pytest.raises(ImportError):
        import numba.cuda.cudadrv.memory  # noqa: F401


MEMBERS = (
    "initialize", "memalloc", "memhostalloc", "mempin", "memallocmanaged", "get_ipc_handle",
    "get_memory_info", "reset", "defer_cleanup",
)  # fmt: skip
NUMBAS = (
    cuda.BaseCUDAMemoryManager, cuda.HostOnlyCUDAMemoryManager, driver.NumbaCUDAMemoryManager
)  # fmt: skip


@pytest.mark.parametrize("name", MEMBERS)
@pytest.mark.parametrize("numbas", NUMBAS)
def test_members_take_what_those_of_numbas_managers_take(numbas, name):
    """The members have the same names in the same order, and additional parameters are optional."""
    theirs = getattr(numbas, name, None)
    if theirs is None:
        assert (numbas, name) == (cuda.BaseCUDAMemoryManager, "memallocmanaged")
        return
    wanted = list(inspect.signature(theirs).parameters.values())[1:]  # without self
    ours = inspect.signature(getattr(cuda.current_context().memory_manager, name)).parameters
    assert list(ours)[: len(wanted)] == [parameter.name for parameter in wanted]
    for parameter in wanted:
        mine = ours[parameter.name]
        assert mine.kind is parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        assert mine.default == parameter.default or parameter.default is parameter.empty
    for name in list(ours)[len(wanted) :]:
        assert ours[name].default is not inspect.Parameter.empty


def test_every_argument_may_be_named():
    """The arguments are those of Numba's own manager, and of the draft."""
    manager, host = cuda.current_context().memory_manager, np.zeros(10)
    assert manager.memalloc(size=80).size == manager.memalloc(80, 0).size == 80
    assert manager.memalloc(nbytes=80, stream=0).size == 80
    for size in ({"size": 64}, {"nbytes": 64}):
        for mapped in (False, True):
            memory = manager.memhostalloc(mapped=mapped, portable=True, wc=False, **size)
            assert memory._buflen_ == 64
    assert manager.memhostalloc(64, True, True, False)._buflen_ == 64
    pinned = manager.mempin(owner=host, pointer=host.ctypes.data, size=80, mapped=False)
    assert pinned._bufptr_ == host.ctypes.data
    del pinned
    assert manager.memallocmanaged(size=8, attach_global=False).size == 8
    array = cuda.to_device(host)
    words = [
        bytes(manager.get_ipc_handle(**named).handle.reserved)
        for named in ({"memory": array.gpu_data}, {"memory": array.gpu_data, "stream": 0})
    ]
    assert words[0] == words[1]
    assert manager.prepare_for_use() is manager.initialize() is None


@pytest.mark.parametrize(
    "positional, named",
    [((), {}), ((8, 0, 0), {}), ((8,), {"size": 8}), ((8,), {"nbytes": 8}), ((), {"stream": 0}),
     ((), {"bytes": 8}), ((), {"size": 8, "nbytes": 8})],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_type_errors(positional, named):
    with pytest.raises(TypeError):
        cuda.current_context().memory_manager.memalloc(*positional, **named)


@pytest.mark.parametrize("kind", ["MemoryPointer", "MappedMemory", "PinnedMemory"])
def test_pointers_take_their_arguments_in_todays_order(kind):
    """The owner comes before the finalizer, both of which are optional; the draft has another order
    in each class."""
    parameters = inspect.signature(getattr(cuda, kind).__init__).parameters
    assert list(parameters)[1:] == ["context", "pointer", "size", "owner", "finalizer"]
    assert parameters["owner"].default is parameters["finalizer"].default is None


def test_where_numba_has_a_public_name_tarn_uses_it():
    """The names that tarn.numba takes from Numba's driver module are not in numba.cuda too."""
    folder, used = pathlib.Path(tarn.numba.__file__).parent, set()
    for path in folder.glob("*numba*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                owner = node.value
                name = getattr(owner, "attr", getattr(owner, "id", None))
                used |= {node.attr} if name == "driver" else set()
    assert {"CudaAPIError", "ManagedMemory", "_memory_manager"} <= used, used
    assert used.isdisjoint(
        name for name in vars(cuda) if getattr(driver, name, None) is getattr(cuda, name)
    )


def test_classes_of_pointers_derive_from_each_other_as_the_draft_says():
    """The pointer classes derive from each other as the draft specifies."""
    assert issubclass(cuda.MappedMemory, driver.AutoFreePointer)
    assert cuda.MemoryPointer in cuda.MappedMemory.__mro__
    assert not issubclass(cuda.PinnedMemory, cuda.MemoryPointer)
    assert issubclass(driver.NumbaCUDAMemoryManager, cuda.HostOnlyCUDAMemoryManager)
    assert issubclass(tarn.numba.TarnNumbaManager, cuda.HostOnlyCUDAMemoryManager)


def test_numbas_own_list_of_frees_stays_empty_for_memory():
    """The manager, not Numba, decides how memory is returned."""
    context = cuda.current_context()
    for _ in range(3):
        cuda.device_array(10), cuda.mapped_array(10), cuda.pinned_array(10)
        cuda.managed_array(10)
    gc.collect()
    assert len(context.memory_manager.deallocations) == 0


def test_streams_and_events_stay_the_contexts():
    """Streams and events stay in the context's own list of frees, with any memory manager."""
    context = cuda.current_context()
    fresh = driver.Context(context.device, context.handle)
    assert not fresh.allocations and len(fresh.deallocations) == 0  # from its creation on
    context.deallocations.clear()
    stream, event = cuda.stream(), cuda.event()
    del stream, event
    gc.collect()
    assert len(context.deallocations) == 2
    assert len(context.memory_manager.deallocations) == 0
    context.deallocations.clear()


def test_modules_stay_the_contexts():
    """Modules stay in the context's own list of frees, as streams do."""

    @cuda.jit
    def its_own(array):
        array[0] = 3

    context = cuda.current_context()
    gc.collect()
    before = set(context.modules)
    its_own.compile((types.float64[::1],))
    (key,) = set(context.modules) - before
    context.deallocations.clear()
    context.modules[key].unload()
    gc.collect()
    assert set(context.modules) == before and len(context.deallocations) == 1
    assert len(context.memory_manager.deallocations) == 0
    context.deallocations.clear()


def test_a_context_asks_its_manager_for_everything():
    """A context calls its manager for each operation, and has one from the beginning."""
    context = cuda.current_context()
    before, asked = context.memory_manager, []

    class Noting:
        def __getattr__(self, name):
            return lambda *arguments: asked.append((name, arguments))

    fresh = driver.Context(context.device, context.handle)
    assert type(fresh.memory_manager) is type(before)
    fresh.memory_manager = Noting()
    fresh.memalloc(1)
    fresh.memhostalloc(2)
    fresh.mempin("owner", 3, 4)
    fresh.prepare_for_use()
    fresh.get_memory_info()
    fresh.get_ipc_handle("memory")
    assert asked == [
        ("memalloc", (1,)), ("memhostalloc", (2, False, False, False)),
        ("mempin", ("owner", 3, 4, False)), ("initialize", ()), ("get_memory_info", ()),
        ("get_ipc_handle", ("memory",)),
    ]  # fmt: skip
    assert not hasattr(context, "memunpin")  # a context has none


def test_a_device_that_cannot_map_host_memory_is_told_by_numba(monkeypatch):
    """Numba reports it itself, without a call of the manager."""
    context = cuda.current_context()
    monkeypatch.setattr(context.device, "CAN_MAP_HOST_MEMORY", False)
    with pytest.raises(driver.CudaDriverError, match="cannot map host memory"):
        context.mempin(None, 4096, 4096, mapped=True)


def test_arrays_of_others_are_used_where_they_are(counted):
    """A DeviceBuffer is an array of Numba's through the CUDA array interface."""
    values = np.arange(100.0)
    buffer = tarn.DeviceBuffer.to_device(values)
    array = cuda.as_cuda_array(buffer)
    assert array.device_ctypes_pointer.value == buffer.ptr
    assert counted.live_bytes == values.nbytes
    np.testing.assert_array_equal(array.view("f8").copy_to_host(), values)
