/* visible.h -- CUDA_VISIBLE_DEVICES: the devices that a process sees, and their order.
 */
#ifndef TARN_SIM_VISIBLE_H
#define TARN_SIM_VISIBLE_H

#include "sim/core/cuda.h"

/* The UUID of the device with that number, the same in every process. */
void sim_visible_uuid(int number, CUuuid *out);

/* Read `text` (NULL: all are visible) for `count` devices: write their numbers to
 * `numbers`, which has capacity for all. Return the number of visible devices. */
int sim_visible_devices(const char *text, int count, int *numbers);

#endif
