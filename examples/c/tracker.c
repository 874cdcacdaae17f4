/* tracker.c -- list the blocks that are still allocated, and the calls that allocated
 * them. */
#include <stdio.h>
#include <tarn/tarn.h>

static bool ok(tarn_status status)
{
    if (status != TARN_OK)
        fprintf(stderr, "%s: %s\n", tarn_status_name(status), tarn_error_last()->message);
    return status == TARN_OK;
}

/* The part of the program in which a leak is suspected. */
static bool work(tarn_resource *resource, tarn_device_ptr *leaked)
{
    tarn_device_ptr block;

    return ok(tarn_resource_allocate(resource, 600, 0, TARN_STREAM_NONE, &block)) &&
           ok(tarn_resource_allocate(resource, 4000, 0, TARN_STREAM_NONE, leaked)) &&
           ok(tarn_resource_deallocate(resource, block, 600, 0, TARN_STREAM_NONE));
}

static bool is_tracked(tarn_resource *pool)
{
    tarn_tracker_options options = {.size = sizeof options, .stack_depth = 16};
    tarn_device_ptr leaked = 0;
    tarn_resource *tracker;
    size_t bytes = 0;

    if (!ok(tarn_tracker_create(pool, &options, &tracker)))
        return false;
    bool is_good = work(tracker, &leaked) && ok(tarn_tracker_print(tracker, stdout)) &&
                   ok(tarn_tracker_bytes(tracker, &bytes)) && bytes == 4000;
    if (leaked)
        tarn_resource_deallocate(tracker, leaked, 4000, 0, TARN_STREAM_NONE);
    return ok(tarn_resource_release(tracker)) && is_good;
}

int main(void)
{
    tarn_resource *pool;

    if (!ok(tarn_pool_create(0, NULL, NULL, &pool)))
        return 1;
    bool is_good = is_tracked(pool);
    return ok(tarn_resource_release(pool)) && is_good ? 0 : 1;
}
