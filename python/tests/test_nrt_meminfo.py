"""The class MemInfo: it supports Numba's operations, and raises errors for crashes of Numba's."""

import ctypes
import gc
import weakref

import numpy as np
import pytest
import tarn.nrt
from nrt_process import on_tarn
from numba import njit
from numba.core.registry import cpu_target
from numba.core.runtime import _nrt_python as core
from numba.core.runtime import nrt, rtsys


@pytest.fixture(autouse=True)
def initialized():
    assert hasattr(core, "tarn_version")
    rtsys.initialize(cpu_target.target_context)


@njit
def empty(n):
    return np.empty(n)


def test_it_has_everything_that_numbas_module_has():
    names = "memsys_use_cpython_allocator memsys_shutdown memsys_get_stats_alloc"
    names += " memsys_get_stats_free memsys_get_stats_mi_alloc memsys_get_stats_mi_free"
    names += " memsys_stats_enabled memsys_enable_stats memsys_disable_stats meminfo_new"
    names += " meminfo_alloc meminfo_alloc_safe _MemInfo c_helpers"
    assert set(names.split()) <= set(dir(core))
    helpers = "adapt_ndarray_from_python adapt_ndarray_to_python_acqref"
    helpers += " adapt_buffer_from_python meminfo_new_from_pyobject meminfo_as_pyobject"
    helpers += " meminfo_from_pyobject MemInfo_alloc MemInfo_alloc_safe MemInfo_alloc_aligned"
    helpers += " MemInfo_alloc_safe_aligned MemInfo_alloc_safe_aligned_external"
    helpers += " _nrt_get_sample_external_allocator MemInfo_alloc_dtor MemInfo_alloc_dtor_safe"
    helpers += " MemInfo_call_dtor MemInfo_new_varsize MemInfo_new_varsize_dtor"
    helpers += " MemInfo_varsize_alloc MemInfo_data MemInfo_varsize_free"
    helpers += " MemInfo_varsize_realloc MemInfo_release Allocate Free get_api"
    assert set(core.c_helpers) == set(helpers.split()) and all(core.c_helpers.values())


def test_an_object_without_a_meminfo_refuses():
    empty_handed = nrt.MemInfo.__new__(nrt.MemInfo)
    for use in (
        lambda: empty_handed.data, lambda: empty_handed.refcount, empty_handed.acquire,
        empty_handed.release, lambda: empty_handed.parent, lambda: memoryview(empty_handed),
        lambda: empty_handed.external_allocator,
    ):  # fmt: skip
        with pytest.raises(ValueError, match="invalid MemInfo"):
            use()


def test_a_number_that_is_no_meminfo_refuses():
    ordinary = ctypes.create_string_buffer(256)
    address = ctypes.addressof(ordinary) + 64
    for number in (0, 5, 8, 2**47, 2**64 - 8, address - address % 16, id(None)):
        with pytest.raises(ValueError, match="invalid MemInfo: no MemInfo at"):
            nrt.MemInfo(number)
    with pytest.raises(TypeError):
        nrt.MemInfo("text")


NEAR_THE_EDGE = """
import ctypes, mmap, os
from numba.core.runtime import nrt
libc, page = ctypes.CDLL(None), mmap.PAGESIZE
pages = mmap.mmap(-1, 3 * page)
first = ctypes.addressof(ctypes.c_char.from_buffer(pages))
for number in 0, 2:
    assert libc.mprotect(ctypes.c_void_p(first + number * page), page, 0) == 0
for offset in 0, 8, 16, page - 48, page - 40, page - 8:
    try:
        nrt.MemInfo(first + page + offset)
    except ValueError as error:
        assert "no MemInfo at" in str(error)
    else:
        raise AssertionError(offset)
print("refused", flush=True)
os._exit(0)  # the end of the interpreter frees no unreadable pages
"""


def test_an_address_beside_memory_that_cannot_be_read_refuses():
    assert on_tarn(NEAR_THE_EDGE) == "refused"


