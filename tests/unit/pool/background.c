/* Test the background thread of a pool: growth ahead of demand, the return of idle memory
 * when the device's memory is scarce, and the end of the thread. */
#include "field.h"
#include "base/clock.h"
#include "capturing.h"
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

/* --- the creation of threads, which tests can let fail --- */

static atomic_bool no_threads;    /* creating one fails */
static atomic_bool takes_signals; /* a thread was created with SIGUSR1 not blocked */

typedef int create_fn(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

int pthread_create(pthread_t *out, const pthread_attr_t *attributes,
                   void *(*function)(void *), void *data)
{
    sigset_t blocked;
    create_fn *create;
    void *found = dlsym(RTLD_NEXT, "pthread_create");

    if (atomic_load(&no_threads))
        return EAGAIN;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    atomic_store(&takes_signals, !sigismember(&blocked, SIGUSR1));
    memcpy(&create, &found, sizeof create);
    return create(out, attributes, function, data);
}

/* --- the CPUs of a NUMA node, which tests can choose --- */

static char cpus_of_node[64]; /* "": those of this machine */
static cpu_set_t chosen;      /* the CPUs of the thread */

typedef FILE *open_fn(const char *, const char *);

FILE *fopen(const char *path, const char *mode)
{
    open_fn *open;
    void *found = dlsym(RTLD_NEXT, "fopen");

    if (cpus_of_node[0] && strncmp(path, "/sys/devices/system/node/", 25) == 0)
        return fmemopen(cpus_of_node, strlen(cpus_of_node), "r");
    memcpy(&open, &found, sizeof open);
    return open(path, mode);
}

int sched_setaffinity(pid_t thread, size_t bytes, const cpu_set_t *cpus)
{
    memcpy(&chosen, cpus, bytes);
    return (int)syscall(SYS_sched_setaffinity, thread, bytes, cpus);
}

/* --- pools --- */

static const tarn_pool_options with_thread = {.size = sizeof with_thread,
                                              .background_thread = true};

static bool has_thread(tarn_resource *pool)
{
    struct tarn__pool *self = inside(pool);
    bool has = false;

    CHECK_OK(tarn__pool_take_growth(self));
    has = self->background != NULL;
    tarn__pool_leave_growth(self);
    return has;
}

/* Check that the statistics add up while the thread maps and unmaps nothing. */
static void adds_up_between_growths(tarn_resource *pool)
{
    CHECK_OK(tarn__pool_take_growth(inside(pool)));
    adds_up(pool);
    tarn__pool_leave_growth(inside(pool));
}

/* Return the statistics of a moment in which nothing grows the pool. */
static tarn_pool_statistics between_growths(tarn_resource *pool)
{
    CHECK_OK(tarn__pool_take_growth(inside(pool)));
    tarn_pool_statistics all = statistics(pool);
    tarn__pool_leave_growth(inside(pool));
    return all;
}

static uint64_t free_bytes_of(tarn_resource *pool)
{
    tarn_pool_statistics all = statistics(pool);

    return all.cached + all.thread_cached;
}

enum { PATIENCE_MS = 20000 };

/* Wait until it has at least, or at most, that many bytes: free ahead, or reserved. */
static bool gets_ahead(tarn_resource *pool, uint64_t bytes)
{
    for (int i = 0; i < PATIENCE_MS && free_bytes_of(pool) < bytes; i++)
        usleep(1000);
    return free_bytes_of(pool) >= bytes;
}

static bool shrinks_to(tarn_resource *pool, uint64_t bytes)
{
    for (int i = 0; i < PATIENCE_MS && statistics(pool).reserved > bytes; i++)
        usleep(1000);
    return statistics(pool).reserved <= bytes;
}

/* --- growth ahead --- */

TEST(pool_without_the_option_starts_no_thread)
{
    tarn_pool_options options = {.size = sizeof options};

    use_driver(0);
    for (int policy = 0; policy < 2; policy++) {
        options.policy = policy;
        tarn_resource *pool = new_pool(&options);
        atomic_store(&no_threads, true); /* not even in vain */
        tarn_device_ptr block = take(pool, 64 * MIB, NULL);
        CHECK(!has_thread(pool));
        atomic_store(&no_threads, false);
        put(pool, block, 64 * MIB, NULL);
        end_pool(pool);
    }
}

TEST(growth_starts_a_thread_that_takes_no_signals_and_grows_ahead)
{
    tarn_device_ptr blocks[8];

    use_driver(0);
    tarn_resource *pool = new_pool(&with_thread);
    CHECK(!has_thread(pool));
    atomic_store(&takes_signals, true);
    tarn_device_ptr first = take(pool, 64 * MIB, NULL);
    CHECK(has_thread(pool));
    CHECK(!atomic_load(&takes_signals));
    CHECK(gets_ahead(pool, 64 * MIB));
    uint64_t grown = statistics(pool).grown;
    for (int i = 0; i < 8; i++)
        blocks[i] = take(pool, 8 * MIB, NULL);
    CHECK_EQUAL(grown, statistics(pool).grown);
    for (int i = 0; i < 8; i++)
        put(pool, blocks[i], 8 * MIB, NULL);
    put(pool, first, 64 * MIB, NULL);
    adds_up_between_growths(pool);
    end_pool(pool);
}

/* The thread lets others have `growth` between two handles, and goes on after them. */
TEST(growth_ahead_goes_on_after_others_had_their_turn)
{
    use_driver(0);
    for (int round = 0; round < 8; round++) {
        tarn_resource *pool = new_pool(&with_thread);
        tarn_device_ptr first = take(pool, 64 * MIB, NULL);
        for (int i = 0; i < PATIENCE_MS && free_bytes_of(pool) < 64 * MIB; i++) {
            CHECK_OK(tarn__pool_take_growth(inside(pool)));
            usleep(100);
            tarn__pool_leave_growth(inside(pool));
            usleep(100);
        }
        CHECK(free_bytes_of(pool) >= 64 * MIB);
        put(pool, first, 64 * MIB, NULL);
        end_pool(pool);
    }
}

/* Free memory beyond a 16th of the pool, or 64 MiB, would be more than one step. */
TEST(growth_ahead_is_a_sixteenth_of_the_pool_or_64_mib)
{
    enum { COUNT = 48 };
    tarn_device_ptr blocks[COUNT];

    use_driver(0);
    tarn_resource *pool = new_pool(&with_thread);
    for (int i = 0; i < COUNT; i++) {
        blocks[i] = take(pool, 32 * MIB, NULL);
        usleep(3000);
        tarn_pool_statistics all = between_growths(pool);
        uint64_t step = all.reserved / 16 > 64 * MIB ? all.reserved / 16 : 64 * MIB;
        CHECK(all.reserved - all.live <= step + 32 * MIB); /* and the last handle */
    }
    for (int i = 0; i < COUNT; i++)
        put(pool, blocks[i], 32 * MIB, NULL);
    end_pool(pool);
}

/* The free bytes of a pool with a live block of `bytes`, after time to grow ahead. */
static uint64_t free_after(const tarn_pool_options *options, size_t bytes)
{
    tarn_resource *pool = new_pool(options);
    tarn_device_ptr block = take(pool, bytes, NULL);

    usleep(50 * 1000);
    uint64_t free_bytes = free_bytes_of(pool);
    put(pool, block, bytes, NULL);
    end_pool(pool);
    return free_bytes;
}

TEST(tight_pool_and_one_that_is_half_full_do_not_grow_ahead)
{
    tarn_pool_options options = with_thread;

    use_driver(0);
    options.policy = TARN_POOL_POLICY_TIGHT;
    CHECK(free_after(&options, 64 * MIB) < 32 * MIB);
    options.policy = TARN_POOL_POLICY_DEFAULT;
    options.maximum_bytes = 192 * MIB;
    CHECK(free_after(&options, 64 * MIB) < 32 * MIB);
}

TEST(pool_whose_peak_does_not_rise_does_not_grow_ahead)
{
    use_driver(0);
    tarn_resource *pool = new_pool(&with_thread);
    tarn_device_ptr block = take(pool, 64 * MIB, NULL);
    CHECK(gets_ahead(pool, 64 * MIB));
    size_t released;
    CHECK_OK(tarn_resource_trim(pool, 0, &released));
    put(pool, block, 64 * MIB, NULL);
    CHECK_OK(tarn_resource_trim(pool, 0, &released));
    block = take(pool, 64 * MIB, NULL);
    usleep(50 * 1000);
    CHECK(free_bytes_of(pool) < 32 * MIB);
    put(pool, block, 64 * MIB, NULL);
    end_pool(pool);
}

TEST(pool_works_where_the_thread_cannot_be_created)
{
    use_driver(0);
    tarn_resource *pool = new_pool(&with_thread);
    atomic_store(&no_threads, true);
    tarn_device_ptr first = take(pool, 64 * MIB, NULL);
    CHECK(!has_thread(pool));
    usleep(20 * 1000);
    CHECK(free_bytes_of(pool) < 32 * MIB);
    atomic_store(&no_threads, false);
    tarn_device_ptr second = take(pool, 64 * MIB, NULL); /* it tries again */
    CHECK(has_thread(pool));
    put(pool, first, 64 * MIB, NULL);
    put(pool, second, 64 * MIB, NULL);
    end_pool(pool);
}

/* HOST_NUMA_ID is attribute 134. A node that does not exist has no CPUs. */
TEST(thread_runs_near_the_device_where_the_node_is_known)
{
    static const char *const nodes[] = {"attribute=134:0", "attribute=134:99"};

    if (!on_sim())
        skip();
    use_driver(0);
    for (int i = 0; i < 2; i++) {
        sim_configure(nodes[i]);
        tarn_resource *pool = new_pool(&with_thread);
        tarn_device_ptr block = take(pool, 64 * MIB, NULL);
        CHECK(gets_ahead(pool, 64 * MIB));
        put(pool, block, 64 * MIB, NULL);
        end_pool(pool);
    }
    sim_configure(NULL);
}

/* The list has a range and two single CPUs. This process may not use the last one. */
TEST(thread_runs_on_those_cpus_of_the_node_that_the_process_may_use)
{
    cpu_set_t allowed, wanted;
    int first = -1, last = -1;

    if (!on_sim())
        skip();
    use_driver(0);
    CHECK_EQUAL(0, sched_getaffinity(0, sizeof allowed, &allowed));
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &allowed)) {
            first = first < 0 ? i : first;
            last = i;
        }
    snprintf(cpus_of_node, sizeof cpus_of_node, "%d-%d,%d,%d\n", first, first, last,
             CPU_SETSIZE - 1);
    CPU_ZERO(&wanted);
    CPU_SET(first, &wanted);
    CPU_SET(last, &wanted);
    sim_configure("attribute=134:0");
    tarn_resource *pool = new_pool(&with_thread);
    tarn_device_ptr block = take(pool, 64 * MIB, NULL);
    CHECK(gets_ahead(pool, 64 * MIB));
    put(pool, block, 64 * MIB, NULL);
    end_pool(pool); /* the thread has ended */
    cpus_of_node[0] = '\0';
    sim_configure(NULL);
    CHECK(CPU_EQUAL(&wanted, &chosen));
}

