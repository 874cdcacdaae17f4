/* Check that the suite detects resources that break the promises. Each resource here is
 * host memory with one defect, and must fail the check of that defect. */
#include "test.h"
#include "tarn_conformance.h"
#include <pthread.h>
#include <stdlib.h>

enum fault {
    NONE,
    FORGETS_ALIGNMENT,
    ANSWERS_HUGE_REQUESTS,
    IGNORES_WRONG_BYTES,
    TELLS_FIGURES_THAT_CANNOT_BE,
    RETURNS_A_BLOCK_TWICE,
    COUNTS_WRONG,
    FORGETS_WORK_OF_OTHER_STREAMS /* on a device */
};

struct broken {
    tarn_resource *host; /* or a pool of device 0 */
    enum fault fault;
    tarn_device_ptr twice; /* the block that is returned by every allocation, */
    pthread_t to;          /* for this thread: more would be a race of the tests */
};

static tarn_status broken_allocate(void *self, size_t bytes, size_t alignment,
                                   tarn_stream stream, tarn_device_ptr *out)
{
    struct broken *broken = self;

    if (broken->fault == FORGETS_ALIGNMENT)
        alignment = 256;
    if (broken->fault == FORGETS_WORK_OF_OTHER_STREAMS && stream == TARN_STREAM_NONE)
        stream = TARN_STREAM_LEGACY;
    if (broken->fault == ANSWERS_HUGE_REQUESTS && bytes > (size_t)1 << 40)
        bytes = 256;
    if (broken->fault == RETURNS_A_BLOCK_TWICE && bytes <= 4096 && broken->twice &&
        pthread_equal(broken->to, pthread_self())) {
        *out = broken->twice;
        return TARN_OK;
    }
    return tarn_resource_allocate(broken->host, bytes, alignment, stream, out);
}

/* Accepts everything: the suite calls the host resource only with known blocks. */
static tarn_status broken_deallocate(void *self, tarn_device_ptr block, size_t bytes,
                                     size_t alignment, tarn_stream stream)
{
    struct broken *broken = self;
    size_t real;

    if (broken->fault == FORGETS_ALIGNMENT)
        alignment = 256;
    if (broken->fault == RETURNS_A_BLOCK_TWICE && block == broken->twice)
        return TARN_OK;
    if (broken->fault == IGNORES_WRONG_BYTES &&
        tarn_resource_requested_bytes(broken->host, block, &real) == TARN_OK)
        bytes = real;
    if (broken->fault == FORGETS_WORK_OF_OTHER_STREAMS && stream == TARN_STREAM_NONE)
        stream = TARN_STREAM_LEGACY;
    return tarn_resource_deallocate(broken->host, block, bytes, alignment, stream);
}

static void broken_destroy(void *self)
{
    struct broken *broken = self;

    if (broken->twice)
        tarn_resource_deallocate(broken->host, broken->twice, 4096, 0, NULL);
    tarn_resource_release(broken->host);
    free(broken);
}

static tarn_status broken_memory_info(void *self, tarn_stream stream, size_t *free_out,
                                      size_t *total_out)
{
    (void)self, (void)stream;
    *free_out = 2, *total_out = 1;
    return TARN_OK;
}

static size_t broken_live_blocks(const void *self)
{
    const struct broken *broken = self;

    return tarn_resource_live_blocks(broken->host) / 2;
}

static bool broken_serves_no_stream(const void *self)
{
    return ((const struct broken *)self)->fault == FORGETS_WORK_OF_OTHER_STREAMS;
}

static tarn_status make_broken(void *data, int device, tarn_resource **out)
{
    tarn_resource_ops ops = {.size = sizeof ops,
                             .name = "broken",
                             .allocate = broken_allocate,
                             .deallocate = broken_deallocate,
                             .destroy = broken_destroy,
                             .supports_no_stream = broken_serves_no_stream};
    struct broken *broken = calloc(1, sizeof *broken);

    (void)device;
    CHECK(broken != NULL);
    broken->fault = *(enum fault *)data;
    broken->to = pthread_self();
    bool on_device = broken->fault == FORGETS_WORK_OF_OTHER_STREAMS;
    CHECK_OK(on_device ? tarn_pool_create(0, NULL, NULL, &broken->host)
                       : tarn_host_create(&broken->host));
    if (broken->fault == RETURNS_A_BLOCK_TWICE)
        CHECK_OK(tarn_resource_allocate(broken->host, 4096, 0, NULL, &broken->twice));
    if (broken->fault == TELLS_FIGURES_THAT_CANNOT_BE)
        ops.memory_info = broken_memory_info;
    if (broken->fault == COUNTS_WRONG)
        ops.live_blocks = broken_live_blocks;
    return tarn_resource_create(&ops, broken, on_device ? 0 : TARN_DEVICE_NONE, out);
}

static const char *wanted; /* the check that has to fail */
static bool wanted_failed;

static void report(void *data, const char *check, const char *what)
{
    (void)data;
    if (what && strcmp(check, wanted) == 0)
        wanted_failed = true;
}

static int run_with(enum fault fault, const char *check)
{
    tarn_conformance_subject subject = {.size = sizeof subject,
                                        .name = "broken",
                                        .create = make_broken,
                                        .data = &fault,
                                        .device = TARN_DEVICE_NONE};

    wanted = check;
    wanted_failed = false;
    return tarn_conformance_run(&subject, report, NULL);
}

static void is_noticed(enum fault fault, const char *check)
{
    CHECK(run_with(fault, check) > 0);
    CHECK(wanted_failed);
}

TEST(suite_passes_the_same_resource_with_nothing_wrong)
{
    CHECK_EQUAL(0, run_with(NONE, ""));
}

TEST(suite_notices_forgotten_alignment)
{
    is_noticed(FORGETS_ALIGNMENT, "keeps_any_alignment");
}

TEST(suite_notices_answers_to_impossible_requests)
{
    is_noticed(ANSWERS_HUGE_REQUESTS, "rejects_impossible_requests");
}

TEST(suite_notices_wrong_bytes_that_are_taken)
{
    is_noticed(IGNORES_WRONG_BYTES, "detects_wrong_frees");
}

TEST(suite_notices_figures_that_cannot_be)
{
    is_noticed(TELLS_FIGURES_THAT_CANNOT_BE, "reports_free_memory");
}

TEST(suite_notices_blocks_that_overlap)
{
    is_noticed(RETURNS_A_BLOCK_TWICE, "allocates_any_size");
    is_noticed(RETURNS_A_BLOCK_TWICE, "keeps_the_order_of_streams");
}

TEST(suite_notices_a_wrong_count)
{
    is_noticed(COUNTS_WRONG, "allocates_any_size");
}

TEST(suite_notices_a_false_promise_to_those_without_a_stream)
{
    is_noticed(FORGETS_WORK_OF_OTHER_STREAMS, "orders_memory_without_a_stream");
}
