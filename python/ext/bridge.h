/* bridge.h -- resources that are written in Python, for C code. */
#ifndef TARN_PYTHON_BRIDGE_H
#define TARN_PYTHON_BRIDGE_H

#include "state.h"

/* A C resource that calls `object`'s allocate() and deallocate(); keeps it alive. */
tarn_resource *tarn__bridge_create(tarn__state *state, PyObject *object, int device);

/* The object behind a bridge, borrowed; NULL for all other resources. */
PyObject *tarn__bridge_object(const tarn_resource *resource);

#endif
