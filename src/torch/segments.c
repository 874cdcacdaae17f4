/* segments.c -- functions for PyTorch's MemPool: PyTorch's own allocator asks them for
 * segments.
 *
 * PyTorch passes no data to these functions. So each open resource has a pair of functions
 * of its own, from a fixed number of pairs.
 *
 * PyTorch reuses a segment itself, in the order of its streams, and captures may use it. So
 * a segment is allocated and freed without a stream: no queued work uses it at first, and
 * no capture keeps it.
 */
#include <tarn/torch.h>
#include "base/mutex.h"
#include "base/warn.h"
#include "driver/driver.h"
#include <stdatomic.h>

/* A pair of functions. It can be opened while `resource` is NULL. */
struct pair {
    tarn_resource *resource; /* one reference, while the pair is open or has segments */
    bool is_open;
    size_t segments;
};

enum { PAIRS = 64 };

TARN__STATIC_MUTEX(lock);
static struct pair pairs[PAIRS];

/* Return the resource for another segment of a pair; NULL: it is closed, or of another
 * device. */
static tarn_resource *begin_segment(struct pair *pair, int device)
{
    tarn__mutex_lock(&lock);
    bool serves = pair->is_open && tarn_resource_device(pair->resource) == device;
    tarn_resource *resource = serves ? pair->resource : NULL;
    pair->segments += serves;
    tarn__mutex_unlock(&lock);
    return resource;
}

/* Count the end of a segment, and release the resource after the last one of a closed
 * pair. */
static void end_segment(struct pair *pair)
{
    tarn_resource *unused = NULL;

    tarn__mutex_lock(&lock);
    pair->segments--;
    if (!pair->is_open && pair->segments == 0) {
        unused = pair->resource;
        pair->resource = NULL;
    }
    tarn__mutex_unlock(&lock);
    if (tarn_resource_release(unused) != TARN_OK)
        tarn__warn("torch: %s", tarn_error_last()->message);
}

static void *allocate(struct pair *pair, size_t bytes, int device)
{
    tarn_device_ptr block = 0;
    tarn_resource *resource = begin_segment(pair, device);

    if (!resource)
        return NULL;
    if (tarn_resource_allocate(resource, bytes, 0, TARN_STREAM_NONE, &block) != TARN_OK ||
        block == 0)
        end_segment(pair);
    return (void *)(uintptr_t)block;
}

static void deallocate(struct pair *pair, void *block, size_t bytes)
{
    if (!block || tarn__driver_gone())
        return;
    tarn_status status = tarn_resource_deallocate(pair->resource, (uintptr_t)block, bytes,
                                                  0, TARN_STREAM_NONE);
    if (status == TARN_OK)
        end_segment(pair);
    else
        tarn__warn("torch: a free of a segment failed: %s", tarn_error_last()->message);
}

/* --- the functions --- */

#define TEN(X, n) \
    X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define EACH(X) \
    X(0)        \
    X(1)        \
    X(2)        \
    X(3)        \
    X(4)        \
    X(5)        \
    X(6)        \
    X(7)        \
    X(8) X(9) TEN(X, 1) TEN(X, 2) TEN(X, 3) TEN(X, 4) TEN(X, 5) X(60) X(61) X(62) X(63)

#define X(n)                                                                \
    static void *allocate_##n(size_t bytes, int device, tarn_stream stream) \
    {                                                                       \
        (void)stream;                                                       \
        return allocate(&pairs[n], bytes, device);                          \
    }                                                                       \
    static void deallocate_##n(void *block, size_t bytes, int device,       \
                               tarn_stream stream)                          \
    {                                                                       \
        (void)device, (void)stream;                                         \
        deallocate(&pairs[n], block, bytes);                                \
    }
EACH(X)
#undef X

static const tarn_torch_segments functions[PAIRS] = {
#define X(n) {sizeof(tarn_torch_segments), allocate_##n, deallocate_##n},
    EACH(X)
#undef X
};

/* --- opening and closing --- */

static tarn_status check(tarn_resource *resource, const tarn_torch_segments *out)
{
    if (!resource || !out || out->size < sizeof *out)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "torch: open_segments: resource or out is NULL, or out.size "
            "is too small");
    if (tarn_resource_device(resource) == TARN_DEVICE_NONE)
        return tarn_error_set(TARN_NOT_SUPPORTED, "torch: %s has no device",
                              tarn_resource_name(resource));
    if (!tarn_resource_supports_no_stream(resource))
        return tarn_error_set(TARN_NOT_SUPPORTED,
                              "torch: segments come without a stream, and %s is unsafe "
                              "without one",
                              tarn_resource_name(resource));
    return TARN_OK;
}

tarn_status tarn_torch_open_segments(tarn_resource *resource, tarn_torch_segments *out)
{
    int found = 0;
    tarn_status status = check(resource, out);

    if (status != TARN_OK)
        return status;
    tarn__mutex_lock(&lock);
    while (found < PAIRS && pairs[found].resource)
        found++;
    if (found < PAIRS)
        pairs[found] = (struct pair){.resource = resource, .is_open = true};
    tarn__mutex_unlock(&lock);
    if (found == PAIRS)
        return tarn_error_set(TARN_LIMIT_REACHED,
                              "torch: %d resources have open segments already", PAIRS);
    tarn_resource_retain(resource);
    *out = functions[found];
    return TARN_OK;
}

/* Return the open pair of these functions, or NULL. `lock` held. */
static struct pair *pair_of(const tarn_torch_segments *segments)
{
    for (int i = 0; i < PAIRS; i++)
        if (pairs[i].is_open && functions[i].allocate == segments->allocate)
            return &pairs[i];
    return NULL;
}

tarn_status tarn_torch_close_segments(const tarn_torch_segments *segments)
{
    struct pair *pair = NULL;

    if (segments) {
        tarn__mutex_lock(&lock);
        pair = pair_of(segments);
        if (pair) {
            pair->is_open = false;
            pair->segments++; /* end_segment() ends it */
        }
        tarn__mutex_unlock(&lock);
    }
    if (!pair)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "torch: close_segments: these functions are not open");
    end_segment(pair);
    return TARN_OK;
}
