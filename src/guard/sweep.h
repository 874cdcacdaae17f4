/* sweep.h -- the check of all blocks of a device on request. */
#ifndef TARN_GUARD_SWEEP_H
#define TARN_GUARD_SWEEP_H

#include "guard/workspace.h"

/* Check all blocks on a device on which the guard has a workspace. Waits for the device. */
tarn_status tarn__sweep_device(struct tarn__guard *guard, int device);

#endif
