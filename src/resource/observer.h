/* observer.h -- the observer of public calls, for the functions that it observes. */
#ifndef TARN_RESOURCE_OBSERVER_H
#define TARN_RESOURCE_OBSERVER_H

#include "resource/intercept.h"

/* Return true if this call is not inside another one that the observer or the
 * interceptor sees. */
bool tarn__observer_call_is_outermost(void);

/* Begin and end the observation of an allocation, which the end reports. The caller has
 * set the arguments of the call in `event`, and a successful one sets the block. */
void tarn__observer_begin_allocation(tarn_observer_event *event);
void tarn__observer_end_allocation(tarn_observer_event *event, tarn_status status);

/* Begin and end the observation of a free. Both report it. */
void tarn__observer_begin_free(tarn_observer_event *event);
void tarn__observer_end_free(tarn_observer_event *event, tarn_status status);

/* Hide the calls of this thread from the observer and the interceptor. A pool does so for its upstream, which
 * it also calls when the program creates or trims it, and on its own thread. The result
 * is for tarn__observer_show_calls(), which ends it. */
bool tarn__observer_hide_calls(void);
void tarn__observer_show_calls(bool before);

#endif
