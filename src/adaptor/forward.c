/* forward.c -- the part of an adaptor that only forwards queries.
 *
 * Each adaptor counts its own blocks, as its upstream may serve other callers too. (Tarn
 * counts for a table without live_blocks.) The upstream knows the requested bytes of a
 * live block.
 */
#include "adaptor/forward.h"
#include "resource/internal.h"
#include <stdlib.h>

static tarn_resource *upstream_of(const void *self)
{
    return ((const struct tarn__adaptor *)self)->upstream;
}

tarn_status tarn__forward_create(const tarn_resource_ops *ops, struct tarn__adaptor *self,
                                 tarn_resource *upstream, tarn_resource **out)
{
    tarn_resource_ops fitting = *ops;

    /* A missing operation is how a resource reports that a value is unknown. */
    if (!tarn_resource_supports_memory_info(upstream))
        fitting.memory_info = NULL;
    self->upstream = upstream;
    tarn_status status = tarn_resource_create_with_upstream(
        &fitting, self, tarn_resource_device(upstream), upstream, out);
    if (status == TARN_OK)
        tarn_resource_retain(upstream);
    return status;
}

/* An upstream whose own blocks are live cannot end: its release fails. Then its last
 * owner was this adaptor, no owner can free those blocks, and it is leaked with them. */
void tarn__forward_end(struct tarn__adaptor *self)
{
    tarn__resource_release_or_warn(self->upstream);
}

void tarn__forward_destroy(void *self)
{
    tarn__forward_end(self);
    free(self);
}

tarn_status tarn__forward_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                     size_t alignment, tarn_stream stream)
{
    return tarn_resource_deallocate(upstream_of(self), block, bytes, alignment, stream);
}

tarn_status tarn__forward_memory_info(void *self, tarn_stream stream, size_t *free_out,
                                      size_t *total_out)
{
    return tarn_resource_memory_info(upstream_of(self), stream, free_out, total_out);
}

bool tarn__forward_supports_streams(const void *self)
{
    return tarn_resource_supports_streams(upstream_of(self));
}

bool tarn__forward_deallocate_synchronizes(const void *self)
{
    return tarn_resource_deallocate_synchronizes(upstream_of(self));
}

bool tarn__forward_supports_no_stream(const void *self)
{
    return tarn_resource_supports_no_stream(upstream_of(self));
}

tarn_status tarn__forward_trim(void *self, size_t keep_bytes, size_t *released_out)
{
    return tarn_resource_trim(upstream_of(self), keep_bytes, released_out);
}

tarn_status tarn__forward_requested_bytes(void *self, tarn_device_ptr block, size_t *out)
{
    return tarn_resource_requested_bytes(upstream_of(self), block, out);
}

void tarn__forward_empty_request(void *self, bool is_free, tarn_stream stream)
{
    tarn_device_ptr none;

    if (is_free)
        tarn_resource_deallocate(upstream_of(self), 0, 0, 0, stream);
    else
        tarn_resource_allocate(upstream_of(self), 0, 0, stream, &none);
}

/* Return the adaptor of this module that a resource is, or NULL. */
static const struct tarn__adaptor *adaptor_of(const tarn_resource *resource)
{
    static const tarn_resource_ops *const tables[] = {&tarn__limiter_ops,
                                                      &tarn__counter_ops,
                                                      &tarn__logger_ops,
                                                      &tarn__prefetcher_ops,
                                                      &tarn__failure_callback_ops,
                                                      &tarn__tracker_ops,
                                                      &tarn__guard_ops,
                                                      NULL};
    const struct tarn__adaptor *self = NULL;

    for (const tarn_resource_ops *const *table = tables; !self && *table; table++)
        self = tarn_resource_self(resource, *table);
    return self;
}

tarn_resource *tarn__forward_find_pool(tarn_resource *resource)
{
    while (resource && !resource->is_pool) {
        const struct tarn__adaptor *self = adaptor_of(resource);
        resource = self ? self->upstream : NULL;
    }
    return resource;
}

tarn_status tarn_adaptor_upstream(tarn_resource *adaptor, tarn_resource **out)
{
    if (!adaptor || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "adaptor: upstream: adaptor or out is NULL");
    const struct tarn__adaptor *self = adaptor_of(adaptor);
    if (!self)
        return tarn_error_set(TARN_NOT_SUPPORTED, "adaptor: %s is not an adaptor of Tarn",
                              tarn_resource_name(adaptor));
    *out = tarn_resource_retain(self->upstream);
    return TARN_OK;
}