TEST(pool_with_an_upstream_has_no_thread)
{
    tarn_resource *cuda, *pool = NULL;

    use_driver(0);
    CHECK_OK(tarn_cuda_create(0, &cuda));
    CHECK_OK(tarn_pool_create(0, cuda, &with_thread, &pool));
    tarn_device_ptr block = take(pool, 64 * MIB, NULL);
    CHECK(!has_thread(pool));
    put(pool, block, 64 * MIB, NULL);
    end_pool(pool);
    CHECK_OK(tarn_resource_release(cuda));
}

/* --- scarcity --- */

/* Take memory of the device so that `left` bytes are free, as another process would. */
static tarn_device_ptr take_all_but(tarn_resource *cuda, size_t left, size_t *bytes_out)
{
    size_t free_bytes, total_bytes;

    CHECK_OK(tarn_resource_memory_info(cuda, NULL, &free_bytes, &total_bytes));
    CHECK(free_bytes > left);
    *bytes_out = free_bytes - left;
    return take(cuda, *bytes_out, NULL);
}

static tarn_resource *new_cuda(void)
{
    tarn_resource *cuda;

    CHECK_OK(tarn_cuda_create(0, &cuda));
    return cuda;
}

/* Each of two pools has a minimum. Afterwards neither grows or shrinks again. */
TEST(two_idle_pools_return_their_memory_down_to_their_minimum)
{
    tarn_pool_options options = with_thread;
    tarn_resource *pools[2], *cuda;
    tarn_device_ptr live[2];
    size_t theirs;

    if (!on_sim())
        skip(); /* a GPU has other users */
    use_driver(0);
    cuda = new_cuda();
    for (int i = 0; i < 2; i++) {
        options.initial_bytes = (size_t)(128 << i) * MIB;
        pools[i] = new_pool(&options);
        live[i] = take(pools[i], 2 * MIB, NULL);
        put(pools[i], take(pools[i], 1024 * MIB, NULL), 1024 * MIB, NULL);
    }
    usleep(1200 * 1000);
    for (int i = 0; i < 2; i++)
        CHECK(statistics(pools[i]).reserved >= 1024 * MIB); /* nothing is scarce */
    tarn_device_ptr other = take_all_but(cuda, 512 * MIB, &theirs);
    uint64_t start = tarn__clock_now_ns();
    for (int i = 0; i < 2; i++)
        CHECK(shrinks_to(pools[i], ((size_t)(128 << i) + 34) * MIB));
    printf("both returned their memory within %.0f ms\n",
           (double)(tarn__clock_now_ns() - start) / 1e6);
    tarn_pool_statistics before[2], then;
    usleep(20 * 1000); /* the end of the returns */
    for (int i = 0; i < 2; i++)
        before[i] = statistics(pools[i]);
    usleep(700 * 1000);
    for (int i = 0; i < 2; i++) {
        then = statistics(pools[i]);
        CHECK(then.reserved >= (size_t)(128 << i) * MIB);
        CHECK_EQUAL(before[i].growths, then.growths);
        CHECK_EQUAL(before[i].reserved, then.reserved);
        adds_up_between_growths(pools[i]);
        put(pools[i], live[i], 2 * MIB, NULL);
        end_pool(pools[i]);
    }
    put(cuda, other, theirs, NULL);
    CHECK_OK(tarn_resource_release(cuda));
}

