/* Check that every resource and every adaptor of Tarn keeps the promises of
 * tarn/resource.h. */
#include "test.h"
#include "tarn_conformance.h"

static int passed;

static void report(void *data, const char *check, const char *what)
{
    if (what)
        print_error("%s: %s: %s\n", (const char *)data, check, what);
    else
        passed++;
}

typedef tarn_status make_fn(void *data, int device, tarn_resource **out);

static bool waits_without_a_stream; /* the resources of the current test */

static void conforms_on(const char *name, make_fn *make, int device)
{
    tarn_conformance_subject subject = {.size = sizeof subject,
                                        .name = name,
                                        .create = make,
                                        .device = device,
                                        .waits_without_a_stream = waits_without_a_stream};
    int failed;

    passed = 0;
    failed = tarn_conformance_run(&subject, report, (void *)(uintptr_t)name);
    CHECK_EQUAL(0, failed);
    CHECK(passed >= 19);
}

/* On the first and on the last device. */
static void conforms(const char *name, make_fn *make)
{
    tarn_driver_info info;

    CHECK_OK(tarn_driver_get_info(&info));
    conforms_on(name, make, 0);
    if (info.device_count > 1)
        conforms_on(name, make, info.device_count - 1);
}

static tarn_status make_cuda(void *data, int device, tarn_resource **out)
{
    (void)data;
    return tarn_cuda_create(device, out);
}

static tarn_status make_async(void *data, int device, tarn_resource **out)
{
    (void)data;
    return tarn_async_create(device, NULL, out);
}

static tarn_status make_exportable_async(void *data, int device, tarn_resource **out)
{
    tarn_async_options options = {.size = sizeof options, .exportable = true};

    (void)data;
    return tarn_async_create(device, &options, out);
}

static tarn_status make_async_on_default_pool(void *data, int device, tarn_resource **out)
{
    tarn_async_options options = {.size = sizeof options, .use_default_pool = true};

    (void)data;
    return tarn_async_create(device, &options, out);
}

static tarn_status make_exportable(void *data, int device, tarn_resource **out)
{
    (void)data;
    return tarn_exportable_create(device, NULL, out);
}

static tarn_status make_pool_over_exportable(void *data, int device, tarn_resource **out)
{
    tarn_resource *upstream;
    tarn_status status = tarn_exportable_create(device, NULL, &upstream);

    (void)data;
    if (status != TARN_OK)
        return status;
    status = tarn_pool_create(device, upstream, NULL, out);
    tarn_resource_release(upstream);
    return status;
}

static tarn_status make_managed(void *data, int device, tarn_resource **out)
{
    (void)data;
    return tarn_managed_create(device, out);
}

static tarn_status make_pinned(void *data, int device, tarn_resource **out)
{
    (void)data;
    return tarn_pinned_create(device, out);
}

static tarn_status make_host(void *data, int device, tarn_resource **out)
{
    (void)data, (void)device;
    return tarn_host_create(out);
}

static tarn_status make_pool(void *data, int device, tarn_resource **out)
{
    (void)data;
    return tarn_pool_create(device, NULL, NULL, out);
}

/* A pool on the upstream that `data` creates. */
static tarn_status make_pool_on(tarn_resource *upstream, int device, tarn_resource **out)
{
    tarn_status status = tarn_pool_create(device, upstream, NULL, out);

    CHECK_OK(tarn_resource_release(upstream));
    return status;
}

static tarn_status make_pool_on_cuda(void *data, int device, tarn_resource **out)
{
    tarn_resource *upstream;

    (void)data;
    CHECK_OK(tarn_cuda_create(device, &upstream));
    return make_pool_on(upstream, device, out);
}

static tarn_status make_pool_on_async(void *data, int device, tarn_resource **out)
{
    tarn_resource *upstream;

    (void)data;
    CHECK_OK(tarn_async_create(device, NULL, &upstream));
    return make_pool_on(upstream, device, out);
}

static tarn_status make_pool_on_pinned(void *data, int device, tarn_resource **out)
{
    tarn_resource *upstream;

    (void)data;
    CHECK_OK(tarn_pinned_create(device, &upstream));
    return make_pool_on(upstream, device, out);
}

TEST(pool_conforms)
{
    conforms("pool", make_pool);
}

