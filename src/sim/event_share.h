/* event_share.h -- what processes share of an event: its records, numbered, and which of
 * them are done.
 *
 * An event made for it has a page of its own in a memfd, and so costs a descriptor. A
 * handle names the process and the descriptor, as those of memory do (ipc.c). Each
 * process that opened the event has the page mapped, so it stays good when the one that
 * made it destroys it or ends.
 */
#ifndef TARN_SIM_EVENT_SHARE_H
#define TARN_SIM_EVENT_SHARE_H

#include "sim/cuda.h"
#include <stdbool.h>

struct sim_event_share; /* counted; under the lock, but for wait */

/* One of a new event; of that which another process's handle names. */
CUresult sim_event_share_create(struct sim_event_share **out);
CUresult sim_event_share_open(const CUipcEventHandle *handle,
                              struct sim_event_share **out);
void sim_event_share_retain(struct sim_event_share *share);
void sim_event_share_release(struct sim_event_share *share);

/* The handle for others. False: it was opened itself, and has none. */
bool sim_event_share_handle(const struct sim_event_share *share, CUipcEventHandle *out);

/* This process records the event: the number of the record. Later the record is done. */
uint64_t sim_event_share_record(struct sim_event_share *share);
void sim_event_share_reach(struct sim_event_share *share, uint64_t number);

/* The number of the last record, whoever made it; 0: there is none. */
uint64_t sim_event_share_last(const struct sim_event_share *share);

/* Is record `number` done? That of a process that is gone is. */
bool sim_event_share_is_done(struct sim_event_share *share, uint64_t number);

/* Sleep until it may be done, for a while. Without the lock. */
void sim_event_share_wait(struct sim_event_share *share, uint64_t number);

#endif