static tarn_resource *pool_that_may_not_wait(void)
{
    tarn_pool_options options = with_thread;

    options.oom_policy = TARN_POOL_OOM_FAIL;
    return new_pool(&options);
}

/* A stream that is held up keeps the memory that it freed. */
TEST(memory_in_use_is_not_returned)
{
    struct gate gate;
    size_t theirs;

    if (!on_sim())
        skip();
    use_driver(0);
    tarn_resource *cuda = new_cuda(), *pool = pool_that_may_not_wait();
    tarn_stream stream = new_stream();
    tarn_device_ptr block = take(pool, 256 * MIB, stream);
    hold_up(stream, &gate);
    CU(cuMemsetD8Async(block, 1, MIB, stream));
    put(pool, block, 256 * MIB, stream);
    tarn_device_ptr other = take_all_but(cuda, 512 * MIB, &theirs);
    usleep(900 * 1000);
    CHECK(statistics(pool).reserved >= 256 * MIB);
    let_on(&gate);
    put(cuda, other, theirs, NULL);
    CU(cuStreamDestroy_v2(stream));
    end_pool(pool);
    CHECK_OK(tarn_resource_release(cuda));
}

/* No event fence covers it, and only a device-wide wait would complete it. */
TEST(unfenced_memory_is_returned_only_where_the_pool_may_wait)
{
    size_t theirs;

    if (!on_sim())
        skip();
    use_driver(0);
    for (int may_wait = 0; may_wait < 2; may_wait++) {
        tarn_resource *cuda = new_cuda();
        tarn_resource *pool =
            may_wait ? new_pool(&with_thread) : pool_that_may_not_wait();
        tarn_stream stream = new_stream();
        for (int i = 0; i < 500 && statistics(pool).unfenced < 256 * MIB; i++)
            put(pool, take(pool, 256 * MIB, stream), 256 * MIB, stream);
        CHECK(statistics(pool).unfenced >= 256 * MIB);
        tarn_device_ptr other = take_all_but(cuda, 512 * MIB, &theirs);
        if (may_wait) {
            CHECK(shrinks_to(pool, 0));
        } else {
            usleep(1200 * 1000);
            CHECK(statistics(pool).reserved >= 256 * MIB);
        }
        CHECK_EQUAL(may_wait, statistics(pool).device_synchronizations);
        put(cuda, other, theirs, NULL);
        CU(cuStreamDestroy_v2(stream));
        end_pool(pool);
        CHECK_OK(tarn_resource_release(cuda));
    }
}

