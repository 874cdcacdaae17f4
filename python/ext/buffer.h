/* buffer.h -- the object behind tarn.DeviceBuffer, shared by buffer.c and copies.c. */
#ifndef TARN_PYTHON_BUFFER_H
#define TARN_PYTHON_BUFFER_H

#include "state.h"

typedef struct tarn__buffer {
    PyObject_HEAD tarn_device_ptr block; /* 0: nothing is allocated */
    size_t bytes;                        /* what the user sees; <= capacity */
    size_t capacity;                     /* what was asked of the resource for `block` */
    tarn_resource *resource;             /* retained; NULL: not initialised */
    PyObject *mr;                        /* the object of `resource`; strong */
    tarn_stream stream;                  /* on which `block` goes back */
    PyObject *stream_owner; /* the object behind `stream`, so that it stays valid */
    int device;             /* for copies */
} tarn__buffer;

/* Queue a copy of `bytes` (0: nothing) between two addresses on `stream`, and wait for it
 * if `wait` is set or if RMM would. 0, or -1 with an exception set. */
int tarn__buffer_transfer(tarn__buffer *self, tarn_device_ptr to, tarn_device_ptr from,
                          size_t bytes, tarn_stream stream, bool wait);

/* Add the methods of copies.c to the type: copy_to_host, copy_from_host,
 * copy_from_device, tobytes, pickling. 0, or -1 with an exception set. */
int tarn__buffer_add_copies(PyObject *type);

/* For tables of methods with keyword arguments. */
#define TARN__WITH_KEYWORDS(function) (PyCFunction)(void (*)(void))(function)

#endif
