/* Test a pool that still exists at the end of a process, a context or a device. */
#include "pools.h"
#include "child.h"
#include "pool/pool.h"
#include <sys/wait.h>
#include <unistd.h>

static tarn_resource *pool;
static tarn_device_ptr live;
static tarn_stream stream;

static void make_pool(void)
{
    use_driver(0);
    CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, NULL, &pool));
    CHILD_CHECK(cu.cuStreamCreate(&stream, NON_BLOCKING) == 0);
    CHILD_STATUS(TARN_OK, tarn_resource_allocate(pool, MIB, 0, stream, &live));
}

static void *work_on(void *data)
{
    tarn_device_ptr block;

    (void)data;
    for (size_t i = 0;; i++) {
        size_t bytes = 512 << i % 14;
        if (tarn_resource_allocate(pool, bytes, 0, NULL, &block) != TARN_OK ||
            tarn_resource_deallocate(pool, block, bytes, 0, NULL) != TARN_OK)
            sched_yield();
    }
    return NULL;
}

static void start_threads(int count)
{
    pthread_t thread;

    for (int i = 0; i < count; i++)
        CHILD_CHECK(pthread_create(&thread, NULL, work_on, NULL) == 0);
}

static void leave_while_threads_call(void)
{
    make_pool();
    start_threads(16);
    usleep(2000);
    exit(0);
}

/* A program on a GPU, or under the thread sanitizer, takes a second. */
#ifdef __SANITIZE_THREAD__
enum { PROGRAMS = 6 };
#else
enum { PROGRAMS = 60 };
#endif

TEST(program_may_end_with_live_blocks_while_threads_call)
{
    for (int i = 0; i < (has_sim() ? PROGRAMS : 6); i++)
        in_child(leave_while_threads_call);
}

/* In a child of a program whose threads hold any of the locks. */
static void use_after_a_fork(void)
{
    tarn_pool_statistics all = {.size = sizeof all};
    tarn_device_ptr block = 77;

    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_resource_allocate(pool, 512, 0, NULL, &block));
    CHILD_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_allocate(pool, MIB, 0, stream, &block));
    CHILD_CHECK(block == 77);
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(pool, live, MIB, 0, stream));
    CHILD_STATUS(TARN_OK, tarn_pool_get_statistics(pool, &all));
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD));
    CHILD_CHECK(tarn_pool_snapshot(pool, NULL, NULL) != TARN_OK);
}

static void fork_while_threads_call(void)
{
    make_pool();
    start_threads(4);
    for (int i = 0; i < 20; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            alarm(20);
            use_after_a_fork();
            _exit(0);
        }
        waitpid(child, &status, 0);
        if (status != 0)
            child_fail("the forked child ended with 0x%x", (unsigned)status);
    }
}

TEST(forked_child_may_use_a_pool_whatever_locks_were_held)
{
    in_child(fork_while_threads_call);
}

static bool say_no(void *data, tarn_resource *of, size_t bytes, unsigned attempt)
{
    (void)data, (void)of, (void)bytes, (void)attempt;
    return false;
}

static tarn_stream opened;
static tarn_pool_capture *memory;
static tarn_resource *unused; /* a pool with no other reference */

/* Each call of tarn/pool.h, and each call on a resource. */
static void ask_everything(void)
{
    tarn_pool_statistics all = {.size = sizeof all};
    tarn_pool_capture_statistics kept = {.size = sizeof kept};
    tarn_pool_capture *more = NULL;
    tarn_resource *another = NULL;
    tarn_device_ptr block = 77;
    uint64_t generation = 77;
    size_t free_bytes, total_bytes, bytes = 77;

    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(pool, live, MIB, 0, opened));
    CHILD_STATUS(TARN_OK, tarn_pool_get_statistics(pool, &all));
    CHILD_STATUS(TARN_OK, tarn_pool_generation(pool, &generation));
    CHILD_CHECK(generation == 0);
    CHILD_STATUS(TARN_OK, tarn_pool_remove_oom_callback(pool, say_no, NULL));
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_pool_add_oom_callback(pool, say_no, NULL));
    CHILD_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_allocate(pool, 512, 0, opened, &block));
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_pool_set_maximum(pool, 8 * MIB));
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_pool_suspend(pool, TARN_POOL_SUSPEND_KEEP));
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_pool_resume(pool));
    CHILD_CHECK(tarn_pool_set_peer_access(pool, 1, true) !=
                TARN_OK); /* if there is such a device */
    CHILD_STATUS(TARN_DRIVER_FAILURE,
                 tarn_pool_snapshot(pool, (tarn_pool_block_fn)abort, NULL));
    CHILD_STATUS(TARN_DRIVER_FAILURE, tarn_pool_create(0, NULL, NULL, &another));
    CHILD_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_memory_info(pool, NULL, &free_bytes, &total_bytes));
    CHILD_STATUS(TARN_OK, tarn_resource_trim(pool, 0, &bytes));
    CHILD_CHECK(bytes == 0 && block == 77 && !another);
    tarn_resource_requested_bytes(pool, live, &bytes); /* it may still be known */
    CHILD_CHECK(tarn_resource_live_blocks(pool) == 0);
    CHILD_CHECK(tarn_pool_get_capture(pool, stream, &more) != TARN_OK && !more);
    CHILD_STATUS(TARN_BUSY, tarn_pool_capture_get_statistics(memory, &kept));
    CHILD_STATUS(TARN_OK, tarn_pool_capture_release(memory, stream));
    CHILD_STATUS(TARN_OK, tarn_pool_capture_unreference(memory));
    tarn_stream_unregister(opened);
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
    CHILD_STATUS(TARN_OK, tarn_resource_release(unused));
}

