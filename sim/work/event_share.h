/* event_share.h -- the part of an interprocess event that processes share: its numbered
 * records, and which of them are complete.
 *
 * An interprocess event has a page of its own in a memfd, and so costs a descriptor. A
 * handle names the process and the descriptor, as those of memory do (ipc.c). Each
 * process that opened the event maps the page. So the page stays valid when the process
 * that created the event destroys it or ends.
 */
#ifndef TARN_SIM_EVENT_SHARE_H
#define TARN_SIM_EVENT_SHARE_H

#include "sim/core/cuda.h"
#include <stdbool.h>

struct sim_event_share; /* counted; under the lock, except for wait */

/* Create the share of a new event; open the share that another process's handle names.
 */
CUresult sim_event_share_create(struct sim_event_share **out);
CUresult sim_event_share_open(const CUipcEventHandle *handle,
                              struct sim_event_share **out);
void sim_event_share_retain(struct sim_event_share *share);
void sim_event_share_release(struct sim_event_share *share);

/* Get the handle for other processes. False: the share was itself opened, and has none.
 */
bool sim_event_share_handle(const struct sim_event_share *share, CUipcEventHandle *out);

/* Count a record by this process and return its number. Later mark that record complete.
 */
uint64_t sim_event_share_record(struct sim_event_share *share);
void sim_event_share_complete(struct sim_event_share *share, uint64_t number);

/* The number of the last record of any process; 0: there is none. */
uint64_t sim_event_share_last(const struct sim_event_share *share);

/* Return true if record `number` is complete. That of a process that ended is complete.
 */
bool sim_event_share_is_done(struct sim_event_share *share, uint64_t number);

/* Sleep until it may be complete, or for a short time. Without the lock. */
void sim_event_share_wait(struct sim_event_share *share, uint64_t number);

#endif
