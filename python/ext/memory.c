/* memory.c -- tarn._tarn.MemoryPointer: the object for a block in Numba's arrays.
 *
 * tarn.numba derives a class from this type and from the MemoryPointer of the installed
 * Numba, so that an instance is one of Numba's. Numba's class provides views, own() and
 * memset(). The attributes that every array reads, and the end of the block, are here.
 * The block is freed with the object: a Python finalizer, which Numba's own class has,
 * costs more than all the rest.
 */
#include "error.h"
#include "module.h"
#include "pointer.h"

#include <stddef.h>
#include <structmember.h>

static int memory_traverse(tarn__memory_object *self, visitproc visit, void *arg)
{
    Py_VISIT(self->context);
    Py_VISIT(self->address);
    Py_VISIT(self->memsize);
    return tarn__pointer_traverse(&self->block, visit, arg);
}

static int memory_clear(tarn__memory_object *self)
{
    Py_CLEAR(self->context);
    Py_CLEAR(self->address);
    Py_CLEAR(self->memsize);
    return tarn__pointer_clear(&self->block);
}

static void memory_dealloc(tarn__memory_object *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    memory_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

PyDoc_STRVAR(
    free_doc,
    "free($self)\n--\n\n"
    "Free the block now.\n\n"
    "Raises RuntimeError if it was freed before, and TarnError if the free failed.");

static PyObject *memory_free(tarn__memory_object *self, PyObject *unused)
{
    TARN__CALL;
    tarn_status status = TARN_OK;

    (void)unused;
    if (!tarn__pointer_drop_reference(&self->block, &status)) {
        PyErr_SetString(PyExc_RuntimeError, "Freeing dead memory");
        return NULL;
    }
    if (status != TARN_OK)
        return tarn__error_raise(tarn__state_of(Py_TYPE(self)), status);
    Py_RETURN_NONE;
}

/* Created at its first use: most arrays never need it. Two threads may request it at
 * once, and get the same. */
static PyObject *get_address(tarn__memory_object *self, void *unused)
{
    (void)unused;
    if (!self->address) {
        PyObject *made =
            PyObject_CallMethod((PyObject *)Py_TYPE(self), "_as_address", "K",
                                (unsigned long long)self->block.address);
        if (!made)
            return NULL;
        if (self->address)
            Py_DECREF(made);
        else
            self->address = made;
    }
    return Py_NewRef(self->address);
}

static PyObject *get_address_value(tarn__memory_object *self, void *unused)
{
    (void)unused;
    if (self->block.address == 0)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong(self->block.address);
}

static PyObject *get_size(tarn__memory_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(self->block.bytes);
}

static PyObject *get_memsize(tarn__memory_object *self, void *unused)
{
    return self->memsize ? Py_NewRef(self->memsize) : get_size(self, unused);
}

static int set_memsize(tarn__memory_object *self, PyObject *value, void *unused)
{
    (void)unused;
    Py_XSETREF(self->memsize, Py_XNewRef(value)); /* deleted: the size again */
    return 0;
}

static PyObject *get_owner(tarn__memory_object *self, void *unused)
{
    (void)unused;
    return Py_NewRef((PyObject *)self);
}

static PyObject *get_true(tarn__memory_object *self, void *unused)
{
    (void)self;
    (void)unused;
    Py_RETURN_TRUE;
}

static PyGetSetDef memory_fields[] = {
    {"device_pointer", (getter)get_address, NULL,
     "Address for the device, in Numba's type.", NULL},
    {"handle", (getter)get_address, NULL,
     "Address for the device, in Numba's type; the same as device_pointer.", NULL},
    {"device_pointer_value", (getter)get_address_value, NULL,
     "Address for the device, an int; None if the block is empty.", NULL},
    {"size", (getter)get_size, NULL, "Size in bytes.", NULL},
    {"_cuda_memsize_", (getter)get_memsize, (setter)set_memsize,
     "Size in bytes, or the value that was assigned.", NULL},
    {"owner", (getter)get_owner, NULL, "This object.", NULL},
    {"is_managed", (getter)get_true, NULL, "True: the object frees its memory.", NULL},
    {0},
};

static PyMemberDef memory_members[] = {
    {"context", T_OBJECT_EX, offsetof(tarn__memory_object, context), 0,
     "Weak proxy of Numba's context."},
    {"refct", T_PYSSIZET, offsetof(tarn__memory_object, refct), 0,
     "The count of Numba's views; the lifetime of the memory does not depend on it."},
    {0},
};

static PyMethodDef memory_methods[] = {
    {"free", (PyCFunction)memory_free, METH_NOARGS, free_doc},
    {NULL, NULL, 0, NULL},
};

PyDoc_STRVAR(
    memory_doc,
    "A Pointer for Numba's arrays: the base of the MemoryPointers of tarn.numba.");

static PyType_Slot memory_slots[] = {
    {Py_tp_doc, (void *)memory_doc},   {Py_tp_dealloc, memory_dealloc},
    {Py_tp_traverse, memory_traverse}, {Py_tp_clear, memory_clear},
    {Py_tp_methods, memory_methods},   {Py_tp_getset, memory_fields},
    {Py_tp_members, memory_members},   {0, NULL},
};

static PyType_Spec memory_spec = {
    .name = "tarn._tarn.MemoryPointer",
    .basicsize = sizeof(tarn__memory_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = memory_slots,
};

int tarn__memory_init(PyObject *module)
{
    tarn__state *state = tarn__state_get(module);

    return tarn__state_add_type(module, &memory_spec, state->Pointer,
                                &state->MemoryPointer);
}