static atomic_bool may_end;

/* A thread's caches end with the thread, under the lock of the list of pools. The thread
 * waits there for the pool's own lock. */
static void *keep_something(void *data)
{
    tarn_device_ptr block;

    for (int i = 0; i < 200; i++)
        if (tarn_resource_allocate(pool, 512, 0, NULL, &block) != TARN_OK ||
            tarn_resource_deallocate(pool, block, 512, 0, NULL) != TARN_OK)
            abort();
    atomic_fetch_add((atomic_int *)data, 1);
    while (!atomic_load(&may_end))
        usleep(500);
    return NULL;
}

/* Act as if other threads were inside calls. In the child each lock of the pool stays
 * held, and so does the lock of the list of pools. */
static void fork_with_all_locks_held(void)
{
    struct tarn__pool *its;
    atomic_int ready = 0;
    pthread_t thread;
    int status = 0;
    void *graph;

    make_pool();
    CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, NULL, &unused));
    CHILD_CHECK(pthread_create(&thread, NULL, keep_something, &ready) == 0);
    while (!atomic_load(&ready))
        usleep(500);
    CHILD_STATUS(TARN_OK, tarn_stream_register(0, stream, &opened));
    CHILD_STATUS(TARN_OK, tarn_pool_add_oom_callback(pool, say_no, NULL));
    CHILD_CHECK(cu.cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED) == 0);
    CHILD_STATUS(TARN_OK, tarn_pool_get_capture(pool, stream, &memory));
    CHILD_CHECK(cu.cuStreamEndCapture(stream, &graph) == 0);
    CHILD_STATUS(TARN_OK, tarn__pool_of(pool, "pool", &its));
    pthread_mutex_lock(&its->growth.mutex);
    pthread_mutex_lock(&its->device_wait);
    tarn__lock_take(&its->lock);
    atomic_store(&may_end, true);
    usleep(20000); /* otherwise one lock of the child is free */
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        ask_everything();
        _exit(0);
    }
    CHILD_CHECK(waitpid(child, &status, 0) == child);
    if (status != 0)
        child_fail("the forked child ended with 0x%x", (unsigned)status);
    tarn__lock_leave(&its->lock);
    pthread_mutex_unlock(&its->device_wait);
    pthread_mutex_unlock(&its->growth.mutex);
    pthread_join(thread, NULL);
    CHILD_STATUS(TARN_OK, tarn_resource_release(unused));
}

TEST(forked_child_has_an_answer_from_every_call_with_all_locks_held)
{
    in_child(fork_with_all_locks_held);
}

static void *park_one(void *data)
{
    tarn_device_ptr block;

    (void)data;
    if (tarn_resource_allocate(pool, 512, 0, stream, &block) != TARN_OK ||
        tarn_resource_deallocate(pool, block, 512, 0, stream) != TARN_OK ||
        tarn_resource_allocate(pool, 512, 0, stream, &block) != TARN_OK ||
        tarn_resource_deallocate(pool, block, 512, 0, stream) != TARN_OK)
        abort();
    return NULL;
}

static void reset_the_context(void)
{
    tarn_pool_statistics all = {.size = sizeof all};
    tarn_pool_capture *capture = NULL;
    tarn_device_ptr block = 77;
    pthread_t thread;
    void *graph;

    make_pool();
    CHILD_CHECK(pthread_create(&thread, NULL, park_one, NULL) == 0);
    pthread_join(thread, NULL);
    park_one(NULL);
    CHILD_CHECK(cu.cuStreamBeginCapture_v2(stream, CAPTURE_RELAXED) == 0);
    CHILD_STATUS(TARN_OK, tarn_pool_get_capture(pool, stream, &capture));
    CHILD_CHECK(cu.cuStreamEndCapture(stream, &graph) == 0);
    CHILD_CHECK(cu.cuDevicePrimaryCtxReset_v2(0) == 0);
    CHILD_STATUS(TARN_DRIVER_FAILURE,
                 tarn_resource_allocate(pool, 3 * MIB, 0, NULL, &block));
    CHILD_CHECK(block == 77);
    CHILD_MESSAGE("was reset");
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(pool, live, MIB, 0, NULL));
    CHILD_STATUS(TARN_OK, tarn_pool_get_statistics(pool, &all));
    CHILD_STATUS(TARN_OK, tarn_pool_capture_release(capture, NULL));
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
    CHILD_CHECK(!has_sim() || sim_live_bytes() == 0);
}

TEST(pool_of_a_context_that_was_reset_ends_in_peace)
{
    in_child(reset_the_context);
}

static void lose_the_device(void)
{
    tarn_pool_statistics all = {.size = sizeof all};
    tarn_device_ptr block = 77, other;

    make_pool();
    CHILD_STATUS(TARN_OK, tarn_resource_allocate(pool, 512, 0, stream, &other));
    sim_configure("lost=1");
    CHILD_CHECK(tarn_resource_allocate(pool, 3 * MIB, 0, stream, &block) != TARN_OK);
    CHILD_CHECK(block == 77);
    unsigned long long calls = sim_calls();
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(pool, live, MIB, 0, stream));
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(pool, other, 512, 0, stream));
    CHILD_STATUS(TARN_OK, tarn_pool_get_statistics(pool, &all));
    CHILD_CHECK(tarn_resource_allocate(pool, 512, 0, stream, &block) != TARN_OK);
    CHILD_CHECK(sim_calls() == calls);
    CHILD_STATUS(TARN_OK, tarn_resource_release(pool));
}

TEST(after_the_device_is_lost_frees_and_statistics_answer_and_no_call_is_made)
{
    if (!has_sim())
        skip(); /* a test cannot lose a real GPU */
    in_child(lose_the_device);
}