/* Nothing was freed, so a device-wide wait would complete nothing. */
TEST(memory_that_no_stream_has_used_is_returned_without_a_wait)
{
    size_t theirs;

    if (!on_sim())
        skip();
    use_driver(0);
    tarn_resource *cuda = new_cuda(), *pool = new_pool(&with_thread);
    tarn_device_ptr block = take(pool, 64 * MIB, NULL);
    CHECK(gets_ahead(pool, 64 * MIB));
    tarn_device_ptr other = take_all_but(cuda, 512 * MIB, &theirs);
    CHECK(shrinks_to(pool, 64 * MIB));
    CHECK_EQUAL(0, statistics(pool).device_synchronizations);
    put(cuda, other, theirs, NULL);
    put(pool, block, 64 * MIB, NULL);
    end_pool(pool);
    CHECK_OK(tarn_resource_release(cuda));
}

/* Use the pool without a pause until that time. Returns the longest time from one use to
 * the next. */
static uint64_t use_until(tarn_resource *pool, tarn_stream stream, uint64_t end)
{
    uint64_t now, last = tarn__clock_now_ns(), longest = 0;

    for (; (now = tarn__clock_now_ns()) < end; last = now) {
        put(pool, take(pool, 256, stream), 256, stream);
        longest = now - last > longest ? now - last : longest;
    }
    return longest;
}

