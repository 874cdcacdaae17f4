/* Test guard mode for all resources of the process: each test is a process of its own. */
#define _GNU_SOURCE
#include "child.h"
#include "scripted.h"
#include "test.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 1000 };

static tarn_guard_report last_report;
static unsigned report_count;

static void note(void *data, const tarn_guard_report *report)
{
    (void)data;
    last_report = *report;
    report_count++;
}

static void enable(const char *text)
{
    tarn_guard_options options;

    tarn_guard_set_handler(note, NULL);
    CHILD_STATUS(TARN_OK, tarn_guard_parse(text, &options));
    CHILD_STATUS(TARN_OK, tarn_guard_enable(&options));
}

static tarn_resource *make_pool(void)
{
    tarn_resource *pool;

    CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, NULL, &pool));
    return pool;
}

static tarn_device_ptr take(tarn_resource *resource)
{
    tarn_device_ptr block;

    CHILD_STATUS(TARN_OK, tarn_resource_allocate(resource, BYTES, 0, NULL, &block));
    return block;
}

static void put(tarn_resource *resource, tarn_device_ptr block)
{
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(resource, block, BYTES, 0, NULL));
}

static void write_at(tarn_device_ptr address, size_t bytes)
{
    CHILD_STATUS(TARN_OK, tarn_memset_async(0, address, 0x2a, bytes, NULL));
}

static tarn_guard_counts counts(void)
{
    tarn_guard_counts now = {.size = sizeof now};

    CHILD_STATUS(TARN_OK, tarn_guard_read_counts(NULL, &now));
    return now;
}

/* --- the resources of a process --- */

static void guard_each_resource(void)
{
    tarn_resource *cuda, *limiter, *pool, *over;
    size_t bytes = 0, used;

    enable("guard,poison,quarantine");
    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &cuda));
    CHILD_STATUS(TARN_OK, tarn_limiter_create(cuda, 1 << 30, &limiter));
    CHILD_STATUS(TARN_OK, tarn_pool_create(0, limiter, NULL, &over));
    pool = make_pool();
    tarn_resource *resources[] = {cuda, limiter, pool, over};
    for (unsigned i = 0; i < 4; i++) {
        tarn_device_ptr block = take(resources[i]);
        CHILD_CHECK(counts().guarded == i + 1); /* once, also where they stack */
        CHILD_STATUS(TARN_OK, tarn_resource_requested_bytes(resources[i], block, &bytes));
        CHILD_CHECK(bytes == BYTES);
        write_at(block + BYTES, 1);
        put(resources[i], block);
        CHILD_STATUS(TARN_OK, tarn_guard_check(NULL, NULL));
        CHILD_CHECK(report_count == i + 1 && last_report.damage == TARN_GUARD_BEHIND);
        CHILD_CHECK(last_report.address == block && last_report.bytes == BYTES);
        CHILD_CHECK(strcmp(last_report.resource, tarn_resource_name(resources[i])) == 0);
        CHILD_STATUS(TARN_INVALID_ARGUMENT,
                     tarn_resource_deallocate(resources[i], block, BYTES, 0, NULL));
        CHILD_CHECK(last_report.damage == TARN_GUARD_FREED_TWICE);
        report_count = i + 1;
    }
    CHILD_CHECK(counts().quarantined_blocks == 4);
    /* The last release returns the blocks in quarantine first. */
    CHILD_STATUS(TARN_OK, tarn_resource_release(over));
    CHILD_STATUS(TARN_OK, tarn_limiter_used_bytes(limiter, &used));
    CHILD_STATUS(TARN_OK, tarn_resource_release(limiter));
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
    CHILD_STATUS(TARN_OK, tarn_resource_release(cuda));
    CHILD_CHECK(counts().quarantined_blocks == 0);
    CHILD_CHECK(counts().unguarded == 0);
}

TEST(guard_mode_guards_each_resource_once)
{
    in_child(guard_each_resource);
}

