/* Cancel threads (pthread_cancel) that call Tarn. Calls are no cancellation points: a thread
 * that ended in one would keep its locks. So afterwards every call still returns, and nothing
 * is lost that a call had. */
#define _GNU_SOURCE
#include "child.h"
#include "test.h"
#include <pthread.h>
#include <time.h>
#include <unistd.h>

enum { LIMIT_S = 20, ROUNDS = 60 };

static tarn_resource *used;
static tarn_trace_writer *writer;
static void (*call)(void);

static void *call_until_cancelled(void *data)
{
    (void)data;
    for (;;) {
        call();
        pthread_testcancel();
    }
    return NULL;
}

/* Two threads, so that one waits for the other; the calls of this one come last. */
static void cancel_many(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++)
            CHILD_CHECK(pthread_create(&threads[i], NULL, call_until_cancelled, NULL) ==
                        0);
        struct timespec time = {0, 1000L * (round * 131 % 2000)};
        nanosleep(&time, NULL);
        for (int i = 0; i < 2; i++)
            CHILD_CHECK(pthread_cancel(threads[i]) == 0);
        for (int i = 0; i < 2; i++)
            CHILD_CHECK(pthread_join(threads[i], NULL) == 0);
        call();
    }
}

static void allocate_and_free(void)
{
    tarn_device_ptr block = 0;

    CHILD_STATUS(TARN_OK, tarn_resource_allocate(used, 1000, 0, NULL, &block));
    CHILD_STATUS(TARN_OK, tarn_resource_deallocate(used, block, 1000, 0, NULL));
}

static void end_used(void)
{
    CHILD_CHECK(tarn_resource_live_blocks(used) == 0);
    CHILD_STATUS(TARN_OK, tarn_resource_release(used));
}

static void log_to(tarn_trace_format format)
{
    tarn_resource *cuda;

    alarm(LIMIT_S);
    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &cuda));
    CHILD_STATUS(TARN_OK, tarn_trace_writer_open("/dev/null", format, &writer));
    CHILD_STATUS(TARN_OK, tarn_trace_writer_set_auto_flush(writer, true));
    CHILD_STATUS(TARN_OK, tarn_logger_create(cuda, writer, &used));
    call = allocate_and_free;
    cancel_many();
    end_used();
    CHILD_STATUS(TARN_OK, tarn_trace_writer_release(writer));
    CHILD_STATUS(TARN_OK, tarn_resource_release(cuda));
}

static void log_as_text(void)
{
    log_to(TARN_TRACE_NBEP7);
}

static void log_as_rmm(void)
{
    log_to(TARN_TRACE_RMM);
}

TEST(cancelled_threads_leave_no_lock_of_a_log)
{
    in_child(log_as_text);
    in_child(log_as_rmm);
}

static void use_pool(void)
{
    const tarn_pool_options options = {.size = sizeof options, .background_thread = true};

    alarm(LIMIT_S);
    CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, &options, &used));
    call = allocate_and_free;
    cancel_many();
    end_used();
}

TEST(cancelled_threads_leave_no_lock_of_a_pool)
{
    in_child(use_pool);
}

static void get_manager(void)
{
    tarn_manager *manager = NULL;
    tarn_pointer *pointer = NULL;

    CHILD_STATUS(TARN_OK, tarn_memory_manager(0, &manager));
    CHILD_STATUS(TARN_OK,
                 tarn_manager_memalloc(manager, 1000, TARN_STREAM_NONE, &pointer));
    tarn_pointer_release(pointer);
    tarn_manager_release(manager);
}

static void use_managers(void)
{
    alarm(LIMIT_S);
    call = get_manager;
    cancel_many();
}

TEST(cancelled_threads_leave_no_lock_of_a_manager)
{
    in_child(use_managers);
}

static void warn(void)
{
    tarn_warn("test: %d", 1);
}

static void use_warnings(void)
{
    alarm(LIMIT_S);
    call = warn;
    cancel_many();
}

TEST(cancelled_threads_leave_no_lock_of_warnings)
{
    in_child(use_warnings);
}

static void export_and_list(void)
{
    tarn_pointer *pointer = NULL;
    tarn_ipc_handle handle;
    size_t count;

    CHILD_STATUS(TARN_OK, tarn_pointer_allocate(used, 1000, TARN_STREAM_NONE, &pointer));
    CHILD_STATUS(TARN_OK, tarn_ipc_export(pointer, TARN_IPC_SERVED, &handle));
    CHILD_STATUS(TARN_OK, tarn_ipc_leases(NULL, 0, &count));
    tarn_pointer_release(pointer);
}

static void use_ipc(void)
{
    alarm(LIMIT_S);
    CHILD_STATUS(TARN_OK, tarn_exportable_create(0, NULL, &used));
    call = export_and_list;
    cancel_many();
    end_used();
}

TEST(cancelled_threads_leave_no_lock_of_exports)
{
    in_child(use_ipc);
}
