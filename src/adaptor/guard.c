/* guard.c -- a resource with guard mode over its upstream, and the public calls on guards.
 */
#include "guard/guard.h"
#include "adaptor/forward.h"
#include "guard/allocations.h"
#include "guard/frees.h"
#include "guard/grammar.h"
#include "guard/process.h"
#include <stdlib.h>

struct guard_adaptor {
    struct tarn__adaptor adaptor; /* where the blocks come from */
    struct tarn__guard *guard;    /* owned */
    _Atomic uint64_t allocations; /* counts up to the next sample */
    /* Counted here, since the guard recognizes a second free also while none is live. */
    atomic_size_t live_blocks;
};

static tarn_status guard_allocate(void *self, size_t bytes, size_t alignment,
                                  tarn_stream stream, tarn_device_ptr *out)
{
    struct guard_adaptor *own = self;
    uint64_t number =
        atomic_fetch_add_explicit(&own->allocations, 1, memory_order_relaxed);

    tarn_status status =
        number % own->guard->options.sample == 0
            ? tarn__allocations_allocate(own->guard, own->adaptor.upstream, bytes,
                                         alignment, stream, out)
            : tarn_resource_allocate(own->adaptor.upstream, bytes, alignment, stream,
                                     out);

    if (status == TARN_OK)
        atomic_fetch_add(&own->live_blocks, 1);
    tarn__process_check_at_exit();
    return status;
}

static tarn_status guard_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                    size_t alignment, tarn_stream stream)
{
    struct guard_adaptor *own = self;

    tarn_status status = tarn__frees_deallocate(own->guard, own->adaptor.upstream, block,
                                                bytes, alignment, stream);

    if (status == TARN_OK)
        atomic_fetch_sub(&own->live_blocks, 1);
    return status;
}

static size_t guard_live_blocks(const void *self)
{
    return atomic_load(&((const struct guard_adaptor *)self)->live_blocks);
}

static void guard_free(struct guard_adaptor *own)
{
    tarn__process_remove(own->guard);
    tarn__guard_destroy(own->guard);
    free(own);
}

static void guard_destroy(void *self)
{
    struct guard_adaptor *own = self;
    tarn_resource *upstream = own->adaptor.upstream;

    guard_free(own);
    tarn__forward_end(&(struct tarn__adaptor){upstream});
}

static tarn_status guard_trim(void *self, size_t keep_bytes, size_t *released_out)
{
    struct guard_adaptor *own = self;

    tarn__guard_flush(own->guard, NULL);
    return tarn__forward_trim(self, keep_bytes, released_out);
}

static tarn_status guard_requested_bytes(void *self, tarn_device_ptr block, size_t *out)
{
    struct guard_adaptor *own = self;

    if (tarn__guard_requested_bytes(own->guard, block, out))
        return TARN_OK;
    return tarn_resource_requested_bytes(own->adaptor.upstream, block, out);
}

const tarn_resource_ops tarn__guard_ops = {
    .size = sizeof tarn__guard_ops,
    .name = "guard",
    .allocate = guard_allocate,
    .deallocate = guard_deallocate,
    .destroy = guard_destroy,
    .memory_info = tarn__forward_memory_info,
    .supports_streams = tarn__forward_supports_streams,
    .deallocate_synchronizes = tarn__forward_deallocate_synchronizes,
    .trim = guard_trim,
    .requested_bytes = guard_requested_bytes,
    .supports_no_stream = tarn__forward_supports_no_stream,
    .live_blocks = guard_live_blocks,
    .empty_request = tarn__forward_empty_request,
};

tarn_status tarn_guard_create(tarn_resource *upstream, const tarn_guard_options *options,
                              tarn_resource **out)
{
    tarn_guard_options all;

    if (!upstream || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "guard: create: upstream or out is NULL");
    tarn_status status = tarn__grammar_complete(options, &all);
    if (status != TARN_OK)
        return status;
    struct guard_adaptor *own = calloc(1, sizeof *own);
    struct tarn__guard *guard = own ? tarn__guard_create(&all, false) : NULL;
    if (!guard) {
        free(own);
        return tarn_error_set(TARN_OUT_OF_MEMORY, "guard: no host memory");
    }
    own->guard = guard;
    tarn__process_add(guard);
    status = tarn__forward_create(&tarn__guard_ops, &own->adaptor, upstream, out);
    if (status != TARN_OK)
        guard_free(own);
    return status;
}

/* --- calls on a guard --- */

/* Return the guard in `resource` (NULL: that of the process), or NULL with a message. */
static struct tarn__guard *guard_of(const tarn_resource *resource,
                                    tarn_status *status_out)
{
    const struct guard_adaptor *own;

    if (!resource) {
        *status_out = TARN_NOT_FOUND;
        return tarn__process_guard();
    }
    own = tarn_resource_self(resource, &tarn__guard_ops);
    if (own)
        return own->guard;
    *status_out = tarn_error_set(TARN_INVALID_ARGUMENT, "guard: \"%s\" is not a guard",
                                 tarn_resource_name(resource));
    return NULL;
}

tarn_status tarn_guard_check(tarn_resource *resource, uint64_t *reports_out)
{
    tarn_status status = TARN_OK;
    struct tarn__guard *guard = guard_of(resource, &status);
    tarn_guard_counts counts;

    if (!guard)
        return status;
    status = tarn__guard_check(guard);
    tarn__guard_counts(guard, &counts);
    if (status == TARN_OK && reports_out)
        *reports_out = counts.reports;
    return status;
}

tarn_status tarn_guard_read_counts(tarn_resource *resource, tarn_guard_counts *out)
{
    tarn_status status = TARN_OK;
    struct tarn__guard *guard = guard_of(resource, &status);

    if (!guard)
        return status;
    if (!out || out->size != sizeof *out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "guard: read_counts: out is NULL, or its size is not %zu",
                              sizeof *out);
    tarn__guard_counts(guard, out);
    return TARN_OK;
}
