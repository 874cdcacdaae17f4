/* host_only.h -- the device of the host-only operations. */
#ifndef TARN_MANAGER_HOST_ONLY_H
#define TARN_MANAGER_HOST_ONLY_H

#include <tarn/manager.h>

/* Make the operations of tarn_host_only_*() on this thread use `device` until the next
 * call, whatever context is current. -1: the device of the current context. Return the
 * value before. */
int tarn__host_only_serve(int device);

#endif
