/* limiter.c -- a resource that keeps its upstream within a budget.
 *
 * Several managers can share one GPU. A limiter under each gives every one a budget
 * without dividing the memory in advance: memory that one leaves unused is available to
 * another.
 *
 * The limiter charges the budget before it calls the upstream, and refunds it if the call
 * fails. In the other order two threads could both see headroom for the last block. On a
 * free it refunds the budget after the upstream has the memory, for the same reason.
 */
#include "adaptor/forward.h"
#include "base/size.h"
#include <stdatomic.h>
#include <stdlib.h>

struct limiter {
    struct tarn__adaptor adaptor; /* does the real work */
    size_t limit_bytes;           /* the budget; never changes */
    atomic_size_t used_bytes;     /* charged so far; always <= limit_bytes */
};

/* Return the charge of a block of `bytes`; it cannot overflow, as the public function has
 * checked. */
static size_t charge_of(size_t bytes)
{
    size_t rounded = SIZE_MAX;

    tarn__size_round_up(bytes, TARN_ALIGNMENT, &rounded);
    return rounded;
}

/* Charge `bytes` to the budget, or leave it alone and return false. */
static bool charge(struct limiter *limiter, size_t bytes)
{
    size_t used = atomic_load(&limiter->used_bytes);
    do {
        if (bytes > limiter->limit_bytes - used) /* no sum, so no overflow */
            return false;
    } while (!atomic_compare_exchange_weak(&limiter->used_bytes, &used, used + bytes));
    return true;
}

static void refund(struct limiter *limiter, size_t bytes)
{
    atomic_fetch_sub(&limiter->used_bytes, bytes);
}

static tarn_status limiter_allocate(void *self, size_t bytes, size_t alignment,
                                    tarn_stream stream, tarn_device_ptr *out)
{
    struct limiter *limiter = self;

    if (!charge(limiter, charge_of(bytes)))
        return tarn_error_set(
            TARN_OUT_OF_MEMORY,
            "limiter: %zu bytes exceed the limit, %zu of %zu bytes are in use", bytes,
            atomic_load(&limiter->used_bytes), limiter->limit_bytes);

    tarn_status status =
        tarn_resource_allocate(limiter->adaptor.upstream, bytes, alignment, stream, out);
    if (status != TARN_OK)
        refund(limiter, charge_of(bytes));
    return status;
}

static tarn_status limiter_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                      size_t alignment, tarn_stream stream)
{
    struct limiter *limiter = self;

    /* A block of this limiter was charged, so `used_bytes` cannot be less: the block is
     * the upstream's. */
    if (charge_of(bytes) > atomic_load(&limiter->used_bytes))
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "limiter: 0x%llx with %zu bytes is not a live allocation "
                              "of this resource, only %zu bytes are in use",
                              block, bytes, atomic_load(&limiter->used_bytes));
    tarn_status status = tarn_resource_deallocate(limiter->adaptor.upstream, block, bytes,
                                                  alignment, stream);
    if (status == TARN_OK)
        refund(limiter, charge_of(bytes));
    return status;
}

const tarn_resource_ops tarn__limiter_ops = {
    .size = sizeof tarn__limiter_ops,
    .name = "limiter",
    .allocate = limiter_allocate,
    .deallocate = limiter_deallocate,
    .destroy = tarn__forward_destroy,
    TARN__FORWARD_QUERIES(tarn__forward_empty_request, tarn__forward_trim),
};

tarn_status tarn_limiter_create(tarn_resource *upstream, size_t limit_bytes,
                                tarn_resource **out)
{
    if (!upstream || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "limiter: create: upstream or out is NULL");
    struct limiter *limiter = calloc(1, sizeof *limiter);
    if (!limiter)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "limiter: no host memory");
    limiter->limit_bytes = limit_bytes;
    atomic_init(&limiter->used_bytes, 0);
    tarn_status status =
        tarn__forward_create(&tarn__limiter_ops, &limiter->adaptor, upstream, out);
    if (status != TARN_OK)
        free(limiter);
    return status;
}

/* Return the limiter in `resource`, or NULL with a message. */
static const struct limiter *limiter_of(const tarn_resource *resource)
{
    const struct limiter *limiter = tarn_resource_self(resource, &tarn__limiter_ops);

    if (!limiter)
        tarn_error_set(TARN_INVALID_ARGUMENT, "limiter: \"%s\" is not a limiter",
                       tarn_resource_name(resource));
    return limiter;
}

tarn_status tarn_limiter_used_bytes(tarn_resource *resource, size_t *out)
{
    const struct limiter *limiter = limiter_of(resource);

    if (!limiter)
        return TARN_INVALID_ARGUMENT;
    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "limiter: used_bytes: out is NULL");
    *out = atomic_load(&limiter->used_bytes);
    return TARN_OK;
}

tarn_status tarn_limiter_limit_bytes(tarn_resource *resource, size_t *out)
{
    const struct limiter *limiter = limiter_of(resource);

    if (!limiter)
        return TARN_INVALID_ARGUMENT;
    if (!out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "limiter: limit_bytes: out is NULL");
    *out = limiter->limit_bytes;
    return TARN_OK;
}
