/* Test the pool manager: blocks return to the pool at once, segments at permitted times.
 */
#include "driver_calls.h"
#include "test.h"
#include <stdlib.h>

/* A resource with the device's memory that waits for nothing, and counts. */
struct counted {
    tarn_resource *below; /* retained */
    int made, frees, trims, destroyed;
    int failing_frees;      /* this many of the next frees fail */
    size_t last_keep_bytes; /* the argument of the last trim */
    size_t total;           /* bytes that memory_info reports; 0: it has no numbers */
    tarn_status fails;
};

static tarn_status counted_allocate(void *self, size_t bytes, size_t alignment,
                                    tarn_stream stream, tarn_device_ptr *out)
{
    return tarn_resource_allocate(((struct counted *)self)->below, bytes, alignment,
                                  stream, out);
}

static tarn_status counted_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                      size_t alignment, tarn_stream stream)
{
    struct counted *counted = self;

    if (counted->failing_frees > 0) {
        counted->failing_frees--;
        return tarn_error_set(TARN_DRIVER_FAILURE, "counted: keep your block");
    }
    counted->frees++;
    return tarn_resource_deallocate(counted->below, block, bytes, alignment, stream);
}

static void counted_destroy(void *self)
{
    ((struct counted *)self)->destroyed++;
    tarn_resource_release(((struct counted *)self)->below);
}

static bool counted_deallocate_synchronizes(const void *self)
{
    (void)self;
    return false;
}

static tarn_status counted_trim(void *self, size_t keep_bytes, size_t *released_out)
{
    struct counted *counted = self;

    counted->trims++;
    counted->last_keep_bytes = keep_bytes;
    *released_out = 0;
    return counted->fails;
}

static tarn_status counted_memory_info(void *self, tarn_stream stream, size_t *free_out,
                                       size_t *total_out)
{
    const struct counted *counted = self;

    (void)stream;
    if (counted->total == 0)
        return tarn_error_set(TARN_NOT_SUPPORTED, "counted: no numbers");
    *free_out = counted->total / 2;
    *total_out = counted->total;
    return TARN_OK;
}

static tarn_status make_counted(void *data, int device, tarn_resource **out)
{
    static const tarn_resource_ops ops = {.size = sizeof ops,
                                          .name = "counted",
                                          .allocate = counted_allocate,
                                          .deallocate = counted_deallocate,
                                          .destroy = counted_destroy,
                                          .deallocate_synchronizes =
                                              counted_deallocate_synchronizes,
                                          .trim = counted_trim,
                                          .memory_info = counted_memory_info};
    struct counted *counted = data;

    counted->made++;
    CHECK_OK(tarn_cuda_create(device, &counted->below));
    return tarn_resource_create(&ops, counted, device, out);
}

static tarn_manager *make(struct counted *counted, size_t keep_bytes)
{
    tarn_pool_manager_options options = {
        .size = sizeof options, .make = make_counted, .data = counted, keep_bytes};
    tarn_manager *manager;

    CHECK_OK(tarn_manager_create(tarn_pool_manager_ops(), &options, 0, &manager));
    return manager;
}

static tarn_pointer *allocate(tarn_manager *manager, size_t bytes)
{
    tarn_pointer *pointer;

    CHECK_OK(tarn_manager_memalloc(manager, bytes, TARN_STREAM_LEGACY, &pointer));
    return pointer;
}

TEST(pool_manager_serves_from_a_pool_of_its_own)
{
    tarn_manager *manager;
    unsigned char bytes[1000] = {0};

    CHECK_OK(tarn_manager_create(tarn_pool_manager_ops(), NULL, 0, &manager));
    CHECK_TEXT("pool", tarn_manager_name(manager));
    for (int i = 0; i < 3; i++) {
        tarn_pointer *pointer = allocate(manager, sizeof bytes);
        CHECK_OK(tarn_memset_async(0, tarn_pointer_address(pointer), 0x5a, sizeof bytes,
                                   TARN_STREAM_LEGACY));
        CHECK_OK(tarn_memcpy_async(0, (tarn_device_ptr)(uintptr_t)bytes,
                                   tarn_pointer_address(pointer), sizeof bytes,
                                   TARN_STREAM_LEGACY));
        CHECK_OK(tarn_stream_synchronize(0, TARN_STREAM_LEGACY));
        CHECK_EQUAL(0x5a, bytes[999]);
        tarn_pointer_release(pointer);
    }
    CHECK_OK(tarn_manager_reset(manager));
    tarn_manager_release(manager);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
}