static void enable_twice(void)
{
    tarn_guard_options none = {.size = sizeof none};
    tarn_guard_counts now = {.size = sizeof now};

    CHILD_STATUS(TARN_INVALID_ARGUMENT, tarn_guard_enable(&none));
    CHILD_STATUS(TARN_NOT_FOUND, tarn_guard_read_counts(NULL, &now));
    CHILD_STATUS(TARN_OK, tarn_guard_enable(NULL));
    CHILD_STATUS(TARN_ALREADY_SET, tarn_guard_enable(NULL));
    CHILD_STATUS(TARN_OK, tarn_guard_check(NULL, NULL));
}

TEST(guard_mode_is_switched_on_once)
{
    in_child(enable_twice);
}

/* --- blocks from before --- */

static void free_an_earlier_block(void)
{
    tarn_resource *pool = make_pool();
    tarn_device_ptr block = take(pool);

    enable("guard,poison,quarantine");
    put(pool, block);
    CHILD_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_resource_deallocate(pool, block, BYTES, 0, NULL));
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
    CHILD_CHECK(report_count == 0);
}

TEST(a_block_from_before_has_no_guard)
{
    in_child(free_an_earlier_block);
}

/* --- samples --- */

static void take_samples(void)
{
    enum { ROUNDS = 40000, LIVE = 64 };
    tarn_resource *pool = make_pool(), *limiter;
    tarn_device_ptr blocks[LIVE] = {0}, limited;

    enable("guard=1/100,poison,quarantine");
    CHILD_STATUS(TARN_OK, tarn_limiter_create(pool, 1 << 30, &limiter));
    for (unsigned i = 0; i < ROUNDS; i++) {
        tarn_device_ptr *place = &blocks[(i * 7) % LIVE];
        tarn_resource *resource = i % 2 == 0 ? pool : limiter;
        if (*place)
            put((i - LIVE) % 2 == 0 ? pool : limiter, *place);
        *place = take(resource);
        if (i % 64 == 0) { /* a larger alignment gives an address without the mark */
            CHILD_STATUS(TARN_OK,
                         tarn_resource_allocate(pool, BYTES, 4096, NULL, &limited));
            CHILD_STATUS(TARN_OK,
                         tarn_resource_deallocate(pool, limited, BYTES, 4096, NULL));
        }
    }
    for (unsigned i = ROUNDS; i < ROUNDS + LIVE; i++)
        put((i - LIVE) % 2 == 0 ? pool : limiter, blocks[(i * 7) % LIVE]);
    CHILD_STATUS(TARN_OK, tarn_guard_check(NULL, NULL));
    CHILD_CHECK(counts().guarded > 300 && counts().guarded < 500);
    CHILD_CHECK(counts().unguarded == 0 && counts().reports == 0);
    CHILD_STATUS(TARN_OK, tarn_resource_release(limiter));
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
}

TEST(a_sample_is_one_block_of_so_many)
{
    in_child(take_samples);
}

static void find_by_samples(void)
{
    tarn_resource *pool = make_pool();

    enable("guard=1/10");
    for (unsigned i = 0; i < 1000; i++) {
        tarn_device_ptr block = take(pool);
        write_at(block, BYTES + 4); /* the pool's rounding leaves 24 bytes */
        put(pool, block);
    }
    CHILD_STATUS(TARN_OK, tarn_guard_check(NULL, NULL));
    CHILD_CHECK(report_count == counts().guarded && report_count > 50);
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
}

TEST(samples_find_a_write_that_repeats)
{
    in_child(find_by_samples);
}

/* --- the observer --- */

static tarn_observer_event events[4];
static unsigned event_count;

static void observe(void *data, const tarn_observer_event *event)
{
    (void)data;
    if (event_count < 4)
        events[event_count] = *event;
    event_count++;
}

