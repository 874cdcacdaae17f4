/* handles.h -- handles in the order of the real driver: the handle released last is the
 * next one. A handle is the address of a slot that is never unmapped. */
#ifndef TARN_SIM_HANDLES_H
#define TARN_SIM_HANDLES_H

#include "base/map.h"

struct sim_handles {
    struct tarn__map objects; /* from handle to object */
    struct sim_slots *blocks; /* the memory of the slots, newest first */
    void **free;              /* released slots, the last one on top */
    size_t free_count;
    size_t slots; /* handles ever made; `free` has capacity for all of them */
};

#define SIM_HANDLES {.objects = {.value_bytes = sizeof(void *), .stride = 16}}

/* A handle for `object`; NULL: no host memory. Locked, as are all functions here. */
void *sim_handles_create(struct sim_handles *handles, void *object);

/* The object of `handle`, or NULL. */
void *sim_handles_find(const struct sim_handles *handles, const void *handle);

/* Return true if `handle` is or was a handle. */
bool sim_handles_is_known(const struct sim_handles *handles, const void *handle);

/* Detach `handle`, which is valid, from its object without making it reusable. */
void sim_handles_close(struct sim_handles *handles, void *handle);

/* Make a closed handle reusable. */
void sim_handles_reuse(struct sim_handles *handles, void *handle);

/* Do both. */
void sim_handles_release(struct sim_handles *handles, void *handle);

#endif
