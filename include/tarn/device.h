/* device.h -- which resource serves which GPU: one registry a process (E19, E31). */
#ifndef TARN_DEVICE_H
#define TARN_DEVICE_H

#include <tarn/resource.h>

TARN_BEGIN_DECLS

/** The resource of `device`, retained for the caller; the cuda resource where none was
 * set. Any thread. */
TARN_API tarn_status tarn_device_resource(int device, tarn_resource **out);

/** Is it `resource` that tarn_device_resource() would give now? A look that takes no lock and
 * no reference, for who has kept one and asks often. False where no resource was asked for
 * or set yet. Any thread. */
TARN_API bool tarn_device_resource_is(int device, const tarn_resource *resource);

/** Put `resource` (NULL: the default) in charge of `device`; the registry takes a
 * reference of its own. `*previous_out` (may be NULL) is the one before, its reference
 * now the caller's. A resource of another device, or of none, is TARN_INVALID_ARGUMENT.
 * With `previous_out` NULL the registry lets go of the one before; if blocks of that are
 * out and nobody else owns it, it stays in charge: TARN_STILL_IN_USE. Any thread. */
TARN_API tarn_status tarn_device_set_resource(int device, tarn_resource *resource,
                                              tarn_resource **previous_out);

/** The same for the device of the calling thread's current context (0 without one). */
TARN_API tarn_status tarn_current_device_resource(tarn_resource **out);
TARN_API tarn_status tarn_set_current_device_resource(tarn_resource *resource,
                                                      tarn_resource **previous_out);

TARN_END_DECLS
#endif
