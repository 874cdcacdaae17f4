/* arrays.c -- NumPy arrays and buffers from and to compiled code.
 *
 * An array that goes into compiled code gets a MemInfo whose destructor releases the
 * Python object. An array that comes out unchanged is that very object. Any other becomes
 * a new array whose base is a MemInfo object.
 */
#include "numpy_abi.h"
#include "nrt_python.h"
#include <stdbool.h>

static void **numpy;       /* NumPy's table; NULL until the first array */
static bool dtype_is_of_1; /* NumPy 1.x's layout */

/* Get NumPy's table, once: true, or false with an exception set. This is not done at
 * import, so that the extension works without NumPy. */
static bool find_numpy(void)
{
    if (numpy != NULL)
        return true;
    PyObject *module = PyImport_ImportModule("numpy._core._multiarray_umath");
    if (module == NULL && PyErr_ExceptionMatches(PyExc_ModuleNotFoundError)) {
        PyErr_Clear();
        module = PyImport_ImportModule("numpy.core._multiarray_umath");
    }
    PyObject *capsule =
        module != NULL ? PyObject_GetAttrString(module, "_ARRAY_API") : NULL;
    void **table = capsule != NULL ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    Py_XDECREF(module);
    Py_XDECREF(capsule);
    if (table == NULL)
        return false;
    dtype_is_of_1 = ((numpy_abi_version)table[NUMPY_ABI_VERSION])() < 0x02000000;
    numpy = table;
    return true;
}

static bool is_ndarray(PyObject *object)
{
    return PyObject_TypeCheck(object, (PyTypeObject *)numpy[NUMPY_ARRAY_TYPE]);
}

static Py_ssize_t dtype_bytes(PyObject *dtype)
{
    return dtype_is_of_1 ? ((struct numpy_dtype_1 *)dtype)->elsize
                         : ((struct numpy_dtype_2 *)dtype)->elsize;
}

/* --- into compiled code --- */

/* Fill in shape, strides and the number of items. */
static void set_shape(struct tarn__nrt_array *array, int dimensions,
                      const Py_ssize_t *shape, const Py_ssize_t *strides)
{
    array->items = 1;
    for (int i = 0; i < dimensions; i++) {
        array->shape_and_strides[i] = shape[i];
        array->shape_and_strides[dimensions + i] = strides[i];
        array->items *= shape[i];
    }
}

/* 0; -1 if it is no array or there is no memory; then Numba's compiled code raises. */
int tarn__arrays_from_ndarray(PyObject *object, struct tarn__nrt_array *array)
{
    if (!find_numpy() || !is_ndarray(object))
        return -1;
    struct numpy_array *source = (struct numpy_array *)object;
    NRT_MemInfo *meminfo = tarn__meminfo_of_owner(source->data, object);
    if (meminfo == NULL)
        return -1;
    array->meminfo = meminfo;
    array->parent = object;
    array->item_bytes = dtype_bytes(source->descr);
    array->data = source->data;
    set_shape(array, source->nd, source->dimensions, source->strides);
    return 0;
}

/* Wrap a buffer. Without an owner its memory has to outlive the call; the caller
 * guarantees that. */
void tarn__arrays_from_buffer(Py_buffer *buffer, struct tarn__nrt_array *array)
{
    if (buffer->obj != NULL)
        array->meminfo = tarn__meminfo_of_owner(buffer->buf, buffer->obj);
    array->parent = buffer->obj;
    array->item_bytes = buffer->itemsize;
    array->data = buffer->buf;
    set_shape(array, buffer->ndim, buffer->shape, buffer->strides);
}

/* --- out of compiled code --- */

/* Is the result still `object`, unchanged? An exception of a comparison means no. */
static bool is_unchanged(const struct tarn__nrt_array *array, PyObject *object,
                         int dimensions, PyObject *dtype)
{
    const struct numpy_array *source = (struct numpy_array *)object;
    const Py_ssize_t *shape = array->shape_and_strides;

    if (!is_ndarray(object) || source->data != array->data || source->nd != dimensions)
        return false;
    for (int i = 0; i < dimensions; i++) {
        if (source->dimensions[i] != shape[i] ||
            source->strides[i] != shape[dimensions + i])
            return false;
    }
    if (source->descr == dtype)
        return true;
    PyObject *descr = Py_NewRef(source->descr); /* the array may get another one */
    int same = PyObject_RichCompareBool(descr, dtype, Py_EQ);
    Py_DECREF(descr);
    if (same < 0)
        PyErr_Clear();
    return same > 0;
}

/* A new array over the data; `base` (may be NULL) is taken over, also on failure. */
static PyObject *make_ndarray(const struct tarn__nrt_array *array, PyTypeObject *type,
                              int dimensions, PyObject *dtype, PyObject *base)
{
    const Py_ssize_t *shape = array->shape_and_strides;
    numpy_new_from_descr make = (numpy_new_from_descr)numpy[NUMPY_NEW_FROM_DESCR];
    numpy_set_base_object set_base = (numpy_set_base_object)numpy[NUMPY_SET_BASE_OBJECT];

    PyObject *made = make(type, Py_NewRef(dtype), dimensions, shape, shape + dimensions,
                          array->data, 0, base);
    if (made == NULL) {
        Py_XDECREF(base);
        return NULL;
    }
    if (base != NULL && set_base(made, base) != 0)
        Py_CLEAR(made);
    return made;
}

/* Box an array: an object of `type` (ndarray, or a class derived from it). The object
 * gets a reference of its own; the caller keeps that of `array`. NULL with an exception
 * set. */
PyObject *tarn__arrays_to_ndarray(struct tarn__nrt_array *array, PyTypeObject *type,
                                  int dimensions, int writeable, PyObject *dtype)
{
    PyObject *base = NULL;

    if (!find_numpy())
        return NULL;
    if (dtype == NULL ||
        !PyObject_TypeCheck(dtype, (PyTypeObject *)numpy[NUMPY_DTYPE_TYPE]))
        return PyErr_Format(PyExc_TypeError, "expected a dtype, got %.200s",
                            dtype != NULL ? Py_TYPE(dtype)->tp_name : "NULL");
    if (array->parent != NULL && is_unchanged(array, array->parent, dimensions, dtype))
        return Py_NewRef(array->parent);
    if (array->meminfo != NULL) {
        base = tarn__meminfo_wrap(array->meminfo);
        if (base == NULL)
            return NULL;
        NRT_MemInfo_acquire(array->meminfo);
    }
    PyObject *made = make_ndarray(array, type, dimensions, dtype, base);
    if (made != NULL) {
        int *flags = &((struct numpy_array *)made)->flags;
        *flags = writeable ? *flags | NUMPY_WRITEABLE : *flags & ~NUMPY_WRITEABLE;
    }
    return made;
}
