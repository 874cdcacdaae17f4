/* meminfo.c -- the Python object around a MemInfo, and Python objects as owners of data.
 *
 * An object of this class owns one reference. An array from compiled code has one as its
 * base; `arr.base.refcount` shows the count to a program.
 *
 * A program may create one itself from an address. Numba's class accepts any number, and
 * then crashes. Here the address has to be readable and a live MemInfo.
 */
#define _GNU_SOURCE
#include "nrt_python.h"
#include <errno.h>
#include <stdbool.h>
#include <signal.h>
#include <stdint.h>
#include <structmember.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct {
    PyObject_HEAD NRT_MemInfo *meminfo; /* one reference; NULL: none yet, all methods
                                         * fail */
} MemInfo;

static PyTypeObject *meminfo_type; /* one per process, see nrt_python.h */

/* --- owners --- */

#if PY_VERSION_HEX < 0x030d0000
#define Py_IsFinalizing _Py_IsFinalizing
#endif

/* While Python ends, a thread that requests the GIL does not get it. */
static bool interpreter_is_gone(void)
{
    return !Py_IsInitialized() ||
           (Py_IsFinalizing() && PyGILState_GetThisThreadState() == NULL);
}

/* The last release of a MemInfo over a Python object's data. At the very end of a process
 * there is no interpreter to call, and the object's memory ends with the process. */
static void release_owner(void *data, size_t size, void *owner)
{
    PyObject *type, *value, *traceback;

    (void)data;
    (void)size;
    if (interpreter_is_gone())
        return;
    PyGILState_STATE state = PyGILState_Ensure();
    PyErr_Fetch(&type, &value, &traceback); /* compiled code may be about to raise it */
    Py_DECREF((PyObject *)owner);
    PyErr_Restore(type, value, traceback);
    PyGILState_Release(state);
}

NRT_MemInfo *tarn__meminfo_of_owner(void *data, PyObject *owner)
{
    NRT_MemInfo *meminfo = NRT_MemInfo_new(data, 0, release_owner, owner);

    if (meminfo != NULL)
        Py_INCREF(owner);
    return meminfo;
}

/* --- is this address a MemInfo? --- */

/* Can 8 bytes be read at `address`? The kernel reads the set before it rejects the
 * unknown way to change a signal mask; nothing is changed. */
static int is_readable(uintptr_t address)
{
    int before = errno;
    long code = syscall(SYS_rt_sigprocmask, ~0, address, NULL, 8);
    int readable = code == 0 || errno != EFAULT;

    errno = before;
    return readable;
}

/* A live MemInfo of libtarn: 0, or -1 with a ValueError. */
static int check_address(void *address)
{
    uintptr_t number = (uintptr_t)address;

    if (number > 16 && number % 8 == 0 && is_readable(number - 16) &&
        is_readable(number + 40) && tarn_meminfo_runtime(address) != NULL)
        return 0;
    PyErr_Format(PyExc_ValueError, "invalid MemInfo: no MemInfo at %p", address);
    return -1;
}

static NRT_MemInfo *meminfo_of(PyObject *self)
{
    NRT_MemInfo *meminfo = ((MemInfo *)self)->meminfo;

    if (meminfo == NULL)
        PyErr_SetString(PyExc_ValueError, "invalid MemInfo");
    return meminfo;
}

/* --- the class --- */

static int meminfo_init(PyObject *self, PyObject *arguments, PyObject *names)
{
    static char *keywords[] = {"ptr", NULL};
    PyObject *number;

    if (!PyArg_ParseTupleAndKeywords(arguments, names, "O", keywords, &number))
        return -1;
    void *address = PyLong_AsVoidPtr(number);
    if (PyErr_Occurred() || check_address(address) != 0)
        return -1;
    if (((MemInfo *)self)->meminfo != NULL) {
        PyErr_SetString(PyExc_ValueError, "a MemInfo can be initialised only once");
        return -1;
    }
    ((MemInfo *)self)->meminfo = address;
    return 0;
}

static void meminfo_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    NRT_MemInfo *meminfo = ((MemInfo *)self)->meminfo;

    if (meminfo != NULL)
        NRT_MemInfo_release(meminfo);
    type->tp_free(self);
    Py_DECREF(type);
}

static int meminfo_getbuffer(PyObject *self, Py_buffer *view, int flags)
{
    NRT_MemInfo *meminfo = meminfo_of(self);

    if (meminfo == NULL) {
        view->obj = NULL;
        return -1;
    }
    return PyBuffer_FillInfo(view, self, NRT_MemInfo_data(meminfo),
                             (Py_ssize_t)NRT_MemInfo_size(meminfo), 0, flags);
}