static void observe_requests(void)
{
    tarn_resource *pool = make_pool();

    enable("guard,quarantine=1KiB");
    CHILD_STATUS(TARN_OK, tarn_resource_set_observer(observe, NULL));
    tarn_device_ptr block = take(pool);
    put(pool, block);
    put(pool, take(pool)); /* ends the quarantine of the first one */
    CHILD_STATUS(TARN_OK, tarn_guard_check(NULL, NULL));
    CHILD_STATUS(TARN_OK, tarn_resource_trim(pool, 0, NULL));
    CHILD_STATUS(TARN_OK, tarn_resource_set_observer(NULL, NULL));
    CHILD_CHECK(event_count == 6); /* a free has two */
    CHILD_CHECK(events[0].block == block && events[0].bytes == BYTES);
    CHILD_CHECK(events[1].block == block && events[1].bytes == BYTES);
    CHILD_CHECK(events[2].block == block && events[2].is_over);
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
}

TEST(an_observer_receives_the_requests_of_the_program)
{
    in_child(observe_requests);
}

/* --- threads --- */

enum { THREADS = 4, TURNS = 300, LIVE = 8 };

static tarn_resource *shared;

static void *use(void *data)
{
    unsigned *seed = data, blocks_live = 0;
    tarn_device_ptr blocks[LIVE];
    tarn_stream stream;

    CHILD_STATUS(TARN_OK, tarn_stream_create(0, true, &stream));
    for (unsigned i = 0; i < TURNS; i++) {
        tarn_stream used = (i + *seed) % 3 == 0 ? TARN_STREAM_NONE : stream;
        if (blocks_live == LIVE || (blocks_live > 0 && (i * 31 + *seed) % 3 == 0))
            CHILD_STATUS(TARN_OK, tarn_resource_deallocate(shared, blocks[--blocks_live],
                                                           BYTES, 0, used));
        CHILD_STATUS(TARN_OK, tarn_resource_allocate(shared, BYTES, 0, used,
                                                     &blocks[blocks_live]));
        CHILD_STATUS(TARN_OK,
                     tarn_memset_async(0, blocks[blocks_live++], 1, BYTES, stream));
        if (i % 100 == *seed)
            CHILD_STATUS(TARN_OK, tarn_guard_check(NULL, NULL));
        CHILD_STATUS(TARN_OK, tarn_stream_synchronize(0, stream));
    }
    while (blocks_live > 0)
        CHILD_STATUS(TARN_OK, tarn_resource_deallocate(shared, blocks[--blocks_live],
                                                       BYTES, 0, stream));
    CHILD_STATUS(TARN_OK, tarn_stream_destroy(0, stream));
    return NULL;
}