TEST(pool_on_other_resources_conforms)
{
    conforms("pool on cuda", make_pool_on_cuda);
    conforms("pool on async", make_pool_on_async);
    conforms("pool on pinned", make_pool_on_pinned);
}

/* Blocks as large as the requests of the suite. */
static const tarn_slab_options slab_options = {.size = sizeof slab_options,
                                               .block_bytes = 4 << 20};

static tarn_status make_slab(void *data, int device, tarn_resource **out)
{
    (void)data;
    return tarn_slab_create(device, NULL, &slab_options, out);
}

static tarn_status make_slab_on_cuda(void *data, int device, tarn_resource **out)
{
    tarn_resource *upstream;
    tarn_status status = make_cuda(data, device, &upstream);

    if (status != TARN_OK)
        return status;
    status = tarn_slab_create(device, upstream, &slab_options, out);
    tarn_resource_release(upstream);
    return status;
}

/* Some of the suite's requests go into bins, and the large ones to cuda. */
static tarn_status make_binning(void *data, int device, tarn_resource **out)
{
    const tarn_binning_options options = {
        .size = sizeof options, .min_size_exponent = 8, .max_size_exponent = 17};
    tarn_resource *upstream;
    tarn_status status = make_cuda(data, device, &upstream);

    if (status != TARN_OK)
        return status;
    status = tarn_binning_create(upstream, &options, out);
    tarn_resource_release(upstream);
    return status;
}

TEST(cuda_conforms)
{
    conforms("cuda", make_cuda);
}

TEST(async_conforms)
{
    conforms("async", make_async);
}

TEST(async_on_an_exportable_pool_conforms)
{
    conforms("exportable async", make_exportable_async);
}

TEST(async_on_the_default_pool_conforms)
{
    conforms("async on the default pool", make_async_on_default_pool);
}

TEST(exportable_conforms)
{
    conforms("exportable", make_exportable);
}

TEST(pool_over_exportable_conforms)
{
    conforms("pool over exportable", make_pool_over_exportable);
}

TEST(managed_conforms)
{
    conforms("managed", make_managed);
}

TEST(pinned_conforms)
{
    conforms("pinned", make_pinned);
}

TEST(host_conforms)
{
    conforms_on("host", make_host, TARN_DEVICE_NONE);
}

TEST(slab_conforms)
{
    conforms("slab", make_slab);
    conforms("slab on cuda", make_slab_on_cuda);
}

TEST(binning_conforms)
{
    conforms("binning", make_binning);
}

/* --- adaptors, alone and in stacks --- */

/* Put an adaptor around `made` that is its only owner; on failure nothing is left. */
static tarn_status limit(tarn_resource *made, tarn_resource **out)
{
    tarn_status status = tarn_limiter_create(made, (size_t)1 << 30, out);

    tarn_resource_release(made);
    return status;
}

static tarn_status count(tarn_resource *made, tarn_resource **out)
{
    tarn_status status = tarn_counter_create(made, out);

    tarn_resource_release(made);
    return status;
}

static tarn_status give_up(void *data, size_t bytes, bool *again_out)
{
    (void)data, (void)bytes, (void)again_out;
    return TARN_OK;
}

static tarn_status make_failing_cuda(void *data, int device, tarn_resource **out)
{
    tarn_resource *made;
    tarn_status status = make_cuda(data, device, &made);

    if (status == TARN_OK) {
        status = tarn_failure_callback_create(made, give_up, NULL, NULL, out);
        tarn_resource_release(made);
    }
    return status;
}

static tarn_status track(tarn_resource *made, tarn_resource **out)
{
    tarn_tracker_options options = {.size = sizeof options, .stack_depth = 16};
    tarn_status status = tarn_tracker_create(made, &options, out);

    tarn_resource_release(made);
    return status;
}

static bool swallow(void *data, const char *bytes, size_t count)
{
    (void)data, (void)bytes, (void)count;
    return true;
}

static tarn_status log_of(tarn_resource *made, tarn_trace_format format,
                          tarn_resource **out)
{
    tarn_trace_writer *writer;
    tarn_status status = tarn_trace_writer_create(swallow, NULL, format, &writer);

    if (status == TARN_OK) {
        status = tarn_logger_create(made, writer, out);
        tarn_trace_writer_release(writer);
    }
    tarn_resource_release(made);
    return status;
}