/* A wait would delay the threads that use the pool. The thread looks each 250 ms. If this
 * one could not run for so long, the pool was idle. */
TEST(pool_in_use_does_not_wait_for_the_device_to_return_memory)
{
    size_t theirs;

    if (!on_sim())
        skip();
    use_driver(0);
    tarn_resource *cuda = new_cuda(), *pool = new_pool(&with_thread);
    tarn_stream stream = new_stream(), other = new_stream();
    for (int i = 0; i < 500 && statistics(pool).unfenced < 256 * MIB; i++)
        put(pool, take(pool, 256 * MIB, stream), 256 * MIB, stream);
    put(pool, take(pool, 256, other), 256, other);
    tarn_device_ptr rest = take_all_but(cuda, 512 * MIB, &theirs);
    uint64_t second = UINT64_C(1000000000);
    uint64_t longest = use_until(pool, other, tarn__clock_now_ns() + 2 * second);
    CHECK(longest > second / 5 || statistics(pool).device_synchronizations == 0);
    CHECK(shrinks_to(pool, 0)); /* once it is idle */
    CHECK(statistics(pool).device_synchronizations > 0);
    put(cuda, rest, theirs, NULL);
    CU(cuStreamDestroy_v2(stream));
    CU(cuStreamDestroy_v2(other));
    end_pool(pool);
    CHECK_OK(tarn_resource_release(cuda));
}

/* Each time that the pool takes back what it returned, the next return comes later:
 * after 0.25, 0.5, 1 and 2 s. */
