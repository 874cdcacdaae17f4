/* device.h -- the current resource of each device: one registry per process.
 *
 * - A device without a resource of its own uses its cuda resource.
 * - The registry retains each resource that it holds.
 * - Readers receive a reference of their own, because another thread may replace the
 *   resource at any time.
 */
#ifndef TARN_DEVICE_H
#define TARN_DEVICE_H

#include <tarn/resource.h>

TARN_BEGIN_DECLS

/** @addtogroup tarn_device
 * @{ */

/**
 * Return the current resource of a device.
 *
 * If no resource was set, the call makes the cuda resource current.
 *
 * Thread-safety: any thread.
 *
 * @param device    The device number.
 * @param[out] out  The resource, retained; the caller releases it.
 * @return
 * - TARN_OK: `*out` is set.
 * - TARN_INVALID_ARGUMENT: there is no such device, or `out` is NULL.
 * - TARN_NO_DRIVER: no driver is open, and the call could not open one.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1
 */
TARN_API tarn_status tarn_device_resource(int device, tarn_resource **out);

/**
 * Test whether a resource is the current resource of a device.
 *
 * The function takes no lock and no reference. It is for a caller that keeps a reference
 * and tests it often.
 *
 * Thread-safety: any thread.
 *
 * @param device    The device number.
 * @param resource  The resource; borrowed. NULL: false.
 * @return true if tarn_device_resource() would return `resource` now. false if the
 *         process has neither set nor requested a resource of the device yet.
 * @since 0.2
 */
TARN_API bool tarn_device_resource_is(int device, const tarn_resource *resource);

/**
 * Set the current resource of a device.
 *
 * With `previous_out` the caller receives the reference of the registry to the previous
 * resource. Without it the registry releases the previous resource. If that release fails
 * because blocks are live and no other owner exists, the previous resource stays current.
 *
 * Thread-safety: any thread.
 *
 * @param device             The device number.
 * @param resource           The resource; retained. NULL: the cuda resource of the
 *                           device.
 * @param[out] previous_out  The previous resource; the caller owns its reference. May be
 *                           NULL.
 * @return
 * - TARN_OK: the resource is current.
 * - TARN_INVALID_ARGUMENT: there is no such device, or `resource` belongs to another
 *   device or to none.
 * - TARN_STILL_IN_USE: `previous_out` is NULL and the previous resource has to stay.
 * - TARN_NO_DRIVER: no driver is open, and the call could not open one.
 * - TARN_OUT_OF_MEMORY: host memory is exhausted.
 * @since 0.1
 */
TARN_API tarn_status tarn_device_set_resource(int device, tarn_resource *resource,
                                              tarn_resource **previous_out);

/**
 * Return the current resource of the current device.
 *
 * It is tarn_device_resource() for the device of the current context of the calling
 * thread. Without a current context the device is 0.
 *
 * Thread-safety: any thread.
 *
 * @param[out] out  The resource, retained; the caller releases it.
 * @return The statuses of tarn_driver_current_device() and tarn_device_resource().
 * @since 0.2
 */
TARN_API tarn_status tarn_current_device_resource(tarn_resource **out);

/**
 * Set the current resource of the current device.
 *
 * It is tarn_device_set_resource() for the device of the current context of the calling
 * thread. Without a current context the device is 0.
 *
 * Thread-safety: any thread.
 *
 * @param resource           The resource; retained. NULL: the cuda resource of the
 *                           device.
 * @param[out] previous_out  The previous resource; the caller owns its reference. May be
 *                           NULL.
 * @return The statuses of tarn_driver_current_device() and tarn_device_set_resource().
 * @since 0.2
 */
TARN_API tarn_status tarn_set_current_device_resource(tarn_resource *resource,
                                                      tarn_resource **previous_out);

/** @} */

TARN_END_DECLS
#endif
