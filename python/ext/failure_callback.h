/* failure_callback.h -- the C adaptor of a FailureCallbackResourceAdaptor. */
#ifndef TARN_PYTHON_FAILURE_CALLBACK_H
#define TARN_PYTHON_FAILURE_CALLBACK_H

#include "state.h"

/* Create a failure callback that calls `object._ask(nbytes)`, and refers to the object
 * weakly. On failure tarn__error_raise() raises the exception. GIL held. */
tarn_status tarn__failure_callback_create(tarn_resource *upstream, PyObject *object,
                                          tarn_resource **out);

#endif
