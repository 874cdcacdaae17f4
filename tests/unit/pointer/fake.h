/* fake.h -- a resource whose answers a test chooses, and that records its calls. Its
 * addresses have no memory. */
#ifndef TEST_POINTER_FAKE_H
#define TEST_POINTER_FAKE_H

#include "test.h"

struct fake {
    int allocations;
    int frees;               /* that succeeded */
    int failed_frees;        /* frees that failed */
    int failing_frees;       /* this many of the next frees fail */
    int failing_allocations; /* this many of the next allocations are out of memory */
    int destroyed;
    bool deallocate_synchronizes;
    bool supports_streams;
    bool supports_no_stream;
    tarn_stream stream; /* of the last call */
    tarn_device_ptr freed[8];
};

static tarn_status fake_allocate(void *self, size_t bytes, size_t alignment,
                                 tarn_stream stream, tarn_device_ptr *out)
{
    struct fake *fake = self;

    (void)alignment;
    fake->stream = stream;
    if (fake->failing_allocations > 0) {
        fake->failing_allocations--;
        return tarn_error_set(TARN_OUT_OF_MEMORY, "fake: no %zu bytes", bytes);
    }
    *out = 0x10000u * (tarn_device_ptr)++fake->allocations;
    return TARN_OK;
}

static tarn_status fake_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                   size_t alignment, tarn_stream stream)
{
    struct fake *fake = self;

    (void)alignment;
    fake->stream = stream;
    if (fake->failing_frees > 0) {
        fake->failing_frees--;
        fake->failed_frees++;
        return tarn_error_set(TARN_DRIVER_FAILURE, "fake: keep your %zu bytes", bytes);
    }
    fake->freed[fake->frees++ % 8] = block;
    return TARN_OK;
}

static void fake_destroy(void *self)
{
    ((struct fake *)self)->destroyed++;
}

static bool fake_deallocate_synchronizes(const void *self)
{
    return ((const struct fake *)self)->deallocate_synchronizes;
}

static bool fake_supports_streams(const void *self)
{
    return ((const struct fake *)self)->supports_streams;
}

/* A fake without this operation is one whose frees report failures themselves. */
static bool fake_supports_no_stream(const void *self)
{
    const struct fake *fake = self;

    return fake->supports_no_stream || fake->deallocate_synchronizes;
}

static inline tarn_resource *make_fake(struct fake *fake, int device)
{
    static const tarn_resource_ops ops = {
        .size = sizeof ops,
        .name = "fake",
        .allocate = fake_allocate,
        .deallocate = fake_deallocate,
        .destroy = fake_destroy,
        .deallocate_synchronizes = fake_deallocate_synchronizes,
        .supports_streams = fake_supports_streams,
        .supports_no_stream = fake_supports_no_stream,
    };
    tarn_resource *resource;

    CHECK_OK(tarn_resource_create(&ops, fake, device, &resource));
    return resource;
}

#endif