static tarn_status make_cuda(void *data, int device, tarn_resource **out)
{
    (void)data;
    return tarn_cuda_create(device, out);
}

TEST(pool_manager_has_ipc_handles_where_its_memory_has)
{
    tarn_pool_manager_options over_cuda = {.size = sizeof over_cuda, .make = make_cuda};
    tarn_pool_manager_options *options[] = {&over_cuda, NULL};
    tarn_ipc_handle handle;

    for (int i = 0; i < 2; i++) {
        tarn_manager *manager;
        CHECK_OK(tarn_manager_create(tarn_pool_manager_ops(), options[i], 0, &manager));
        tarn_pointer *pointer = allocate(manager, 1000);
        if (options[i])
            CHECK_OK(tarn_manager_get_ipc_handle(manager, pointer, &handle));
        else
            CHECK_STATUS(TARN_NOT_SUPPORTED,
                         tarn_manager_get_ipc_handle(manager, pointer, &handle));
        tarn_pointer_release(pointer);
        CHECK_OK(tarn_manager_reset(manager));
        tarn_manager_release(manager);
    }
}

TEST(pool_manager_returns_a_block_to_the_pool_at_once_a16)
{
    struct counted counted = {0};
    tarn_manager *manager = make(&counted, 0);

    CHECK_EQUAL(0, counted.made); /* create allocates no memory */
    tarn_pointer *pointer = allocate(manager, 100);
    CHECK_EQUAL(1, counted.made);
    tarn_pointer_release(pointer);
    CHECK_EQUAL(1, counted.frees);
    pointer = allocate(manager, 100);
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    tarn_pointer_release(pointer);
    CHECK_EQUAL(2, counted.frees);
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    CHECK_EQUAL(0, counted.trims); /* everything may stay cached */
    CHECK_OK(tarn_manager_initialize(manager));
    CHECK_EQUAL(1, counted.made);
    tarn_manager_release(manager);
    CHECK_EQUAL(1, counted.destroyed);
}

TEST(pool_manager_releases_segments_only_outside_deferred_cleanup_a18)
{
    struct counted counted = {0};
    tarn_manager *manager = make(&counted, 1);
    tarn_pointer *one = allocate(manager, 100), *other = allocate(manager, 100);

    tarn_pointer_release(one);
    CHECK_EQUAL(1, counted.trims);
    CHECK_EQUAL(1, counted.last_keep_bytes);
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    tarn_pointer_release(other);
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    CHECK_EQUAL(2, counted.frees);
    CHECK_EQUAL(1, counted.trims);
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    CHECK_EQUAL(2, counted.trims);
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    CHECK_OK(tarn_manager_defer_cleanup_end(manager));
    CHECK_EQUAL(2, counted.trims); /* nothing was freed in between */
    tarn_manager_release(manager);
}

/* The same for a pool, whose reserved bytes are checked. */
static tarn_resource *made; /* retained */

static tarn_status make_pool(void *data, int device, tarn_resource **out)
{
    tarn_status status = tarn_pool_create(device, NULL, data, out);

    made = status == TARN_OK ? tarn_resource_retain(*out) : NULL;
    return status;
}

static uint64_t reserved(void)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};

    CHECK_OK(tarn_pool_get_statistics(made, &statistics));
    return statistics.reserved;
}

static void come_and_go(tarn_manager *manager, tarn_stream stream)
{
    tarn_pointer *pointer;

    CHECK_OK(tarn_manager_memalloc(manager, 100 << 20, stream, &pointer));
    CHECK(reserved() >= 100 << 20);
    tarn_pointer_release(pointer);
}

TEST(pool_releases_memory_only_outside_deferred_cleanup_a18)
{
    static const tarn_stream streams[] = {TARN_STREAM_LEGACY, TARN_STREAM_NONE};
    tarn_pool_manager_options options = {
        .size = sizeof options, .make = make_pool, .keep_bytes = 32 << 20};
    tarn_manager *manager;

    CHECK_OK(tarn_manager_create(tarn_pool_manager_ops(), &options, 0, &manager));
    for (int i = 0; i < 2; i++) { /* also if its free is deferred */
        CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
        come_and_go(manager, streams[i]);
        CHECK(reserved() >= 100 << 20);
        CHECK_OK(tarn_manager_defer_cleanup_end(manager));
        CHECK(reserved() <= 32 << 20);
        come_and_go(manager, streams[i]);
        CHECK(reserved() <= 32 << 20);
    }
    CHECK_OK(tarn_resource_release(made));
    tarn_manager_release(manager);
}

