/* pool.h -- pools from arguments. */
#ifndef TARN_PYTHON_POOL_H
#define TARN_PYTHON_POOL_H

#include "state.h"

/* The C resource of an object that has to be a pool, borrowed; NULL with an exception
 * set. */
tarn_resource *tarn__pool_of(tarn__state *state, PyObject *object);

#endif