static tarn_status make_limited_cuda(void *data, int device, tarn_resource **out)
{
    tarn_resource *made;
    tarn_status status = make_cuda(data, device, &made);

    return status == TARN_OK ? limit(made, out) : status;
}

static tarn_status guard_over(tarn_status (*make)(void *, int, tarn_resource **),
                              void *data, int device, tarn_resource **out)
{
    tarn_resource *made;
    tarn_status status = make(data, device, &made);

    if (status != TARN_OK)
        return status;
    status = tarn_guard_create(made, NULL, out);
    tarn_resource_release(made);
    return status;
}

static tarn_status make_guarded_cuda(void *data, int device, tarn_resource **out)
{
    return guard_over(make_cuda, data, device, out);
}

static tarn_status make_guarded_async(void *data, int device, tarn_resource **out)
{
    return guard_over(make_async, data, device, out);
}

static tarn_status make_plain_pool(void *data, int device, tarn_resource **out)
{
    (void)data;
    return tarn_pool_create(device, NULL, NULL, out);
}

static tarn_status make_guarded_pool(void *data, int device, tarn_resource **out)
{
    return guard_over(make_plain_pool, data, device, out);
}

static tarn_status make_counted_async(void *data, int device, tarn_resource **out)
{
    tarn_resource *made;
    tarn_status status = make_async(data, device, &made);

    return status == TARN_OK ? count(made, out) : status;
}

static tarn_status make_counted_limited_cuda(void *data, int device, tarn_resource **out)
{
    tarn_resource *made;
    tarn_status status = make_limited_cuda(data, device, &made);

    return status == TARN_OK ? count(made, out) : status;
}

static tarn_status make_limited_counted_async(void *data, int device, tarn_resource **out)
{
    tarn_resource *made;
    tarn_status status = make_counted_async(data, device, &made);

    return status == TARN_OK ? limit(made, out) : status;
}

static tarn_status make_limited_host(void *data, int device, tarn_resource **out)
{
    tarn_resource *made;
    tarn_status status = make_host(data, device, &made);

    return status == TARN_OK ? limit(made, out) : status;
}

static tarn_status make_logged_cuda(void *data, int device, tarn_resource **out)
{
    tarn_resource *made;
    tarn_status status = make_cuda(data, device, &made);

    return status == TARN_OK ? log_of(made, TARN_TRACE_NBEP7, out) : status;
}

static tarn_status make_tracked_cuda(void *data, int device, tarn_resource **out)
{
    tarn_resource *made;
    tarn_status status = make_cuda(data, device, &made);

    return status == TARN_OK ? track(made, out) : status;
}

/* The stack of a program with diagnostics: logger, limiter, counter, async. */
static tarn_status make_logged_stack(void *data, int device, tarn_resource **out)
{
    tarn_resource *made;
    tarn_status status = make_limited_counted_async(data, device, &made);

    return status == TARN_OK ? log_of(made, TARN_TRACE_RMM, out) : status;
}

TEST(limiter_conforms)
{
    conforms("limiter over cuda", make_limited_cuda);
    conforms_on("limiter over host", make_limited_host, TARN_DEVICE_NONE);
}

static void ignore_report(void *data, const tarn_guard_report *guard_report)
{
    (void)data, (void)guard_report;
}

/* The suite frees blocks twice, which has reports. A free without a stream waits, so that
 * the red zones are checked after the last use. */
TEST(guard_conforms)
{
    waits_without_a_stream = true;
    tarn_guard_set_handler(ignore_report, NULL);
    conforms("guard over cuda", make_guarded_cuda);
    conforms("guard over async", make_guarded_async);
    conforms("guard over a pool", make_guarded_pool);
    tarn_guard_set_handler(NULL, NULL);
    waits_without_a_stream = false;
}

TEST(counter_conforms)
{
    conforms("counter over async", make_counted_async);
}

TEST(logger_conforms)
{
    conforms("logger over cuda", make_logged_cuda);
}

TEST(failure_callback_conforms)
{
    conforms("failure callback over cuda", make_failing_cuda);
}

TEST(tracker_conforms)
{
    conforms("tracker over cuda", make_tracked_cuda);
}

TEST(stacks_conform)
{
    conforms("counter over limiter over cuda", make_counted_limited_cuda);
    conforms("limiter over counter over async", make_limited_counted_async);
    conforms("logger over limiter over counter over async", make_logged_stack);
}
