/* numpy_abi.h -- the few parts of NumPy's C interface that arrays.c needs, declared here.
 *
 * With NumPy's own headers, the build of Tarn would need NumPy, and would be tied to one
 * of its two binary interfaces. The struct of an array has been the same since 1.7.
 * Entries of the function table never move. Of a dtype only the offset of its size
 * differs between 1.x and 2.x. python/tests/test_nrt_numpy.py compares these declarations
 * with the headers of the installed NumPy.
 */
#ifndef TARN_PYTHON_NUMPY_ABI_H
#define TARN_PYTHON_NUMPY_ABI_H

#include <Python.h>

struct numpy_array {
    PyObject ob_base;
    char *data;
    int nd;
    Py_ssize_t *dimensions;
    Py_ssize_t *strides;
    PyObject *base;
    PyObject *descr;
    int flags;
};

/* A dtype up to its size, as NumPy 1.x and 2.x have it. */
struct numpy_dtype_1 {
    PyObject ob_base;
    PyTypeObject *typeobj;
    char kind, type, byteorder, flags;
    int type_num;
    int elsize;
};

struct numpy_dtype_2 {
    PyObject ob_base;
    PyTypeObject *typeobj;
    char kind, type, byteorder, former_flags;
    int type_num;
    uint64_t flags;
    Py_ssize_t elsize;
};

enum {
    NUMPY_WRITEABLE = 0x0400,

    /* Indices in the table `_ARRAY_API`. */
    NUMPY_ABI_VERSION = 0,
    NUMPY_ARRAY_TYPE = 2,
    NUMPY_DTYPE_TYPE = 3,
    NUMPY_NEW_FROM_DESCR = 94,
    NUMPY_SET_BASE_OBJECT = 282
};

typedef unsigned int (*numpy_abi_version)(void);
/* Takes over the reference to the dtype, also on failure. */
typedef PyObject *(*numpy_new_from_descr)(PyTypeObject *type, PyObject *dtype, int nd,
                                          const Py_ssize_t *shape,
                                          const Py_ssize_t *strides, void *data,
                                          int flags, PyObject *finalize_from);
/* Takes over the reference to the base, also on failure. */
typedef int (*numpy_set_base_object)(PyObject *array, PyObject *base);

#endif
