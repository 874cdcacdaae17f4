/* stack.c -- the bound on the depth of stacked resources.
 *
 * An adaptor calls its upstream, and its end releases it. The use of the thread's stack
 * therefore grows with the number of stacked resources: a hundred thousand would overflow
 * it. A resource knows how many are beneath it, and creation fails above the bound.
 *
 * A binning resource gets more resources beneath it after its creation. The resources
 * above have counted its depth as it was, so the depth is final once there is one above.
 * This also prevents putting it beneath itself.
 */
#include "resource/internal.h"

tarn_status tarn__stack_over(const char *component, tarn_resource *upstream,
                             unsigned *depth_out)
{
    *depth_out = 0;
    if (!upstream)
        return TARN_OK;
    unsigned depth = atomic_fetch_or(&upstream->depth, TARN__DEPTH_IS_FINAL);
    *depth_out = (depth & ~TARN__DEPTH_IS_FINAL) + 1;
    if (*depth_out <= TARN_RESOURCE_DEPTH_MAX)
        return TARN_OK;
    return tarn_error_set(
        TARN_INVALID_ARGUMENT,
        "%s: upstream %s has %u resources below it, at most %d can be stacked", component,
        upstream->ops.name, *depth_out - 1, TARN_RESOURCE_DEPTH_MAX);
}

void tarn__stack_reserve(tarn_resource *resource)
{
    unsigned depth = atomic_load(&resource->depth);

    if (depth < TARN_RESOURCE_DEPTH_MAX)
        atomic_store(&resource->depth, depth + 1);
}

tarn_status tarn__stack_widen(tarn_resource *resource, tarn_resource *beneath)
{
    unsigned wanted, depth = atomic_load(&resource->depth);
    tarn_status status = tarn__stack_over(resource->ops.name, beneath, &wanted);

    while (status == TARN_OK && (depth & ~TARN__DEPTH_IS_FINAL) < wanted) {
        if (depth & TARN__DEPTH_IS_FINAL)
            return tarn_error_set(TARN_STILL_IN_USE,
                                  "%s: cannot add %s, which has %u resources below it: "
                                  "%s has a resource above it, its depth is fixed at %u",
                                  resource->ops.name, beneath->ops.name, wanted - 1,
                                  resource->ops.name, depth & ~TARN__DEPTH_IS_FINAL);
        if (atomic_compare_exchange_weak(&resource->depth, &depth, wanted))
            break;
    }
    return status;
}
