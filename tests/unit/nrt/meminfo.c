/* Test MemInfos: the layout, and a destructor that runs exactly once, on the last thread.
 */
#include "test.h"
#include "nrt/meminfo.h"
#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 20000 };

struct seen {
    atomic_int calls;
    void *data;
    size_t size;
};

static void note(void *data, size_t size, void *info)
{
    struct seen *seen = info;

    seen->data = data;
    seen->size = size;
    atomic_fetch_add(&seen->calls, 1);
}

static tarn_runtime *make_runtime(void)
{
    tarn_runtime *runtime;

    CHECK_OK(tarn_runtime_create("test", &runtime));
    return runtime;
}

TEST(meminfo_calls_its_destructor_once_with_what_it_was_given)
{
    tarn_runtime *runtime = make_runtime();
    struct seen seen = {0};
    tarn_meminfo *meminfo;
    int value = 0;

    CHECK_OK(tarn_meminfo_create(runtime, &value, 17, note, &seen, &meminfo));
    CHECK_EQUAL(1, tarn_meminfo_count(meminfo));
    CHECK(tarn_meminfo_data(meminfo) == &value);
    CHECK_EQUAL(17, tarn_meminfo_size(meminfo));
    tarn_meminfo_acquire(meminfo);
    CHECK_EQUAL(2, tarn_meminfo_count(meminfo));
    tarn_meminfo_release(meminfo);
    CHECK_EQUAL(0, seen.calls);
    tarn_meminfo_release(meminfo);
    CHECK_EQUAL(1, seen.calls);
    CHECK(seen.data == &value);
    CHECK_EQUAL(17, seen.size);
    CHECK_OK(tarn_runtime_release(runtime));
}

TEST(meminfo_needs_no_destructor_and_no_data)
{
    tarn_runtime *runtime = make_runtime();
    tarn_meminfo *meminfo;

    CHECK_OK(tarn_meminfo_create(runtime, NULL, 0, NULL, NULL, &meminfo));
    CHECK(tarn_meminfo_data(meminfo) == NULL);
    tarn_meminfo_release(meminfo);
    CHECK_OK(tarn_runtime_release(runtime));
}

TEST(meminfo_can_be_read_and_counted_the_way_compiled_code_does)
{
    tarn_runtime *runtime = make_runtime();
    struct seen seen = {0};
    tarn_meminfo *meminfo;
    int value = 0;

    CHECK_OK(tarn_meminfo_create(runtime, &value, 8, note, &seen, &meminfo));
    atomic_size_t *count = (atomic_size_t *)(void *)meminfo;
    CHECK_EQUAL(1, atomic_fetch_add(count, 1));
    CHECK_EQUAL(2, tarn_meminfo_count(meminfo));
    CHECK(*(void **)(void *)((char *)meminfo + 24) == &value);
    CHECK_EQUAL(2, atomic_fetch_sub(count, 1));
    CHECK_EQUAL(0, seen.calls);
    tarn_meminfo_release(meminfo);
    CHECK_EQUAL(1, seen.calls);
    CHECK_OK(tarn_runtime_release(runtime));
}

TEST(meminfo_without_a_runtime_is_rejected_and_the_output_stays)
{
    tarn_meminfo *meminfo = (tarn_meminfo *)(uintptr_t)0x10;

    CHECK_STATUS(TARN_INVALID_ARGUMENT,
                 tarn_meminfo_create(NULL, NULL, 0, NULL, NULL, &meminfo));
    CHECK_MESSAGE("nrt: create: runtime is NULL");
    CHECK_STATUS(TARN_INVALID_ARGUMENT, tarn_meminfo_allocate(NULL, NULL, &meminfo));
    CHECK(meminfo == (tarn_meminfo *)(uintptr_t)0x10);
}

/* Each thread takes and drops references. The plain field is written before the drop and
 * read by the destructor, so TSan reports a missing ordering as a race. */
struct shared {
    tarn_meminfo *meminfo;
    int written[THREADS];
    int total;
    atomic_int calls;
};

struct worker {
    struct shared *shared;
    int index;
};

static void sum_up(void *data, size_t size, void *info)
{
    struct shared *shared = info;

    (void)data;
    (void)size;
    for (int i = 0; i < THREADS; i++)
        shared->total += shared->written[i];
    atomic_fetch_add(&shared->calls, 1);
}

static void *use(void *data)
{
    struct worker *worker = data;
    struct shared *shared = worker->shared;

    for (int i = 0; i < ROUNDS; i++) {
        tarn_meminfo_acquire(shared->meminfo);
        shared->written[worker->index]++;
        tarn_meminfo_release(shared->meminfo);
    }
    tarn_meminfo_release(shared->meminfo);
    return NULL;
}

TEST(meminfo_shared_by_threads_is_destroyed_once_after_all_of_their_work)
{
    tarn_runtime *runtime = make_runtime();
    struct shared shared = {.meminfo = NULL};
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    CHECK_OK(tarn_meminfo_create(runtime, NULL, 0, sum_up, &shared, &shared.meminfo));
    for (int i = 1; i < THREADS; i++)
        tarn_meminfo_acquire(shared.meminfo);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.shared = &shared, .index = i};
        CHECK_EQUAL(0, pthread_create(&threads[i], NULL, use, &workers[i]));
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQUAL(1, shared.calls);
    CHECK_EQUAL(THREADS * ROUNDS, shared.total);
    CHECK_OK(tarn_runtime_release(runtime));
}
