/* log_observer.h -- writes the rows of all memory that comes from resources. */
#ifndef TARN_PYTHON_LOG_OBSERVER_H
#define TARN_PYTHON_LOG_OBSERVER_H

#include "state.h"

/* Set whether this thread runs a call of a manager, which logs the call itself. Return
 * the previous value. */
bool tarn__log_observer_serve_manager(bool serves);

#endif
