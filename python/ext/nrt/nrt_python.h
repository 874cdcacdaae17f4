/* nrt_python.h -- what the files of the extension `_nrt_python` share.
 *
 * Numba's own extension of that name is replaced by this one (tarn/nrt/_finder.py). It has
 * no counted memory of its own: that is libtarn's. Here is what touches Python: the class
 * MemInfo, NumPy arrays and buffers from and to compiled code, and the table of addresses
 * that Numba's compiler asks for.
 *
 * Compiled code calls these functions by address, in any thread that holds the GIL, with
 * no module at hand. So the class is one a process, made with the first module and never
 * freed; that is also why there is none in a subinterpreter.
 */
#ifndef TARN_PYTHON_NRT_H
#define TARN_PYTHON_NRT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <tarn/nrt.h>

/* --- meminfo.c --- */

/* The class MemInfo as an attribute of `module`: 0, or -1 with an exception set. */
int tarn__nrt_add_meminfo(PyObject *module);

/* A new MemInfo over `data`, which belongs to `owner`: a reference to the owner is kept
 * until the last release. NULL where there is no memory, no exception set. GIL held. */
NRT_MemInfo *tarn__nrt_meminfo_of_owner(void *data, PyObject *owner);

/* The object around a MemInfo. It takes over one reference, if it succeeds. NULL with an
 * exception set. */
PyObject *tarn__nrt_meminfo_wrap(NRT_MemInfo *meminfo);

/* The MemInfo of an object, with a reference more; NULL with a TypeError or ValueError. */
NRT_MemInfo *tarn__nrt_meminfo_unwrap(PyObject *object);

/* --- arrays.c --- */

/* An array as compiled code sees it; the layout is Numba's (its _arraystruct.h). */
struct tarn__nrt_array {
    NRT_MemInfo *meminfo; /* one reference, or NULL */
    PyObject *parent;     /* borrowed: what it was unpacked from; NULL: made in there */
    Py_ssize_t items;
    Py_ssize_t item_bytes;
    void *data;
    Py_ssize_t shape_and_strides[];
};

int tarn__nrt_array_from_ndarray(PyObject *object, struct tarn__nrt_array *array);
void tarn__nrt_array_from_buffer(Py_buffer *buffer, struct tarn__nrt_array *array);
PyObject *tarn__nrt_array_to_ndarray(struct tarn__nrt_array *array, PyTypeObject *type,
                                     int dimensions, int writeable, PyObject *dtype);

/* --- helpers.c --- */

/* The table of addresses, c_helpers: a new dict. */
PyObject *tarn__nrt_helpers(void);

#endif
