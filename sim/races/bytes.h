/* bytes.h -- the accesses to each byte of memory that the driver knows. */
#ifndef TARN_SIM_BYTES_H
#define TARN_SIM_BYTES_H

#include "sim/races/timeline.h"

/* Check `access` to these bytes and remember it. */
void sim_bytes_touch(const struct sim_access *access, uintptr_t start, size_t bytes,
                     bool is_write);

/* Forget all accesses to these bytes; to any; and the races found. */
void sim_bytes_forget(uintptr_t start, size_t bytes);
void sim_bytes_forget_all(void);

#endif
