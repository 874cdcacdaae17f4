/* quiesce.h -- wait until the device has done all work. */
#ifndef TARN_DRIVER_QUIESCE_H
#define TARN_DRIVER_QUIESCE_H

#include "driver/driver.h"

/* In a relaxed scope: wait until the device has done all work, without invalidating a
 * capture.
 */
CUresult_ tarn__quiesce_device(const struct tarn__calls *calls);

#endif