TEST(pool_that_needs_its_memory_again_returns_it_less_often)
{
    size_t theirs;
    unsigned returns = 0;

    if (!on_sim())
        skip();
    use_driver(0);
    tarn_resource *cuda = new_cuda(), *pool = new_pool(&with_thread);
    put(pool, take(pool, 256 * MIB, NULL), 256 * MIB, NULL);
    tarn_device_ptr other = take_all_but(cuda, 512 * MIB, &theirs);
    for (uint64_t end = tarn__clock_now_ns() + UINT64_C(3500000000);
         tarn__clock_now_ns() < end; usleep(1000)) {
        if (statistics(pool).reserved >= 256 * MIB)
            continue;
        returns++;
        put(pool, take(pool, 256 * MIB, NULL), 256 * MIB, NULL);
    }
    CHECK(returns >= 1 && returns <= 5);
    put(cuda, other, theirs, NULL);
    end_pool(pool);
    CHECK_OK(tarn_resource_release(cuda));
}

/* --- the order of streams --- */

static pthread_barrier_t pauses;

/* Streams fill blocks of random sizes and check them, while the thread grows ahead and
 * returns memory. */
struct user {
    pthread_t thread;
    tarn_resource *pool;
    unsigned number;
    unsigned wrong;
};

static void use_block(struct user *user, size_t bytes, tarn_stream stream,
                      unsigned char value)
{
    unsigned char seen[2];
    tarn_device_ptr block;

    if (tarn_resource_allocate(user->pool, bytes, 0, stream, &block) != TARN_OK)
        return;
    user->wrong += cu.cuMemsetD8Async(block, value, 4096, stream) != 0;
    user->wrong += cu.cuMemsetD8Async(block + bytes - 4096, value, 4096, stream) != 0;
    user->wrong += cu.cuStreamSynchronize(stream) != 0;
    user->wrong += cu.cuMemcpyDtoH_v2(&seen[0], block, 1) != 0;
    user->wrong += cu.cuMemcpyDtoH_v2(&seen[1], block + bytes - 1, 1) != 0;
    user->wrong += seen[0] != value || seen[1] != value;
    user->wrong += cu.cuMemsetD8Async(block, value + 1, 4096, stream) != 0;
    user->wrong +=
        tarn_resource_deallocate(user->pool, block, bytes, 0, stream) != TARN_OK;
}

static void *use_pool(void *data)
{
    struct user *user = data;
    unsigned random = user->number * 7919 + 1;
    tarn_stream stream;
    void *context;

    if (cu.cuDevicePrimaryCtxRetain(&context, 0) || cu.cuCtxSetCurrent(context) ||
        cu.cuStreamCreate(&stream, NON_BLOCKING)) {
        user->wrong++;
        return NULL;
    }
    for (unsigned i = 0; i < 150; i++) {
        random = random * 1664525 + 1013904223;
        use_block(user, ((random >> 8) % 64 + 1) * MIB / 2, stream,
                  (unsigned char)(2 * (user->number * 16 + i % 16)));
        if (i % 50 == 49) { /* all memory is idle, until the thread returns it */
            pthread_barrier_wait(&pauses);
            usleep(900 * 1000);
            pthread_barrier_wait(&pauses);
        }
    }
    cu.cuStreamDestroy_v2(stream);
    return NULL;
}

TEST(streams_keep_their_bytes_while_the_thread_grows_and_returns)
{
    enum { USERS = 4 };
    struct user users[USERS];
    size_t theirs;

    if (!on_sim())
        skip();
    use_driver(0);
    sim_configure("races=on");
    tarn_resource *cuda = new_cuda(), *pool = new_pool(&with_thread);
    CHECK_EQUAL(0, pthread_barrier_init(&pauses, NULL, USERS));
    for (unsigned i = 0; i < USERS; i++) {
        users[i] = (struct user){.pool = pool, .number = i};
        CHECK_EQUAL(0, pthread_create(&users[i].thread, NULL, use_pool, &users[i]));
    }
    usleep(100 * 1000);
    tarn_device_ptr other = take_all_but(cuda, 1024 * MIB, &theirs);
    for (unsigned i = 0; i < USERS; i++) {
        CHECK_EQUAL(0, pthread_join(users[i].thread, NULL));
        CHECK_EQUAL(0, users[i].wrong);
    }
    if (sim_races() > 0)
        fail_msg("%s", sim_race());
    pthread_barrier_destroy(&pauses);
    CHECK(statistics(pool).shrinks > 0);
    put(cuda, other, theirs, NULL);
    end_pool(pool);
    CHECK_OK(tarn_resource_release(cuda));
    sim_configure(NULL);
}