TEST(pool_manager_checks_its_segments_after_a_quarter_of_the_kept_bytes)
{
    struct counted counted = {0};
    tarn_manager *manager = make(&counted, 4000);

    for (int i = 0; i < 20; i++)
        tarn_pointer_release(allocate(manager, 200));
    CHECK_EQUAL(3, counted.trims); /* after 1,200 bytes each */
    CHECK_EQUAL(4000, counted.last_keep_bytes);
    tarn_manager_release(manager);
}

TEST(pool_manager_keeps_a_failed_trim_to_itself)
{
    struct counted counted = {.fails = TARN_DRIVER_FAILURE};
    tarn_manager *manager = make(&counted, 1);

    tarn_error_set(TARN_BAD_FORMAT, "an older failure");
    tarn_pointer_release(allocate(manager, 100));
    CHECK_EQUAL(1, counted.trims);
    CHECK_TEXT("an older failure", tarn_error_last()->message);
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_manager_reset(manager)); /* a new failure */
    tarn_manager_release(manager);
}

TEST(pool_manager_end_that_cannot_free_keeps_its_message_over_a_failed_trim)
{
    struct counted counted = {.fails = TARN_BAD_FORMAT};
    tarn_manager *manager = make(&counted, 1);
    tarn_pointer *pointers[2];

    for (int i = 0; i < 2; i++)
        CHECK_OK(tarn_manager_memalloc(manager, 100, TARN_STREAM_NONE, &pointers[i]));
    CHECK_OK(tarn_manager_defer_cleanup_begin(manager));
    for (int i = 0; i < 2; i++)
        tarn_pointer_release(pointers[i]);
    counted.failing_frees = 1;
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_manager_defer_cleanup_end(manager));
    CHECK_MESSAGE("counted: keep your block");
    CHECK_EQUAL(1, counted.frees);
    CHECK_EQUAL(1, counted.trims);
    CHECK_OK(tarn_pointer_reclaim_deferred());
    tarn_manager_release(manager);
}

TEST(pool_manager_reset_that_cannot_free_says_so_and_does_the_rest)
{
    struct counted counted = {.failing_frees = 2};
    tarn_manager *manager = make(&counted, 0);
    tarn_pointer *pinned;

    tarn_pointer_release(allocate(manager, 100)); /* fails, and again at the reset */
    CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_manager_reset(manager));
    CHECK_MESSAGE("counted: keep your block");
    CHECK_EQUAL(1, counted.trims);
    CHECK_OK(tarn_manager_reset(manager));
    CHECK_EQUAL(1, counted.frees);
    CHECK_OK(tarn_manager_memhostalloc(manager, 100, 0, &pinned));
    tarn_pointer_release(pinned);
    if (on_sim()) {
        sim_configure("fail=call:cuMemFreeHost");
        CHECK_STATUS(TARN_DRIVER_FAILURE, tarn_manager_reset(manager));
        CHECK_MESSAGE("cuMemFreeHost");
        CHECK_EQUAL(3, counted.trims);
        sim_configure(NULL);
    }
    CHECK_OK(tarn_manager_reset(manager));
    tarn_manager_release(manager);
}

TEST(pool_manager_reset_may_come_first_and_trims_all)
{
    struct counted counted = {0};
    tarn_manager *manager = make(&counted, 0);

    CHECK_OK(tarn_manager_reset(manager));
    CHECK_EQUAL(0, counted.made);
    tarn_pointer_release(allocate(manager, 100));
    CHECK_OK(tarn_manager_reset(manager));
    CHECK_EQUAL(1, counted.trims);
    CHECK_EQUAL(0, counted.last_keep_bytes);
    tarn_pointer_release(allocate(manager, 100)); /* the pool is the same one */
    CHECK_EQUAL(1, counted.made);
    tarn_manager_release(manager);
}

TEST(pointers_outlive_a_pool_manager)
{
    struct counted counted = {0};
    tarn_manager *manager = make(&counted, 1);
    tarn_pointer *pointer = allocate(manager, 100), *view;

    CHECK_OK(tarn_pointer_view(pointer, 10, 10, &view));
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
    CHECK_EQUAL(0, counted.destroyed);
    tarn_pointer_release(view);
    CHECK_EQUAL(1, counted.frees);
    CHECK_EQUAL(1, counted.destroyed);
}

