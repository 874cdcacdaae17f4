/* handles.h -- handles as the real driver gives them out: the one that was given back
 * last is the next one. A handle is the address of a slot that is never unmapped.
 */
#ifndef TARN_SIM_HANDLES_H
#define TARN_SIM_HANDLES_H

#include "base/map.h"

struct sim_handles {
    struct tarn__map objects; /* from handle to object */
    struct sim_slots *blocks; /* where the slots lie, newest first */
    void **free;              /* given back, the last one on top */
    size_t free_count;
    size_t slots; /* handles ever made; `free` has room for all of them */
};

#define SIM_HANDLES {.objects = {.value_bytes = sizeof(void *), .stride = 16}}

/* A handle for `object`; NULL: no host memory. Locked, as all here. */
void *sim_handle_give(struct sim_handles *handles, void *object);

/* The object of `handle`, or NULL. */
void *sim_handle_find(const struct sim_handles *handles, const void *handle);

/* Is `handle` one, or was it one? */
bool sim_handle_was_one(const struct sim_handles *handles, const void *handle);

/* `handle`, which is one, names nothing any more, but is not given out yet; */
void sim_handle_close(struct sim_handles *handles, void *handle);

/* now it may be. */
void sim_handle_reuse(struct sim_handles *handles, void *handle);

/* Both. */
void sim_handle_take(struct sim_handles *handles, void *handle);

#endif
