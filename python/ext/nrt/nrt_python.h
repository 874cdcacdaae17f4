/* nrt_python.h -- shared declarations of the extension `_nrt_python`.
 *
 * This extension replaces Numba's own extension of that name (tarn/nrt/_finder.py). Its
 * counted memory is libtarn's. It has the parts that use Python: the class MemInfo, NumPy
 * arrays and buffers from and to compiled code, and the table of addresses that Numba's
 * compiler needs.
 *
 * Compiled code calls these functions by address, in any thread that holds the GIL, with
 * no module available. So there is one class per process, created with the first module
 * and never freed. For the same reason there is none in a subinterpreter.
 */
#ifndef TARN_PYTHON_NRT_H
#define TARN_PYTHON_NRT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <tarn/nrt.h>

/* --- meminfo.c --- */

/* The class MemInfo as an attribute of `module`: 0, or -1 with an exception set. */
int tarn__meminfo_init(PyObject *module);

/* A new MemInfo over `data`, which belongs to `owner`: it keeps a reference to the owner
 * until the last release. NULL without an exception where there is no memory. GIL held.
 */
NRT_MemInfo *tarn__meminfo_of_owner(void *data, PyObject *owner);

/* The object around a MemInfo. It takes over one reference on success. NULL with an
 * exception set. */
PyObject *tarn__meminfo_wrap(NRT_MemInfo *meminfo);

/* Retain the MemInfo of an object; NULL with a TypeError or ValueError. */
NRT_MemInfo *tarn__meminfo_unwrap(PyObject *object);

/* --- arrays.c --- */

/* An array in the layout of compiled code, which is Numba's (its _arraystruct.h). */
struct tarn__nrt_array {
    NRT_MemInfo *meminfo; /* one reference, or NULL */
    PyObject *parent;     /* borrowed: the object it came from; NULL: made in compiled
                           * code */
    Py_ssize_t items;
    Py_ssize_t item_bytes;
    void *data;
    Py_ssize_t shape_and_strides[];
};

int tarn__arrays_from_ndarray(PyObject *object, struct tarn__nrt_array *array);
void tarn__arrays_from_buffer(Py_buffer *buffer, struct tarn__nrt_array *array);
PyObject *tarn__arrays_to_ndarray(struct tarn__nrt_array *array, PyTypeObject *type,
                                  int dimensions, int writeable, PyObject *dtype);

/* --- helpers.c --- */

/* The table of addresses, c_helpers: a new dict. */
PyObject *tarn__helpers_table(void);

#endif
