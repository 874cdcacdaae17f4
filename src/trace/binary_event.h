/* binary_event.h -- the rows and records of a binary log as the types of trace.h. */
#ifndef TARN_TRACE_BINARY_EVENT_H
#define TARN_TRACE_BINARY_EVENT_H

#include "trace/binary_merge.h"
#include "trace/binary_names.h"
#include "trace/delivery.h"

/* Set what a row itself has: all but the location. False: this version does not know its
 * action. */
bool tarn__binary_event_of(const struct tarn__binary_item *item, tarn_trace_event *out);

/* Pass a record of the kind POOL on. `*is_valid` is false if its sizes are wrong. */
tarn_status tarn__binary_event_deliver_pool(const struct tarn__delivery *delivery,
                                            const struct tarn__binary_names *names,
                                            const struct tarn__binary_item *item,
                                            bool *is_valid);

#endif
