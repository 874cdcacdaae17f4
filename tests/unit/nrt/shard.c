/* Test threads and processes: a shared block, ends of threads, and forks at any moment.
 */
#define _GNU_SOURCE
#include "test.h"
#include "captured_stderr.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 20000 };

static void *acquire_and_release(void *data)
{
    for (int i = 0; i < ROUNDS; i++) {
        NRT_MemInfo_acquire(data);
        NRT_MemInfo_release(data);
    }
    NRT_MemInfo_release(data);
    return NULL;
}

/* Compiled code counts with its own instructions and calls one function at zero. */
static void *count_as_compiled_code(void *data)
{
    atomic_size_t *count = data;

    for (int i = 0; i <= ROUNDS; i++) {
        if (i < ROUNDS)
            atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
        if (atomic_fetch_sub_explicit(count, 1, memory_order_acq_rel) == 1)
            NRT_MemInfo_call_dtor(data);
    }
    return NULL;
}

static atomic_int calls;

static void count_call(void *data, size_t size, void *info)
{
    (void)data;
    (void)size;
    (void)info;
    atomic_fetch_add(&calls, 1);
}

TEST(threads_of_both_kinds_share_one_block)
{
    NRT_MemInfo *mi = NRT_MemInfo_new(&calls, 1, count_call, NULL);
    pthread_t threads[THREADS];

    CHECK(mi != NULL);
    atomic_store(&calls, 0);
    for (int i = 1; i < THREADS; i++)
        NRT_MemInfo_acquire(mi);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQUAL(
            0, pthread_create(&threads[i], NULL,
                              i % 2 ? acquire_and_release : count_as_compiled_code, mi));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(1, calls);
}

/* A block outlives the thread that allocated it, and any thread can free it. */
static void *make_one(void *data)
{
    *(NRT_MemInfo **)data = NRT_MemInfo_alloc(64);
    return NULL;
}

TEST(a_block_outlives_its_thread)
{
    for (int i = 0; i < 50; i++) {
        NRT_MemInfo *mi;
        pthread_t thread;
        CHECK_EQUAL(0, pthread_create(&thread, NULL, make_one, &mi));
        pthread_join(thread, NULL);
        CHECK(mi != NULL);
        memset(NRT_MemInfo_data(mi), 1, 64);
        NRT_MemInfo_release(mi);
    }
}

static pthread_key_t late_key;

static void use_late(void *data)
{
    NRT_MemInfo_release(NRT_MemInfo_alloc(64));
    NRT_MemInfo_release(data);
}

static void *leave_a_late_use(void *data)
{
    pthread_setspecific(late_key, NRT_MemInfo_alloc(64));
    return data;
}

TEST(destructors_of_others_may_use_it_while_a_thread_ends)
{
    tarn_runtime_counts before, after;
    pthread_t thread;

    /* Created before and after the library's own key, for either order of their
     * destructors. */
    tarn_runtime_counts_read(tarn_runtime_default(), &before);
    pthread_key_create(&late_key, use_late);
    for (int i = 0; i < 20; i++) {
        CHECK_EQUAL(0, pthread_create(&thread, NULL, leave_a_late_use, NULL));
        pthread_join(thread, NULL);
    }
    pthread_key_delete(late_key);
    tarn_runtime_counts_read(tarn_runtime_default(), &after);
    CHECK_EQUAL(before.created + 40, after.created);
    CHECK_EQUAL(after.created - before.created, after.destroyed - before.destroyed);
}

/* --- fork ---------------------------------------------------------------------------- */

static atomic_bool stop;

static void *allocate_all_the_time(void *data)
{
    tarn_runtime_set_modes(data, TARN_NRT_SLABS);
    while (!atomic_load(&stop)) {
        tarn_meminfo *blocks[100];
        for (size_t i = 0; i < 100; i++)
            blocks[i] = tarn_runtime_api(data)->allocate(i * 20);
        for (size_t i = 0; i < 100; i++)
            tarn_meminfo_release(blocks[i]);
    }
    return NULL;
}

static tarn_runtime *forked;
static tarn_meminfo *of_before;

static void use_in_child(void)
{
    tarn_runtime_counts before, after;
    tarn_nrt_snapshot *snapshot;

    alarm(60); /* a lock that stays held ends the child, and the test */
    tarn_runtime_counts_read(forked, &before);
    for (int i = 0; i < 1000; i++)
        tarn_meminfo_release(tarn_runtime_api(forked)->allocate((size_t)i));
    tarn_meminfo_release(of_before);
    tarn_runtime_counts_read(forked, &after);
    if (after.created != before.created + 1000 ||
        after.destroyed != before.destroyed + 1001)
        _exit(1);
    tarn_runtime_trim(forked);
    if (tarn_nrt_snapshot_take(forked, &snapshot) != TARN_OK)
        _exit(2);
    tarn_nrt_snapshot_release(snapshot);
}

TEST(a_child_of_a_busy_process_works_and_counts)
{
    pthread_t threads[2];

#ifdef __SANITIZE_ADDRESS__
    skip(); /* its malloc may itself be locked in a forked child */
#endif
    CHECK_OK(tarn_runtime_create("forked", &forked));
    atomic_store(&stop, false);
    for (int i = 0; i < 2; i++)
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, allocate_all_the_time, forked));
    for (int i = 0; i < 20; i++) {
        of_before = tarn_runtime_api(forked)->allocate(64);
        CHECK_EQUAL(0, child_status(use_in_child, 1));
        tarn_meminfo_release(of_before);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK_OK(tarn_runtime_release(forked));
}