def test_one_that_is_gone_is_none():
    address = core.meminfo_alloc(100)
    meminfo = nrt.MemInfo(address)
    assert meminfo.refcount == 1
    del meminfo
    with pytest.raises(ValueError):
        nrt.MemInfo(address)


def test_one_is_initialised_once():
    """It holds one reference. A second call would lose that, or take another one."""
    first, second = rtsys.meminfo_alloc(8), rtsys.meminfo_alloc(8)
    address = core.meminfo_alloc(100)
    meminfo = nrt.MemInfo(address)
    for other in (address, core.meminfo_alloc(100)):
        with pytest.raises(ValueError, match="initialised only once"):
            meminfo.__init__(other)
    assert meminfo.refcount == first.refcount == second.refcount == 1
    nrt.MemInfo(other)


def test_the_parent_is_the_owner_and_nothing_else():
    owner = bytearray(8)
    address = ctypes.addressof(ctypes.c_char.from_buffer(owner))
    meminfo = rtsys.meminfo_new(address, owner)
    assert meminfo.parent is owner and meminfo.data == address
    assert rtsys.meminfo_alloc(8).parent is None
    assert rtsys.meminfo_alloc(8, safe=True).parent is None  # Numba's crashes here


def test_the_parent_under_debug_nrt_is_none():  # Numba's crashes here
    program = """
import numpy as np
from numba import njit
made = njit(lambda: np.empty(5))()
print(made.base.parent, made.view(np.uint8)[0])
"""
    assert "None 203" in on_tarn(program, NUMBA_DEBUG_NRT="1").splitlines()


def test_the_owner_lives_as_long_as_the_meminfo():
    class Owner:
        pass

    owner = Owner()
    alive = weakref.ref(owner)
    meminfo = rtsys.meminfo_new(0xDEADCAFE, owner)
    del owner
    assert alive() is not None and meminfo.refcount == 1
    del meminfo
    assert alive() is None


def test_a_second_release_is_refused_and_counted():
    meminfo = rtsys.meminfo_alloc(64)
    program = """
from numba.core.registry import cpu_target
from numba.core.runtime import rtsys
import tarn.nrt
rtsys.initialize(cpu_target.target_context)
meminfo = rtsys.meminfo_alloc(64)
meminfo.release()
del meminfo
print(tarn.nrt.stats().misuses, tarn.nrt.stats().mi_alloc, tarn.nrt.stats().mi_free)
"""
    assert on_tarn(program) == "1 1 1"
    assert meminfo.refcount == 1


def test_sizes_that_cannot_be_are_refused():
    alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)
    aligned = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint)
    assert alloc(core.c_helpers["MemInfo_alloc"])(2**64 - 40) is None
    assert aligned(core.c_helpers["MemInfo_alloc_aligned"])(2**64 - 10, 32) is None
    address = aligned(core.c_helpers["MemInfo_alloc_aligned"])(100, 0)
    assert nrt.MemInfo(address).data
    with pytest.raises(ValueError):
        core.meminfo_alloc(-1)
    with pytest.raises(MemoryError):
        rtsys.meminfo_alloc(2**60)


# --- arrays in and out ---------------------------------------------------------------------


@njit
def same(a):
    return a


@njit
def middle(a):
    return a[1:-1]


def test_an_array_that_comes_out_unchanged_is_the_one_that_went_in():
    for array in (np.arange(6), np.arange(6.0).reshape(2, 3).T, np.zeros((2, 0))):
        assert same(array) is array


def test_a_part_keeps_the_whole_alive():
    array = np.arange(10)
    part = middle(array)
    assert part.base.parent is array and part.base.refcount == 1
    del array
    gc.collect()
    assert part.tolist() == list(range(1, 9))
    part[0] = 7


def test_an_array_made_inside_has_a_meminfo_as_its_base():
    made = empty(5)
    assert type(made.base) is nrt.MemInfo and made.base.refcount == 1
    assert made.flags.writeable and made.flags.c_contiguous and made.ctypes.data % 32 == 0


def test_what_may_not_be_written_stays_so():
    array = np.arange(6.0)
    array.flags.writeable = False
    part = middle(array)
    assert not part.flags.writeable


