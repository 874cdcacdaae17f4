/* Test a logger in a forked child: no call waits for a free of another thread of the parent. */
#define _GNU_SOURCE
#include "test.h"
#include "child.h"
#include "write_nothing.h"
#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FREED_BY_THREAD = 4096, FREED_BY_FORK = 8192, SECONDS = 20 };

static sem_t thread_frees, may_end;
static tarn_resource *logger;
static tarn_device_ptr next; /* address of the next allocation */
static pid_t child = -1;

static tarn_status allocate_next(void *self, size_t bytes, size_t alignment,
                                 tarn_stream stream, tarn_device_ptr *out)
{
    (void)self, (void)bytes, (void)alignment, (void)stream;
    *out = next;
    return TARN_OK;
}

/* One block is under way to the upstream while the process forks inside the free of the other. */
static tarn_status wait_or_fork(void *self, tarn_device_ptr block, size_t bytes,
                                size_t alignment, tarn_stream stream)
{
    (void)self, (void)bytes, (void)alignment, (void)stream;
    if (block == FREED_BY_THREAD && child != 0) {
        sem_post(&thread_frees);
        sem_wait(&may_end);
    } else if (block == FREED_BY_FORK) {
        sem_wait(&thread_frees);
        fflush(NULL);
        child = fork();
    }
    return TARN_OK;
}

static void destroy_nothing(void *self)
{
    (void)self;
}

static tarn_device_ptr take(tarn_device_ptr address)
{
    tarn_device_ptr block = 0;

    next = address;
    CHILD_STATUS(TARN_OK, tarn_resource_allocate(logger, 16, 0, NULL, &block));
    CHILD_CHECK(block == address);
    return block;
}

static void put(tarn_device_ptr block)
{
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(logger, block, 16, 0, NULL));
}

static void *free_in_a_thread(void *nothing)
{
    put(FREED_BY_THREAD);
    return nothing;
}

static tarn_resource *logger_over(tarn_resource *upstream)
{
    tarn_trace_writer *writer;
    tarn_resource *made;

    CHECK_OK(tarn_trace_writer_create(write_nothing, NULL, TARN_TRACE_RMM, &writer));
    CHECK_OK(tarn_logger_create(upstream, writer, &made));
    CHECK_OK(tarn_trace_writer_release(writer));
    return made;
}

/* The free of the forking thread goes on in the child. That of the other thread does not exist
 * there, so its block may be allocated and freed. */
TEST(forked_child_goes_on_with_its_own_free_and_waits_for_no_other)
{
    static const tarn_resource_ops ops = {.size = sizeof ops,
                                          .name = "forking",
                                          .allocate = allocate_next,
                                          .deallocate = wait_or_fork,
                                          .destroy = destroy_nothing};
    tarn_resource *upstream;
    pthread_t thread;
    int status = -1;

    CHECK(sem_init(&thread_frees, 0, 0) == 0 && sem_init(&may_end, 0, 0) == 0);
    CHECK_OK(tarn_resource_create(&ops, NULL, TARN_DEVICE_NONE, &upstream));
    logger = logger_over(upstream);
    take(FREED_BY_THREAD);
    take(FREED_BY_FORK);
    CHECK_EQUAL(0, pthread_create(&thread, NULL, free_in_a_thread, NULL));
    put(FREED_BY_FORK);
    if (child == 0) {
        alarm(SECONDS); /* ends a child that waits */
        put(take(FREED_BY_THREAD));
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_EQUAL(0, status);
    sem_post(&may_end);
    CHECK_EQUAL(0, pthread_join(thread, NULL));
    CHECK_OK(tarn_resource_release(logger));
    CHECK_OK(tarn_resource_release(upstream));
}
