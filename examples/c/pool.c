/* pool.c -- use a pool: a registered stream, statistics, trim, and the out-of-memory
 * report.
 *
 * A pool makes no driver query about a registered stream. Its owner unregisters it before
 * destroying it. The pool then knows that the stream's work can be waited for, so that
 * trim can release the stream's last frees.
 */
#include <stdio.h>
#include <tarn/tarn.h>

enum { MIB = 1 << 20, ROUNDS = 1000 };

static bool ok(tarn_status status)
{
    if (status != TARN_OK)
        fprintf(stderr, "%s: %s\n", tarn_status_name(status), tarn_error_last()->message);
    return status == TARN_OK;
}

/* Allocate and free blocks of several sizes. The pool calls the driver only while it
 * grows. */
static bool use(tarn_resource *pool, tarn_stream stream)
{
    for (size_t i = 0; i < ROUNDS; i++) {
        size_t bytes = (i % 64 + 1) * 1000;
        tarn_device_ptr block;
        if (!ok(tarn_resource_allocate(pool, bytes, 0, stream, &block)) ||
            !ok(tarn_memset_async(0, block, 0, bytes, stream)) ||
            !ok(tarn_resource_deallocate(pool, block, bytes, 0, stream)))
            return false;
    }
    return true;
}

/* The same with a stream that is registered for this time. */
static bool use_opened(tarn_resource *pool)
{
    tarn_stream raw, opened;

    if (!ok(tarn_stream_create(0, true, &raw)))
        return false;
    bool good = ok(tarn_stream_register(0, raw, &opened));
    if (good) {
        good = use(pool, opened) && ok(tarn_stream_synchronize(0, opened));
        good = ok(tarn_stream_unregister(opened)) && good;
    }
    return ok(tarn_stream_destroy(0, raw)) && good;
}

static bool print_statistics(tarn_resource *pool)
{
    tarn_pool_statistics seen = {.size = sizeof seen};

    if (!ok(tarn_pool_get_statistics(pool, &seen)))
        return false;
    printf("%llu allocations, %llu of them without a lock; %llu driver calls\n",
           (unsigned long long)seen.allocations, (unsigned long long)seen.cache_hits,
           (unsigned long long)seen.driver_calls);
    printf("reserved %llu bytes, live %llu\n", (unsigned long long)seen.reserved,
           (unsigned long long)seen.live);
    return seen.allocations == ROUNDS && seen.live == 0;
}

/* Release idle memory; addresses in use stay. */
static bool give_back(tarn_resource *pool)
{
    size_t released;

    if (!ok(tarn_resource_trim(pool, 0, &released)))
        return false;
    printf("trim gave %zu bytes back\n", released);
    return released > 0;
}

/* Request more than the maximum: the report shows the memory and its owners. */
static bool ask_for_too_much(tarn_resource *pool)
{
    tarn_pool_oom_report report = {.size = sizeof report};
    tarn_device_ptr block;
    char text[2048];

    if (tarn_resource_allocate(pool, 100 * MIB, 0, TARN_STREAM_DEFAULT, &block) !=
        TARN_OUT_OF_MEMORY)
        return false;
    if (!ok(tarn_pool_last_oom_report(&report)))
        return false;
    tarn_pool_oom_report_text(&report, text, sizeof text);
    printf("%s\n", text);
    return report.requested == 100 * MIB;
}

int main(void)
{
    const tarn_pool_options options = {.size = sizeof options, .maximum_bytes = 64 * MIB};
    tarn_resource *pool;

    if (!ok(tarn_pool_create(0, NULL, &options, &pool)))
        return 1;
    bool good = use_opened(pool) && print_statistics(pool) && give_back(pool) &&
                ask_for_too_much(pool);
    return ok(tarn_resource_release(pool)) && good ? 0 : 1;
}