static void use_in_threads(const char *text)
{
    pthread_t threads[THREADS];
    unsigned seeds_of[THREADS];

    enable(text);
    shared = make_pool();
    for (unsigned i = 0; i < THREADS; i++) {
        seeds_of[i] = i;
        CHILD_CHECK(pthread_create(&threads[i], NULL, use, &seeds_of[i]) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_join(threads[i], NULL) == 0);
    CHILD_STATUS(TARN_OK, tarn_guard_check(NULL, NULL));
    CHILD_CHECK(report_count == 0);
    CHILD_STATUS(TARN_OK, tarn_resource_release(shared));
    CHILD_CHECK(counts().guarded > 0 && counts().quarantined_blocks == 0);
}

static void use_all_in_threads(void)
{
    use_in_threads("guard,poison,quarantine=16KiB");
}

static void use_samples_in_threads(void)
{
    use_in_threads("guard=1/7,poison,quarantine=16KiB");
}

TEST(threads_share_a_guard)
{
    in_child(use_all_in_threads);
    in_child(use_samples_in_threads);
}

/* --- forks and exit --- */

static void free_in_a_fork_with(const char *text)
{
    int status = 0;

    enable(text);
    tarn_resource *pool = make_pool();
    for (unsigned i = 0; i < 1000; i++) /* with samples some are in open batches then */
        put(pool, take(pool));
    tarn_device_ptr block = take(pool), late = take(pool);
    put(pool, late);
    fflush(NULL);
    pid_t child = fork();
    CHILD_CHECK(child >= 0);
    if (child == 0) {
        tarn_device_ptr none = 7;
        put(pool, block);
        CHILD_CHECK(tarn_resource_allocate(pool, BYTES, 0, NULL, &none) != TARN_OK);
        CHILD_CHECK(none == 7);
        CHILD_CHECK(tarn_guard_check(NULL, NULL) != TARN_OK);
        CHILD_STATUS(TARN_OK, tarn_resource_trim(pool, 0, NULL));
        tarn_resource_release(pool);
        exit(0);
    }
    CHILD_CHECK(waitpid(child, &status, 0) == child && status == 0);
    put(pool, block);
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
    CHILD_CHECK(report_count == 0);
}

static void free_in_a_fork(void)
{
    free_in_a_fork_with("guard,poison,quarantine");
}

static void free_samples_in_a_fork(void)
{
    free_in_a_fork_with("guard=1/2");
}

TEST(a_forked_child_frees_without_a_driver)
{
    in_child(free_in_a_fork);
    in_child(free_samples_in_a_fork);
}

/* Run `function` in a process that ends with exit(). Returns what it wrote to stderr, and
 * its status. */
static const char *stderr_of(void (*function)(void), int *status_out)
{
    static char text[65536];
    size_t length = 0;
    int ends[2];
    ssize_t got;

    CHECK_EQUAL(0, pipe(ends));
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        function();
        exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], text + length, sizeof text - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = 0;
    close(ends[0]);
    CHECK_EQUAL(child, waitpid(child, status_out, 0));
    return text;
}

static void write_wrongly(const char *text)
{
    enable(text);
    tarn_guard_set_handler(NULL, NULL);
    tarn_resource *pool = make_pool();
    tarn_device_ptr freed = take(pool), live = take(pool);
    write_at(live - 2, 1);
    put(pool, freed);
    write_at(freed, 4);
}

static void write_before_exit(void)
{
    write_wrongly("guard,poison,quarantine");
}

TEST(exit_reports_live_blocks_and_freed_ones)
{
    int status = -1;
    const char *text = stderr_of(write_before_exit, &status);

    CHECK_EQUAL(0, status);
    CHECK(strstr(text,
                 "tarn: guard: 4 bytes of a freed block were written, offset 0 to 3, "
                 "now 2a 2a 2a 2a\n"));
    CHECK(strstr(text, "tarn: guard: 1 byte before a block was written, offset -2 to -2, "
                       "now 2a\n"));
    CHECK(strstr(text, " not freed yet\n"));
    CHECK(strstr(text, " freed on stream 0x0:\n"));
}

static void write_samples_before_exit(void)
{
    enable("guard=1/3");
    tarn_guard_set_handler(NULL, NULL);
    tarn_resource *pool = make_pool();
    for (unsigned i = 0; i < 2000; i++) {
        tarn_device_ptr block = take(pool);
        if (i >= 1980)
            write_at(block + BYTES, 4);
        if (i < 1990)
            put(pool, block);
    }
}

TEST(exit_reports_samples_live_and_freed)
{
    int status = -1;
    const char *text = stderr_of(write_samples_before_exit, &status);

    CHECK_EQUAL(0, status);
    CHECK(strstr(text, "tarn: guard: 4 bytes behind a block were written, offset 1000 to "
                       "1003, now 2a 2a 2a 2a\n"));
    CHECK(strstr(text, " not freed yet\n"));
    CHECK(strstr(text, " freed on stream 0x0:\n"));
}

static void write_and_abort(void)
{
    write_wrongly("guard,abort");
}

TEST(abort_ends_the_process_at_the_first_report)
{
    int status = -1;
    const char *text = stderr_of(write_and_abort, &status);

    CHECK(WIFSIGNALED(status));
    CHECK(strstr(text, "before a block"));
}
