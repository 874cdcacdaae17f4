/* place.h -- the kind of memory at an address. Locked, as are all functions here. */
#ifndef TARN_SIM_PLACE_H
#define TARN_SIM_PLACE_H

#include "sim/core/queue.h"

/* The kind of memory at an address: it decides how the driver treats a copy. */
enum sim_place {
    PLACE_BAD,      /* not memory, freed, or shorter than the copy */
    PLACE_PAGEABLE, /* host memory that the driver has not registered */
    PLACE_PINNED,   /* pinned or registered host memory */
    PLACE_MANAGED,
    PLACE_DEVICE,
};

/* The kind of the `bytes` (not 0) at `address`. */
enum sim_place sim_place_of(uintptr_t address, size_t bytes);

/* The same for work on `stream`. If it captures, or is NULL (the graph is built by
 * hand), memory that graphs allocate is valid too. */
enum sim_place sim_place_for(const struct sim_stream *stream, uintptr_t address,
                             size_t bytes);

/* Return true if the devices access such memory. Memory that is not registered they access
 * where an option gives them that attribute. */
bool sim_place_is_accessible(enum sim_place place);

/* Return true if `address` is in the address range of any device, allocated or not. */
bool sim_place_is_device(uintptr_t address);

#endif
