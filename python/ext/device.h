/* device.h -- the current device resource, as a Python object. */
#ifndef TARN_PYTHON_DEVICE_H
#define TARN_PYTHON_DEVICE_H

#include "state.h"

/* The current device resource of a device (-1: of the current one) as a Python object.
 * New reference. */
PyObject *tarn__device_resource(tarn__state *state, int device);

#endif