/* --- captures --- */

static tarn_status grow_ahead_once(void)
{
    tarn_device_ptr block;
    tarn_resource *pool;
    tarn_status status = tarn_pool_create(0, NULL, &with_thread, &pool);

    if (status != TARN_OK)
        return status;
    status = tarn_resource_allocate(pool, 64 * MIB, 0, TARN_STREAM_NONE, &block);
    bool is_ahead = gets_ahead(pool, 64 * MIB);
    if (status == TARN_OK)
        status = tarn_resource_deallocate(pool, block, 64 * MIB, 0, TARN_STREAM_NONE);
    tarn_resource_release(pool);
    return is_ahead ? status : TARN_DRIVER_FAILURE;
}

TEST(captures_survive_growth_ahead)
{
    use_driver(0);
    capture_survives(grow_ahead_once);
}

static tarn_status return_once(void)
{
    tarn_pool_options options = with_thread;
    tarn_resource *pool, *cuda = new_cuda();
    tarn_device_ptr block;
    size_t theirs;

    tarn_status status = tarn_pool_create(0, NULL, &options, &pool);
    if (status != TARN_OK)
        return status;
    status = tarn_resource_allocate(pool, 64 * MIB, 0, TARN_STREAM_NONE, &block);
    if (status == TARN_OK)
        status = tarn_resource_deallocate(pool, block, 64 * MIB, 0, TARN_STREAM_NONE);
    tarn_device_ptr other = take_all_but(cuda, 512 * MIB, &theirs);
    bool returns = shrinks_to(pool, 2 * MIB); /* after a device-wide wait */
    put(cuda, other, theirs, NULL);
    tarn_resource_release(pool);
    tarn_resource_release(cuda);
    return returns ? status : TARN_DRIVER_FAILURE;
}

TEST(captures_survive_a_return)
{
    if (!on_sim())
        skip();
    use_driver(0);
    capture_survives(return_once);
}

/* --- ends --- */

TEST(suspend_ends_the_thread_and_growth_starts_it_again)
{
    use_driver(0);
    for (unsigned i = 0; i < 30; i++) {
        tarn_resource *pool = new_pool(&with_thread);
        tarn_device_ptr first = take(pool, 32 * MIB, NULL), second;
        usleep(i * 100);
        CHECK_OK(tarn_pool_suspend(pool, TARN_POOL_SUSPEND_DISCARD));
        CHECK(!has_thread(pool));
        CHECK_EQUAL(statistics(pool).reserved, statistics(pool).suspended);
        CHECK_OK(tarn_pool_resume(pool));
        CHECK(!has_thread(pool));
        second = take(pool, 512 * MIB, NULL);
        CHECK(has_thread(pool));
        put(pool, first, 32 * MIB, NULL);
        put(pool, second, 512 * MIB, NULL);
        end_pool(pool);
    }
}

TEST(release_ends_the_thread_whatever_it_does)
{
    use_driver(0);
    for (unsigned i = 0; i < 60; i++) {
        tarn_resource *pool = new_pool(&with_thread);
        put(pool, take(pool, 32 * MIB, NULL), 32 * MIB, NULL);
        usleep(i * 50);
        end_pool(pool);
    }
}

/* Each driver call fails once, those of the thread included. */
static void grow_and_return(void)
{
    tarn_resource *pool = NULL;
    tarn_device_ptr blocks[3];
    unsigned count = 0;

    if (tarn_pool_create(0, NULL, &with_thread, &pool) != TARN_OK)
        return;
    for (unsigned i = 0; i < 3; i++) {
        count +=
            tarn_resource_allocate(pool, 8 * MIB, 0, NULL, &blocks[count]) == TARN_OK;
        usleep(2000);
    }
    while (count > 0)
        tarn_resource_deallocate(pool, blocks[--count], 8 * MIB, 0, NULL);
    tarn_resource_release(pool);
}

TEST(failing_driver_call_of_the_thread_leaks_nothing)
{
    if (!on_sim())
        skip();
    use_driver(0);
    torture(grow_and_return);
}
