/* End processes while 16 threads call Tarn, also with no address space left. Each ends in time,
 * with the status that it chose.
 *
 * TARN_TEST_EXITS is the number of processes of each kind; 20 by default. */
#define _GNU_SOURCE
#include "child.h"
#include "test.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 16, LIMIT_S = 30 };

static unsigned kind; /* of this child; it also varies its timing */

static unsigned number_of_children(void)
{
    const char *text = getenv("TARN_TEST_EXITS");

    return text ? (unsigned)strtoul(text, NULL, 10) : 20;
}

static tarn_resource *shared[4];
static atomic_uint begun; /* threads that have called everything once */

static void make_shared(void)
{
    const tarn_pool_options options = {.size = sizeof options, .background_thread = true};

    CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, &options, &shared[0]));
    CHILD_STATUS(TARN_OK, tarn_async_create(0, NULL, &shared[1]));
    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &shared[2]));
    CHILD_STATUS(TARN_OK, tarn_tracker_create(shared[0], NULL, &shared[3]));
}

/* Calls fail once exit has begun, and where memory is short: neither may crash. */
static void *call_on(void *data)
{
    size_t which = (size_t)(uintptr_t)data;

    for (unsigned i = 0;; i++) {
        tarn_resource *resource = shared[(which + i) % 4];
        tarn_device_ptr block = 0;
        tarn_pointer *pointer = NULL;
        size_t bytes = (size_t)1000 << i % 12;

        if (tarn_resource_allocate(resource, bytes, 0, TARN_STREAM_PER_THREAD, &block) ==
            TARN_OK)
            (void)tarn_resource_deallocate(resource, block, bytes, 0,
                                           TARN_STREAM_PER_THREAD);
        if (tarn_pointer_allocate(resource, bytes, TARN_STREAM_NONE, &pointer) == TARN_OK)
            tarn_pointer_release(pointer);
        void *raw = NRT_Allocate(bytes % 3000);
        if (raw)
            NRT_Free(raw);
        if (i == 16)
            atomic_fetch_add(&begun, 1);
    }
    return NULL;
}

static void start_threads(pthread_t threads[THREADS])
{
    alarm(LIMIT_S);
    make_shared();
    for (size_t i = 0; i < THREADS; i++)
        CHILD_CHECK(pthread_create(&threads[i], NULL, call_on, (void *)(uintptr_t)i) ==
                    0);
    struct timespec time = {0, 1000L * (kind * 37 % 3000)};
    nanosleep(&time, NULL);
}

static void exit_beside_threads(void)
{
    pthread_t threads[THREADS];

    start_threads(threads);
    exit(0);
}

TEST(processes_exit_while_threads_call)
{
#ifdef __SANITIZE_THREAD__
    skip(); /* it reports the threads of a process that exits as leaks */
#endif
    for (kind = 0; kind < number_of_children(); kind++)
        in_child(exit_beside_threads);
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__) /* they need addresses */

static void run_out_of_addresses(void)
{
    struct rlimit limit;
    pthread_t threads[THREADS];
    char line[256];
    unsigned long pages = 0;

    /* What the process has now, and a little more. The loader ends a process whose thread
     * gets no memory for its variables, so each thread has had its own. */
    start_threads(threads);
    while (atomic_load(&begun) < THREADS)
        sched_yield();
    FILE *file = fopen("/proc/self/statm", "re");
    CHILD_CHECK(file && fgets(line, sizeof line, file));
    pages = strtoul(line, NULL, 10);
    limit.rlim_cur = limit.rlim_max = (pages + 16 * (kind % 64)) * 4096;
    CHILD_CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    struct timespec time = {0, 3000000};
    nanosleep(&time, NULL);
    exit(0);
}

TEST(processes_without_addresses_exit_while_threads_call)
{
    for (kind = 0; kind < number_of_children(); kind++)
        in_child(run_out_of_addresses);
}

#endif
