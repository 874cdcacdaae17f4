"""Errors of plugins for Numba, each with its symptom: docs/writing-a-plugin.md.

These are facts about a stock Numba. If one of them ends, the page has to change.
"""

import contextlib
import ctypes
import gc
import pickle
import weakref

import numba_support  # noqa: F401 (opens the driver before Numba does)
import pytest

np = pytest.importorskip("numpy")
pytest.importorskip("numba")

import tarn  # noqa: E402
import tarn.numba  # noqa: E402
from numba import cuda  # noqa: E402
from numba.cuda.cudadrv import driver  # noqa: E402

tarn.numba.use_tarn_for_numba()


class Plugin(cuda.HostOnlyCUDAMemoryManager):
    """A correct plugin; the tests derive plugins with one error from it."""

    interface_version = 1

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.buffers, self.freed, self.calls = {}, [], []

    def initialize(self):
        self.calls.append("initialize")

    def get_memory_info(self):
        raise NotImplementedError

    def get_ipc_handle(self, memory):
        raise NotImplementedError

    def memalloc(self, size):
        self.calls.append("memalloc")
        buffer = tarn.DeviceBuffer(size=size, stream=tarn.NO_STREAM)
        number = len(self.buffers)
        self.buffers[number] = buffer
        return self.pointer(buffer.ptr, size, self.finalizer(number))

    def finalizer(self, number):
        buffers, freed = self.buffers, self.freed

        def finalizer():
            buffers[number] = None
            freed.append(number)

        return finalizer

    def pointer(self, address, size, finalizer):
        context = weakref.proxy(self.context)
        return cuda.MemoryPointer(context, address, size, finalizer=finalizer)


@pytest.fixture
def use():
    """Replace the context's manager by an instance of a class for one test."""
    context = cuda.current_context()
    before = context.memory_manager

    def put(kind):
        context.memory_manager = kind(context=context)
        return context.memory_manager

    yield put
    gc.collect()
    context.memory_manager = before


def test_the_plugin_of_these_tests_works(use):
    plugin = use(Plugin)
    array = cuda.to_device(np.arange(10.0))
    assert array[2:].copy_to_host().sum() == 44 and plugin.freed == []
    del array
    assert plugin.freed == [0]


# --- addresses and pointers -------------------------------------------------------------


def test_an_address_as_c_uint64_cannot_be_read(use):
    """Both texts of NBEP 7 print it so, and wrap addresses in it."""

    class Wrong(Plugin):
        def pointer(self, address, size, finalizer):
            return super().pointer(ctypes.c_uint64(address), size, finalizer)

    use(Wrong)
    with pytest.raises(ValueError, match="invalid literal for int"):
        cuda.to_device(np.zeros(10))


