/* visible.h -- CUDA_VISIBLE_DEVICES: which devices a process sees, and in which order. */
#ifndef TARN_SIM_VISIBLE_H
#define TARN_SIM_VISIBLE_H

#include "sim/cuda.h"

/* The identity of the device with that number, the same in every process. */
void sim_uuid_of(int number, CUuuid *out);

/* Read `text` (NULL: all are visible) for `count` devices: their numbers to `numbers`, which
 * has room for all. Returns how many. */
int sim_visible_devices(const char *text, int count, int *numbers);

#endif
