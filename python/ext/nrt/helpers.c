/* helpers.c -- the addresses that Numba's compiler registers for compiled code.
 *
 * Numba registers every entry of c_helpers with LLVM as "NRT_" + name, or by its name
 * alone where that begins with "_".
 */
#include "nrt_python.h"

typedef void (*address)(void);

struct helper {
    const char *name;
    address function;
};

#define CORE(name) {#name, (address)NRT_##name}
#define ADAPTOR(name, function) {#name, (address)(function)}

static const struct helper helpers[] = {
    ADAPTOR(adapt_ndarray_from_python, tarn__arrays_from_ndarray),
    ADAPTOR(adapt_ndarray_to_python_acqref, tarn__arrays_to_ndarray),
    ADAPTOR(adapt_buffer_from_python, tarn__arrays_from_buffer),
    ADAPTOR(meminfo_new_from_pyobject, tarn__meminfo_of_owner),
    ADAPTOR(meminfo_as_pyobject, tarn__meminfo_wrap),
    ADAPTOR(meminfo_from_pyobject, tarn__meminfo_unwrap),
    CORE(MemInfo_alloc),
    CORE(MemInfo_alloc_safe),
    CORE(MemInfo_alloc_aligned),
    CORE(MemInfo_alloc_safe_aligned),
    CORE(MemInfo_alloc_safe_aligned_external),
    {"_nrt_get_sample_external_allocator", (address)_nrt_get_sample_external_allocator},
    CORE(MemInfo_alloc_dtor),
    CORE(MemInfo_alloc_dtor_safe),
    CORE(MemInfo_call_dtor),
    CORE(MemInfo_new_varsize),
    CORE(MemInfo_new_varsize_dtor),
    CORE(MemInfo_varsize_alloc),
    CORE(MemInfo_data),
    CORE(MemInfo_varsize_free),
    CORE(MemInfo_varsize_realloc),
    CORE(MemInfo_release),
    CORE(Allocate),
    CORE(Free),
    CORE(get_api),
};

static int add(PyObject *table, const struct helper *helper)
{
    PyObject *number = PyLong_FromVoidPtr((void *)(uintptr_t)helper->function);
    int code = number != NULL ? PyDict_SetItemString(table, helper->name, number) : -1;

    Py_XDECREF(number);
    return code;
}

PyObject *tarn__helpers_table(void)
{
    PyObject *table = PyDict_New();

    for (size_t i = 0; table != NULL && i < sizeof helpers / sizeof *helpers; i++) {
        if (add(table, &helpers[i]) != 0)
            Py_CLEAR(table);
    }
    return table;
}