def test_fewer_bytes_than_were_requested_are_not_noticed(use):
    """If more memory lies behind them, the next array is overwritten."""
    pool = tarn.mr.PoolMemoryResource()

    class Wrong(Plugin):
        def memalloc(self, size):
            buffer = tarn.DeviceBuffer(size=size // 2, stream=tarn.NO_STREAM, mr=pool)
            self.buffers[len(self.buffers)] = buffer
            return self.pointer(buffer.ptr, size, None)

    use(Wrong)
    arrays = [cuda.to_device(np.full(1024, float(i))) for i in range(4)]
    sums = [array.copy_to_host().sum() for array in arrays]
    assert sums != [1024.0 * i for i in range(4)]


def test_an_address_may_be_an_int_or_what_ctypes_has_for_pointers(use):
    for wrap in (int, ctypes.c_void_p, driver.binding.CUdeviceptr):

        class Right(Plugin):
            def pointer(self, address, size, finalizer, wrap=wrap):
                return super().pointer(wrap(address), size, finalizer)

        use(Right)
        assert cuda.to_device(np.ones(10)).copy_to_host().sum() == 10


def test_no_address_as_c_void_p_cannot_be_read():
    with pytest.raises(TypeError):
        cuda.MemoryPointer(cuda.current_context(), ctypes.c_void_p(0), 0)


def test_a_bare_autofreepointer_is_freed_while_its_array_is_there(use, unraisable):
    """It begins with no references; to_device() takes two and drops both. Here the memory itself
    stays, so that the next copy has a destination."""

    class Wrong(Plugin):
        def finalizer(self, number):
            return lambda: self.freed.append(number)

        def pointer(self, address, size, finalizer):
            context = weakref.proxy(self.context)
            return driver.AutoFreePointer(context, address, size, finalizer=finalizer)

    plugin = use(Wrong)
    array = cuda.to_device(np.zeros(10))
    assert plugin.freed == [0]
    del array
    assert "Freeing dead memory" in str(unraisable)
    unraisable.clear()  # their tracebacks keep the memory


def test_what_own_gives_is_right_while_the_pointer_itself_is_kept(use):
    class Right(Plugin):
        def pointer(self, address, size, finalizer):
            context = weakref.proxy(self.context)
            pointer = driver.AutoFreePointer(context, address, size, finalizer=finalizer)
            self.kept = pointer
            return pointer.own()

    plugin = use(Right)
    array = cuda.to_device(np.arange(10.0))
    assert array[2:].copy_to_host().sum() == 44 and plugin.freed == []
    del array
    assert plugin.freed == [0]


def test_a_finalizer_that_holds_its_pointer_is_never_called(use):
    class Wrong(Plugin):
        def pointer(self, address, size, finalizer):
            held = []
            pointer = super().pointer(address, size, lambda: (held, finalizer()))
            held.append(pointer)
            return pointer

    plugin = use(Wrong)
    pointer = cuda.current_context().memalloc(100)
    gone = weakref.ref(pointer)
    del pointer
    gc.collect()
    assert gone() is not None and plugin.freed == []
    gone().free()


def test_a_finalizer_runs_once(use):
    """Memory is freed with the last reference, or by free(), not twice."""
    plugin = use(Plugin)
    pointer = cuda.current_context().memalloc(100)
    owned = pointer.own()
    del owned
    assert plugin.freed == []
    pointer.free()
    with pytest.raises(RuntimeError, match="Freeing dead memory"):
        pointer.free()
    del pointer
    assert plugin.freed == [0]


def test_empty_arrays_ask_for_no_memory(use):
    """An empty array makes no allocation."""
    plugin = use(Plugin)
    assert cuda.device_array(0).__cuda_array_interface__["data"] == (0, False)
    assert "memalloc" not in plugin.calls


# --- handles ----------------------------------------------------------------------------


def test_a_handle_of_64_ctypes_bytes_cannot_be_pickled():
    """A handle as NBEP 7 prints it."""
    handle = cuda.IpcHandle(None, (ctypes.c_byte * 64)(), 100)
    with pytest.raises(AttributeError, match="reserved"):
        pickle.dumps(handle)


# --- the class --------------------------------------------------------------------------


@pytest.fixture
def registry(monkeypatch):
    """Restore Numba's own record of the manager after the test."""
    monkeypatch.setattr(driver, "_memory_manager", None)


def test_a_constructor_that_takes_no_context_is_refused(registry):
    """The constructor as NBEP 7 prints it."""

    class Wrong(Plugin):
        def __init__(self, logging=False):
            self.logging = logging

    with pytest.raises(TypeError, match="context"):
        cuda.set_memory_manager(Wrong)


def test_a_constructor_that_keeps_the_context_to_itself_is_refused(registry):
    class Wrong(Plugin):
        def __init__(self, context):
            super().__init__()

    with pytest.raises(RuntimeError, match="Memory manager requires a context"):
        cuda.set_memory_manager(Wrong)


def test_what_the_draft_calls_prepare_for_use_is_missed_as_initialize(registry):
    """The error names the remaining abstract members."""

    class Wrong(cuda.HostOnlyCUDAMemoryManager):
        def memalloc(self, nbytes, stream=0): ...
        def prepare_for_use(self): ...
        def get_memory_info(self): ...

    with pytest.raises(TypeError, match="abstract") as caught:
        cuda.set_memory_manager(Wrong)
    for name in ("get_ipc_handle", "initialize", "interface_version"):
        assert name in str(caught.value)


def test_host_memory_is_in_one_base_class_and_not_in_the_other():
    """The members that each base class requires."""
    host_only = cuda.HostOnlyCUDAMemoryManager.__abstractmethods__
    assert host_only == {
        "memalloc", "initialize", "get_ipc_handle", "get_memory_info", "interface_version"
    }  # fmt: skip
    more = {"memhostalloc", "mempin", "reset", "defer_cleanup"}
    assert cuda.BaseCUDAMemoryManager.__abstractmethods__ == host_only | more


@pytest.mark.parametrize(
    "version, kind, words",
    [
        (2, RuntimeError, "EMM Plugin interface has version 2 - version 1 required"),
        ("1", TypeError, "real number"),
    ],
)
def test_another_version_is_refused(registry, version, kind, words):
    """The interface version has to be the number 1."""
    wrong = type("Wrong", (Plugin,), {"interface_version": version})
    with pytest.raises(kind, match=words):
        cuda.set_memory_manager(wrong)


def test_registering_makes_an_instance_without_a_context(registry):
    """A constructor must not use CUDA."""
    seen = []

    class Telling(Plugin):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            seen.append(self.context)

    cuda.set_memory_manager(Telling)
    assert seen == [None]


def test_registering_too_late_and_twice_is_not_noticed(registry):
    """Numba has neither check of the draft; tarn.numba has both."""
    context = cuda.current_context()
    manager = context.memory_manager
    cuda.set_memory_manager(Plugin)
    cuda.set_memory_manager(type("Other", (Plugin,), {}))
    assert cuda.current_context().memory_manager is manager


@pytest.mark.parametrize("name", ["no_such_module", "json"])
def test_a_module_of_the_environment_that_does_not_serve_hides_its_reason(
    registry, monkeypatch, name
):
    """The reason is only in the error's __context__."""
    monkeypatch.setattr(driver.config, "CUDA_MEMORY_MANAGER", name)
    with pytest.raises(RuntimeError, match=f"Failed to use memory manager from {name}") as e:
        driver._ensure_memory_manager()
    assert isinstance(e.value.__context__, (ModuleNotFoundError, AttributeError))


# --- Numba's calls, and their times -----------------------------------------------------


def test_initialize_comes_before_every_call(use):
    """Numba calls initialize() before each of its calls."""
    plugin = use(Plugin)
    for _ in range(3):
        cuda.device_array(1)
    assert plugin.calls == ["initialize", "memalloc"] * 3


def test_reset_comes_with_no_context_current(use):
    """Numba resets a manager with no context current."""
    seen = []

    class Telling(Plugin):
        def reset(self):
            seen.append(int(driver.driver.cuCtxGetCurrent()))
            super().reset()

    use(Telling)
    context = cuda.current_context()
    while driver.driver.pop_active_context() is not None:
        pass
    context.memory_manager.reset()
    assert seen == [0]


def test_flags_of_mapped_arrays_do_not_arrive(use):
    """mapped_array() drops the flags; a call of the context passes them on."""
    seen = []

    class Telling(Plugin):
        def memhostalloc(self, size, mapped=False, portable=False, wc=False):
            seen.append((mapped, portable, wc))
            return super().memhostalloc(size, mapped, portable, wc)

    use(Telling)
    cuda.mapped_array(10, portable=True, wc=True)
    cuda.current_context().memhostalloc(80, portable=True, wc=True)
    assert seen == [(True, False, False), (False, True, True)]


def test_managed_memory_is_not_in_the_base_class(use):
    """memallocmanaged() is not in Numba's base class."""
    whole = {
        name: lambda self, *args: None for name in cuda.BaseCUDAMemoryManager.__abstractmethods__
    }
    use(type("Wrong", (cuda.BaseCUDAMemoryManager,), whole))
    with pytest.raises(AttributeError, match="memallocmanaged"):
        cuda.managed_array(10)


def test_numba_does_not_need_memory_info(use):
    """The two texts of NBEP 7 name different exceptions; one class can be both."""

    class Unknown(NotImplementedError, RuntimeError): ...

    class Telling(Plugin):
        def get_memory_info(self):
            raise Unknown("this pool does not count")

    use(Telling)
    assert cuda.to_device(np.ones(10)).copy_to_host().sum() == 10
    for kind in (NotImplementedError, RuntimeError):
        with pytest.raises(kind):
            cuda.current_context().get_memory_info()


def test_without_a_capacity_every_free_of_mapped_memory_flushes(use):
    """The limit is a fifth of the capacity, which is 0 until it is set."""
    plugin = use(Plugin)
    assert plugin.deallocations.memory_capacity == 0
    for capacity, pending in ((0, 0), (1 << 30, 1)):
        plugin.deallocations.memory_capacity = capacity
        array = cuda.mapped_array(10)
        del array
        assert len(plugin.deallocations) == pending
    plugin.deallocations.clear()


def test_leaving_defer_cleanup_flushes_nothing(use):
    """It ends the deferral; the next free over the limit flushes."""
    plugin = use(Plugin)
    plugin.deallocations.memory_capacity = 1 << 30
    with cuda.defer_cleanup():
        for _ in range(12):
            cuda.mapped_array(10)
        assert len(plugin.deallocations) == 12
    assert len(plugin.deallocations) == 12
    cuda.mapped_array(10)
    assert len(plugin.deallocations) == 0


def test_defer_cleanup_without_the_base_class_does_not_hold_host_memory_back(use):
    """Only the base class's defer_cleanup() defers Numba's host memory."""

    class Wrong(Plugin):
        @contextlib.contextmanager
        def defer_cleanup(self):
            yield

    plugin = use(Wrong)
    with cuda.defer_cleanup():
        array = cuda.mapped_array(10)
        del array
        assert len(plugin.deallocations) == 0


def test_only_numbas_own_error_makes_it_flush_and_try_again(use):
    plugin = use(Plugin)
    for error, tries in ((MemoryError(), 1), (out_of_memory(), 2)):
        plugin.tries = 0

        def allocator(error=error):
            plugin.tries += 1
            raise error

        with pytest.raises(type(error)):
            plugin._attempt_allocation(allocator)
        assert plugin.tries == tries


def out_of_memory():
    code = driver.binding.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    return driver.CudaAPIError(code, "none left")


def test_a_finalizer_that_goes_by_address_frees_what_came_after_it(use):
    """A reset frees blocks. When the finalizer of the first one runs, another block may have its
    address."""

    class Wrong(Plugin):
        def memalloc(self, size):
            buffer = tarn.DeviceBuffer(size=size, stream=tarn.NO_STREAM)
            self.buffers[buffer.ptr] = buffer
            return self.pointer(buffer.ptr, size, self.finalizer(buffer.ptr))

        def reset(self):
            super().reset()
            self.buffers.clear()

    plugin = use(Wrong)
    old = cuda.device_array(100)
    plugin.reset()
    new = cuda.device_array(100)
    assert new.device_ctypes_pointer.value == old.device_ctypes_pointer.value
    del old
    assert plugin.buffers == {new.device_ctypes_pointer.value: None}
