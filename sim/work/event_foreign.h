/* event_foreign.h -- events that another process has recorded. */
#ifndef TARN_SIM_EVENT_FOREIGN_H
#define TARN_SIM_EVENT_FOREIGN_H

#include "sim/work/event.h"

/* Return true if another process recorded it last. Then *number is that record's number.
 */
bool sim_event_foreign_is_last(const struct sim_event *event, uint64_t *number);

/* Make `stream` wait for record `number` of another process; or make the host wait for
 * it. They may release the lock meanwhile. */
CUresult sim_event_foreign_order(struct sim_event *event, uint64_t number,
                                 struct sim_stream *stream);
CUresult sim_event_foreign_synchronize(struct sim_event *event, uint64_t number);

#endif