def test_buffers_go_in():
    @njit
    def total(a):
        found = 0
        for item in a:
            found += item
        return found

    assert total(memoryview(bytearray(b"\1\2\3"))) == 6
    assert total(bytearray(b"\1\2\3")) == 6


def test_no_references_are_lost():
    class Array(np.ndarray):
        pass

    arrays = [np.arange(10), np.arange(6.0).reshape(2, 3)]
    before = tarn.nrt.stats()
    for _ in range(100):
        for array in arrays:
            same(array), middle(array)
    after = tarn.nrt.stats()
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free == 400
    alive = weakref.ref(arrays[0])
    del array, arrays
    assert alive() is None


def test_a_meminfo_goes_into_compiled_code_and_comes_back():
    through = njit(lambda meminfo: meminfo)
    meminfo = rtsys.meminfo_alloc(32)
    back = through(meminfo)
    assert back.data == meminfo.data and meminfo.refcount == 2
    del back
    assert meminfo.refcount == 1


def test_classes_derived_from_ndarray_are_made():
    helper = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_int, ctypes.c_int,
        ctypes.py_object,
    )(core.c_helpers["adapt_ndarray_to_python_acqref"])  # fmt: skip

    class Mine(np.ndarray):
        pass

    address = core.meminfo_alloc(24)
    meminfo = nrt.MemInfo(address)
    words = (ctypes.c_ssize_t * 7)(address, 0, 3, 8, meminfo.data, 3, 8)
    made = helper(ctypes.addressof(words), Mine, 1, 1, np.dtype(float))
    assert type(made) is Mine and meminfo.refcount == 2 and made.base.data == meminfo.data
    with pytest.raises(TypeError, match="expected a dtype, got int"):
        helper(ctypes.addressof(words), Mine, 1, 1, 5)
    words[5] = -1  # an impossible dimension: nothing is lost
    with pytest.raises(ValueError):
        helper(ctypes.addressof(words), Mine, 1, 1, np.dtype(float))
    del made
    assert meminfo.refcount == 1


def test_an_array_whose_dtype_cannot_be_compared_is_made_anew():
    """At the limit of recursion the comparison raises an exception."""
    helper = ctypes.PYFUNCTYPE(ctypes.py_object)(core.c_helpers["adapt_ndarray_to_python_acqref"])
    array, equal = np.zeros(3, [("field", "i4")]), np.dtype([("field", "i4")])
    words = (ctypes.c_ssize_t * 7)(0, id(array), 3, 4, array.ctypes.data, 3, 4)
    given = (
        ctypes.byref(words), ctypes.py_object(np.ndarray), ctypes.c_int(1), ctypes.c_int(1),
        ctypes.py_object(equal),
    )  # fmt: skip
    assert helper(*given) is array
    made = []

    def deeper():
        made.append(helper(*given))
        deeper()

    with pytest.raises(RecursionError) as caught:
        deeper()
    assert "comparison" not in str(caught.value)
    assert all(one.tolist() == array.tolist() for one in made)


def test_memory_of_any_size_lies_where_it_was_asked_to():
    aligned = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint)
    make = aligned(core.c_helpers["MemInfo_alloc_aligned"])
    before = tarn.nrt.stats()
    made = []
    for size in (0, 1, 8, 1000, 1088, 1089, 5000, 100000, 3000000):
        for align in (0, 1, 3, 8, 16, 32, 48, 64, 256, 4096):
            meminfo = nrt.MemInfo(make(size, align))
            assert meminfo.data % (align or 16) == 0
            ctypes.memset(meminfo.data, len(made), size)
            made.append((meminfo, size))
    for number, (meminfo, size) in enumerate(made):
        assert bytes(memoryview(meminfo)) == bytes([number]) * size
    after = tarn.nrt.stats()
    assert after.mi_alloc - before.mi_alloc == len(made)
    assert after.bytes_live - before.bytes_live == sum(size for _, size in made)
    del made, meminfo
    assert tarn.nrt.stats().bytes_live == before.bytes_live
