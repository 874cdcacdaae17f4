/* exception.h -- the current exception, as one object. */
#ifndef TARN_PYTHON_EXCEPTION_H
#define TARN_PYTHON_EXCEPTION_H

#include "state.h"

/* Take the current exception away, as one object (NULL: there is none); and set it again.
 * Put takes over the reference. */
PyObject *tarn__exception_take(void);
void tarn__exception_put(PyObject *exception);

#endif