static PyObject *meminfo_acquire(PyObject *self, PyObject *Py_UNUSED(none))
{
    NRT_MemInfo *meminfo = meminfo_of(self);

    if (meminfo == NULL)
        return NULL;
    NRT_MemInfo_acquire(meminfo);
    Py_RETURN_NONE;
}

static PyObject *meminfo_release(PyObject *self, PyObject *Py_UNUSED(none))
{
    NRT_MemInfo *meminfo = meminfo_of(self);

    if (meminfo == NULL)
        return NULL;
    NRT_MemInfo_release(meminfo);
    Py_RETURN_NONE;
}

static PyObject *meminfo_data(PyObject *self, void *Py_UNUSED(closure))
{
    NRT_MemInfo *meminfo = meminfo_of(self);

    return meminfo != NULL ? PyLong_FromVoidPtr(NRT_MemInfo_data(meminfo)) : NULL;
}

static PyObject *meminfo_refcount(PyObject *self, void *Py_UNUSED(closure))
{
    NRT_MemInfo *meminfo = meminfo_of(self);

    if (meminfo == NULL)
        return NULL;
    size_t count = NRT_MemInfo_refcount(meminfo);
    if (count != (size_t)-1)
        return PyLong_FromSize_t(count);
    PyErr_SetString(PyExc_ValueError, "invalid MemInfo");
    return NULL;
}

static PyObject *meminfo_external_allocator(PyObject *self, void *Py_UNUSED(closure))
{
    NRT_MemInfo *meminfo = meminfo_of(self);

    return meminfo != NULL ? PyLong_FromVoidPtr(NRT_MemInfo_external_allocator(meminfo))
                           : NULL;
}

/* The Python object that owns the data. Other MemInfos have a destructor or a size in the
 * same field, and no object. */
static PyObject *meminfo_parent(PyObject *self, void *Py_UNUSED(closure))
{
    NRT_MemInfo *meminfo = meminfo_of(self);

    if (meminfo == NULL)
        return NULL;
    void *owner;
    if (!tarn_meminfo_has_destructor(meminfo, release_owner, &owner))
        Py_RETURN_NONE;
    return Py_NewRef((PyObject *)owner);
}

static PyMethodDef meminfo_methods[] = {
    {"acquire", meminfo_acquire, METH_NOARGS,
     "acquire($self)\n--\n\n"
     "Add a reference."},
    {"release", meminfo_release, METH_NOARGS,
     "release($self)\n--\n\n"
     "Drop a reference; the last one frees the memory."},
    {0},
};

static PyGetSetDef meminfo_getsets[] = {
    {"data", meminfo_data, NULL, "Address of the data.", NULL},
    {"refcount", meminfo_refcount, NULL, "Number of references.", NULL},
    {"external_allocator", meminfo_external_allocator, NULL,
     "Address of the block's own allocator; 0: it has none.", NULL},
    {"parent", meminfo_parent, NULL, "The Python object that owns the data, or None.",
     NULL},
    {0},
};

PyDoc_STRVAR(meminfo_doc,
             "_MemInfo(ptr)\n--\n\n"
             "A reference to the MemInfo at an address, which is dropped with "
             "the object.");

static PyType_Slot meminfo_slots[] = {
    {Py_tp_doc, (void *)meminfo_doc},     {Py_tp_init, meminfo_init},
    {Py_tp_new, PyType_GenericNew},       {Py_tp_dealloc, meminfo_dealloc},
    {Py_tp_methods, meminfo_methods},     {Py_tp_getset, meminfo_getsets},
    {Py_bf_getbuffer, meminfo_getbuffer}, {0, NULL},
};

static PyType_Spec meminfo_spec = {
    .name = "_nrt_python._MemInfo",
    .basicsize = sizeof(MemInfo),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = meminfo_slots,
};

int tarn__meminfo_init(PyObject *module)
{
    if (meminfo_type == NULL)
        meminfo_type = (PyTypeObject *)PyType_FromSpec(&meminfo_spec);
    if (meminfo_type == NULL)
        return -1;
    return PyModule_AddObjectRef(module, "_MemInfo", (PyObject *)meminfo_type);
}

PyObject *tarn__meminfo_wrap(NRT_MemInfo *meminfo)
{
    MemInfo *self = PyObject_New(MemInfo, meminfo_type);

    if (self != NULL)
        self->meminfo = meminfo;
    return (PyObject *)self;
}

NRT_MemInfo *tarn__meminfo_unwrap(PyObject *object)
{
    if (!PyObject_TypeCheck(object, meminfo_type)) {
        PyErr_Format(PyExc_TypeError, "%R is not a MemInfo", object);
        return NULL;
    }
    NRT_MemInfo *meminfo = meminfo_of(object);
    if (meminfo != NULL)
        NRT_MemInfo_acquire(meminfo);
    return meminfo;
}