TEST(pool_manager_leaves_the_last_error_where_it_succeeds_after_a_context_reset)
{
    tarn_manager *manager;
    tarn_pointer *pinned;
    size_t free_bytes, total;

    CHECK_OK(tarn_manager_create(tarn_pool_manager_ops(), NULL, 0, &manager));
    tarn_pointer *pointer = allocate(manager, 100);
    CHECK_OK(tarn_manager_memhostalloc(manager, 100, 0, &pinned));
    tarn_pointer_release(pinned);
    reset_the_device();
    tarn_error_set(TARN_BAD_FORMAT, "an older failure");
    CHECK_OK(tarn_manager_get_memory_info(manager, &free_bytes, &total));
    CHECK_TEXT("an older failure", tarn_error_last()->message);
    CHECK_OK(tarn_pointer_release_checked(pointer)); /* and the pool ends */
    CHECK_TEXT("an older failure", tarn_error_last()->message);
    tarn_manager_release(manager);
}

static tarn_status make_nothing(void *data, int device, tarn_resource **out)
{
    (void)data;
    (void)device;
    (void)out;
    return TARN_OK;
}

static tarn_status make_host(void *data, int device, tarn_resource **out)
{
    (void)data;
    (void)device;
    return tarn_host_create(out);
}

static tarn_status fail_silently(void *data, int device, tarn_resource **out)
{
    (void)data;
    (void)device;
    (void)out;
    tarn_error_set(TARN_BAD_FORMAT, "of another status");
    return TARN_PLUGIN_FAILURE;
}

static void check_rejects(tarn_status (*what)(void *, int, tarn_resource **),
                          const char *message)
{
    tarn_pool_manager_options options = {.size = sizeof options, .make = what};
    tarn_manager *manager;
    tarn_pointer *pointer = NULL;

    CHECK_OK(tarn_manager_create(tarn_pool_manager_ops(), &options, 0, &manager));
    CHECK_STATUS(TARN_PLUGIN_FAILURE,
                 tarn_manager_memalloc(manager, 8, TARN_STREAM_NONE, &pointer));
    CHECK_MESSAGE(message);
    CHECK(pointer == NULL);
    tarn_manager_release(manager);
}

TEST(pool_manager_rejects_an_unsuitable_resource)
{
    tarn_pool_manager_options options = {.size = 8};
    tarn_manager *manager = NULL;

    check_rejects(make_nothing, "for device 0 returned none");
    check_rejects(make_host, "returned a resource of another device, device -1");
    check_rejects(fail_silently, "pool manager: options.make failed for device 0");
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_create(tarn_pool_manager_ops(), &options, 0, &manager));
    CHECK_MESSAGE("options.size is 8, at least");
    struct {
        tarn_pool_manager_options known;
        uint64_t later;
    } longer = {{.size = sizeof longer}, 1};
    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_manager_create(tarn_pool_manager_ops(), &longer, 0, &manager));
    CHECK_MESSAGE("that this libtarn knows");
    CHECK(manager == NULL);
}

TEST(pool_manager_has_host_memory_and_numbers)
{
    tarn_manager *manager;
    tarn_pointer *host, *managed;
    size_t free_bytes = 0, total = 0;

    CHECK_OK(tarn_manager_create(tarn_pool_manager_ops(), NULL, 0, &manager));
    CHECK_OK(tarn_manager_memhostalloc(manager, 64, TARN_HOST_MAPPED, &host));
    CHECK_OK(tarn_manager_memallocmanaged(manager, 64, true, &managed));
    CHECK_OK(tarn_manager_get_memory_info(manager, &free_bytes, &total));
    CHECK(free_bytes > 0 && free_bytes <= total);
    tarn_pointer_release(host);
    tarn_pointer_release(managed);
    tarn_manager_release(manager);
    CHECK_EQUAL(0, tarn_pointer_deferred_count());
}

TEST(pool_manager_has_the_numbers_of_its_pool_or_else_the_devices)
{
    struct counted counted = {0};
    tarn_manager *manager = make(&counted, 0);
    size_t free_bytes = 0, total = 0;

    CHECK_OK(tarn_manager_get_memory_info(manager, &free_bytes, &total));
    CHECK(free_bytes > 0 && free_bytes <= total);
    CHECK(total >= 1 << 20);
    counted.total = 1000;
    CHECK_OK(tarn_manager_get_memory_info(manager, &free_bytes, &total));
    CHECK_EQUAL(500, free_bytes);
    CHECK_EQUAL(1000, total);
    tarn_manager_release(manager);
}
