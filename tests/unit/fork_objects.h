/* fork_objects.h -- the objects that tests of forked children use, as a table of rows.
 *
 * Threads of the parent use the objects of a row while it forks, and the child uses them as
 * well. forks.c forks at any moment, forks_held.c where a thread has taken a lock.
 */
#ifndef TARN_TEST_FORK_OBJECTS_H
#define TARN_TEST_FORK_OBJECTS_H

#include "test.h"
#include "child.h"
#include "write_nothing.h"
#include <glob.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 1000, STREAMS = 4, TURNS = 40 };

/* The objects of a row. */
static struct {
    tarn_resource *upstream, *resource;
    tarn_manager *manager;
    tarn_trace_writer *writer;
    tarn_pointer *pointer;
    tarn_stream streams[STREAMS];
} its;

struct row {
    const char *name;
    void (*begin)(void);
    void (*use)(unsigned turn); /* by the threads, and by a child */
    bool (*is_whole)(void);     /* in a child; NULL: nothing to check */
    void (*end)(void);
    bool is_alone; /* it changes the process permanently, so it runs in one of its own */
};

/* --- resources --- */

static void come_and_go(unsigned turn)
{
    tarn_device_ptr block;
    size_t bytes, total;

    if (tarn_resource_allocate(its.resource, BYTES, 0, its.streams[turn % STREAMS],
                               &block) == TARN_OK) {
        tarn_resource_requested_bytes(its.resource, block, &bytes);
        tarn_resource_deallocate(its.resource, block, BYTES, 0,
                                 its.streams[turn % STREAMS]);
    }
    tarn_resource_requested_bytes(its.resource, (tarn_device_ptr)turn << 8, &bytes);
    tarn_resource_live_blocks(its.resource);
    tarn_resource_memory_info(its.resource, NULL, &bytes, &total);
    if (turn % 8 == 0)
        tarn_resource_trim(its.resource, 0, NULL);
}

static void end_resource(void)
{
    CHILD_STATUS(TARN_OK, tarn_resource_release(its.resource));
    CHILD_STATUS(TARN_OK, tarn_resource_release(its.upstream));
}

static void begin_host(void)
{
    CHILD_STATUS(TARN_OK, tarn_host_create(&its.resource));
}

static void begin_limiter(void)
{
    CHILD_STATUS(TARN_OK, tarn_host_create(&its.upstream));
    CHILD_STATUS(TARN_OK, tarn_limiter_create(its.upstream, 1 << 30, &its.resource));
}

static void begin_logger(void)
{
    CHILD_STATUS(TARN_OK, tarn_host_create(&its.upstream));
    CHILD_STATUS(TARN_OK, tarn_trace_writer_create(write_nothing, NULL, TARN_TRACE_NBEP7,
                                                   &its.writer));
    CHILD_STATUS(TARN_OK, tarn_logger_create(its.upstream, its.writer, &its.resource));
}

static void end_logger(void)
{
    end_resource();
    CHILD_STATUS(TARN_OK, tarn_trace_writer_release(its.writer));
}

static void begin_counter(void)
{
    CHILD_STATUS(TARN_OK, tarn_host_create(&its.upstream));
    CHILD_STATUS(TARN_OK, tarn_counter_create(its.upstream, &its.resource));
}

static bool counts_are_whole(void)
{
    tarn_counts counts;

    return tarn_counter_read(its.resource, &counts) == TARN_OK &&
           counts.current_bytes == BYTES * counts.current_count &&
           counts.total_bytes == BYTES * counts.total_count;
}

static void begin_tracker(void)
{
    tarn_tracker_options options = {.size = sizeof options, .stack_depth = 16};

    CHILD_STATUS(TARN_OK, tarn_host_create(&its.upstream));
    CHILD_STATUS(TARN_OK, tarn_tracker_create(its.upstream, &options, &its.resource));
}

static bool read_stack(void *data, const tarn_tracked_block *block)
{
    tarn_stack_frame frames[16];

    (void)data;
    tarn_stack_frames(block->stack, 16, frames);
    return true;
}

static void use_tracker(unsigned turn)
{
    tarn_stack_frame frame = {.function = "turn", .file = "a.py", .line = (int)turn};

    come_and_go(turn);
    tarn_tracker_visit(its.resource, read_stack, NULL);
    tarn_stack_add_frame(&frame);
}

static void use_sets(unsigned turn)
{
    tarn_counts counts;

    (void)turn;
    tarn_counter_push(its.resource, NULL);
    tarn_counter_read(its.resource, &counts);
    tarn_counter_pop(its.resource, NULL);
}

static void begin_cuda(void)
{
    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &its.resource));
}

static void begin_async(void)
{
    CHILD_STATUS(TARN_OK, tarn_async_create(0, NULL, &its.resource));
}

static void begin_exportable(void)
{
    CHILD_STATUS(TARN_OK, tarn_exportable_create(0, NULL, &its.resource));
}

static void begin_pool(void)
{
    CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, NULL, &its.resource));
    for (int i = 0; i < STREAMS; i++)
        CHILD_STATUS(TARN_OK, tarn_stream_create(0, true, &its.streams[i]));
}

static void end_pool(void)
{
    for (int i = 0; i < STREAMS; i++)
        CHILD_STATUS(TARN_OK, tarn_stream_destroy(0, its.streams[i]));
    CHILD_STATUS(TARN_OK, tarn_resource_release(its.resource));
}

static bool visit(void *data, const tarn_pool_block *block)
{
    (void)data, (void)block;
    return true;
}

static bool give_nothing(void *data, tarn_resource *pool, size_t bytes, unsigned attempt)
{
    (void)data, (void)pool, (void)bytes, (void)attempt;
    return false;
}

static void use_pool(unsigned turn)
{
    tarn_pool_statistics statistics = {.size = sizeof statistics};
    uint64_t generation;

    come_and_go(turn);
    tarn_pool_get_statistics(its.resource, &statistics);
    tarn_pool_generation(its.resource, &generation);
    tarn_pool_snapshot(its.resource, visit, NULL);
    tarn_pool_add_oom_callback(its.resource, give_nothing, NULL);
    tarn_pool_remove_oom_callback(its.resource, give_nothing, NULL);
    tarn_pool_set_maximum(its.resource, 0);
    if (turn % 16 == 0 &&
        tarn_pool_suspend(its.resource, TARN_POOL_SUSPEND_KEEP) == TARN_OK)
        tarn_pool_resume(its.resource);
}

static void begin_pool_with_thread(void)
{
    tarn_pool_options options = {.size = sizeof options, .background_thread = true};

    CHILD_STATUS(TARN_OK, tarn_pool_create(0, NULL, &options, &its.resource));
    for (int i = 0; i < STREAMS; i++)
        CHILD_STATUS(TARN_OK, tarn_stream_create(0, true, &its.streams[i]));
}

static void begin_guard(void)
{
    tarn_guard_options options = {.size = sizeof options,
                                  .guard = true,
                                  .poison = true,
                                  .quarantine_bytes = 16 * BYTES};

    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &its.upstream));
    CHILD_STATUS(TARN_OK, tarn_guard_create(its.upstream, &options, &its.resource));
}

static void use_guard(unsigned turn)
{
    tarn_guard_counts counts = {.size = sizeof counts};

    come_and_go(turn);
    tarn_guard_read_counts(its.resource, &counts);
    if (turn % 8 == 0)
        tarn_guard_check(its.resource, NULL);
}

static void begin_binning(void)
{
    CHILD_STATUS(TARN_OK, tarn_cuda_create(0, &its.upstream));
    CHILD_STATUS(TARN_OK, tarn_binning_create(its.upstream, NULL, &its.resource));
}

static void use_bins(unsigned turn)
{
    if (turn % 64 < 60)
        tarn_binning_add_bin(its.resource, 1 + turn % 64, turn % 2 ? its.upstream : NULL);
    come_and_go(turn);
}

/* Create and release pools of the driver. */
static void use_driver_pools(unsigned turn)
{
    const tarn_async_options options = {.size = sizeof options,
                                        .exportable = turn % 2 != 0};
    tarn_resource *resource;

    if (tarn_async_create(0, &options, &resource) == TARN_OK)
        tarn_resource_release(resource);
}

/* --- registries --- */

static void use_registry(unsigned turn)
{
    tarn_resource *resource;

    if (tarn_device_resource(0, &resource) == TARN_OK)
        tarn_resource_release(resource);
    if (turn % 3 == 0 && tarn_device_set_resource(0, its.resource, &resource) == TARN_OK)
        tarn_resource_release(resource);
    tarn_device_resource_is(0, its.resource);
}

static void end_registry(void)
{
    CHILD_STATUS(TARN_OK, tarn_device_set_resource(0, NULL, NULL));
    CHILD_STATUS(TARN_OK, tarn_resource_release(its.resource));
}

static void use_shared(unsigned turn)
{
    tarn_resource *resource;

    (void)turn;
    if (tarn_cuda_create(0, &resource) == TARN_OK)
        tarn_resource_release(resource);
    if (tarn_pinned_create(0, &resource) == TARN_OK)
        tarn_resource_release(resource);
    if (tarn_host_create(&resource) == TARN_OK)
        tarn_resource_release(resource);
}

static void use_streams(unsigned turn)
{
    tarn_stream raw = NULL, registered;

    if (turn % 4 == 0)
        tarn_stream_create(0, true, &raw);
    if (tarn_stream_register(0, raw, &registered) == TARN_OK) {
        tarn_stream_announce_capture(registered, true);
        tarn_stream_announce_capture(registered, false);
        tarn_stream_handle(registered);
        tarn_stream_unregister(registered);
    }
    if (raw)
        tarn_stream_destroy(0, raw);
}

/* --- pointers and managers --- */

static void use_pointers(unsigned turn)
{
    tarn_pointer *pointer, *view;

    if (tarn_pointer_allocate(its.resource, BYTES, turn % 2 ? NULL : TARN_STREAM_NONE,
                              &pointer) == TARN_OK) {
        if (tarn_pointer_view(pointer, 1, 2, &view) == TARN_OK)
            tarn_pointer_release(view);
        tarn_pointer_release(pointer);
    }
    tarn_pointer_deferred_count();
    tarn_pointer_reclaim_deferred();
}

static void use_manager(unsigned turn)
{
    tarn_pointer *pointer;
    size_t count, bytes;
    double ratio;

    if (tarn_manager_memalloc(its.manager, BYTES, TARN_STREAM_NONE, &pointer) == TARN_OK)
        tarn_pointer_release(pointer);
    if (turn % 3 == 0 &&
        tarn_manager_memhostalloc(its.manager, BYTES, 0, &pointer) == TARN_OK)
        tarn_pointer_release(pointer);
    if (turn % 5 == 0 && tarn_manager_defer_cleanup_begin(its.manager) == TARN_OK)
        tarn_manager_defer_cleanup_end(its.manager);
    if (turn % 9 == 0)
        tarn_manager_reset(its.manager);
    tarn_manager_get_memory_info(its.manager, &count, &bytes);
    tarn_manager_pending_deallocs(0, &count, &bytes);
    tarn_manager_pending_deallocs_limits(&count, &ratio);
    tarn_manager_set_pending_deallocs_limits(count, ratio);
}

static void begin_resource_manager(void)
{
    CHILD_STATUS(TARN_OK,
                 tarn_manager_create(tarn_resource_manager_ops(), NULL, 0, &its.manager));
}

static void begin_native_manager(void)
{
    CHILD_STATUS(TARN_OK,
                 tarn_manager_create(tarn_native_manager_ops(), NULL, 0, &its.manager));
}

static void begin_pool_manager(void)
{
    CHILD_STATUS(TARN_OK,
                 tarn_manager_create(tarn_pool_manager_ops(), NULL, 0, &its.manager));
}

static void end_manager(void)
{
    CHILD_STATUS(TARN_OK, tarn_pointer_reclaim_deferred());
    tarn_manager_release(its.manager);
}

static void use_process_manager(unsigned turn)
{
    tarn_manager *manager;

    (void)turn;
    if (tarn_memory_manager(0, &manager) == TARN_OK)
        tarn_manager_release(manager);
    tarn_set_memory_manager(NULL, NULL);
}

/* --- the runtime for counted memory --- */

static void destruct(void *data, size_t size, void *info)
{
    (void)data, (void)size, (void)info;
}

static void use_runtime(unsigned turn)
{
    tarn_runtime *runtime = tarn_runtime_default(), *other;
    tarn_nrt_snapshot *snapshot;
    tarn_meminfo *meminfo;

    if (tarn_meminfo_create(runtime, NULL, 1, destruct, NULL, &meminfo) == TARN_OK)
        tarn_meminfo_release(meminfo);
    if (turn % 7 == 0 && tarn_runtime_create("x", &other) == TARN_OK)
        tarn_runtime_release(other);
    if (turn % 11 == 0 && tarn_nrt_snapshot_take(runtime, &snapshot) == TARN_OK)
        tarn_nrt_snapshot_release(snapshot);
    if (turn % 13 == 0)
        tarn_runtime_set_modes(runtime, turn % 2 ? TARN_NRT_SITES | TARN_NRT_QUARANTINE |
                                                       TARN_NRT_SLABS
                                                 : TARN_NRT_SLABS);
    if (turn % 17 == 0)
        tarn_runtime_trim(runtime);
    NRT_Free(NRT_Allocate(turn % 9000));
}

static void end_runtime(void)
{
    tarn_runtime_set_modes(tarn_runtime_default(), 0);
    tarn_runtime_trim(tarn_runtime_default());
}

/* None of these calls creates an object of the runtime, so this row comes before those
 * that do. */
static void use_hooks(unsigned turn)
{
    char text[200];

    (void)turn;
    tarn_nrt_describe((const void *)(uintptr_t)use_hooks, text, sizeof text);
    tarn_nrt_set_symbolizer(NULL, NULL);
    tarn_nrt_set_misuse_handler(NULL, NULL);
    NRT_MemSys_stats_enabled();
}

/* --- errors, warnings, observers --- */

static void use_messages(unsigned turn)
{
    tarn_error_set(TARN_NOT_FOUND, "turn %u", turn);
    tarn_set_warning_handler(NULL, NULL);
}

static void ignore_event(void *data, const tarn_observer_event *event)
{
    (void)data, (void)event;
}

static void use_observer(unsigned turn)
{
    tarn_resource_set_observer(ignore_event, NULL);
    come_and_go(turn);
    tarn_resource_set_observer(NULL, NULL);
}

/* --- PyTorch --- */

static void begin_torch(void)
{
    begin_pool();
    CHILD_STATUS(TARN_OK, tarn_torch_set_resource(0, its.resource));
}

static void use_segments(unsigned turn)
{
    tarn_torch_segments segments = {.size = sizeof segments};
    void *block;

    if (tarn_torch_open_segments(its.resource, &segments) != TARN_OK)
        return;
    block = turn >= TURNS ? segments.allocate(BYTES, 0, NULL) : NULL;
    segments.deallocate(block, BYTES, 0, NULL);
    CHILD_STATUS(TARN_OK, tarn_torch_close_segments(&segments));
}

/* A child allocates nothing: that would throw. */
static void use_torch(unsigned turn)
{
    tarn_torch_pool_id id = {0, turn % 3};
    tarn_stream stream = its.streams[turn % STREAMS];
    void *block = turn >= TURNS ? tarn_torch_allocate(BYTES, 0, stream) : NULL;
    tarn_torch_statistics all = {.size = sizeof all};

    tarn_torch_begin_graph_pool(0, id, NULL);
    tarn_torch_record_stream(block, its.streams[(turn + 1) % STREAMS]);
    tarn_torch_end_graph_pool(0, id);
    tarn_torch_deallocate(block, BYTES, 0, stream);
    if (turn < TURNS) /* no block; a child frees nothing */
        tarn_torch_deallocate((void *)(uintptr_t)512, BYTES, 0, stream);
    tarn_torch_release_graph_pool(0, id);
    tarn_torch_get_statistics(0, &all);
    tarn_torch_reset_peaks(0);
    tarn_torch_empty_cache();
}

static void end_torch(void)
{
    for (int i = 0; i < STREAMS; i++)
        CHILD_STATUS(TARN_OK, tarn_stream_synchronize(0, its.streams[i]));
    while (tarn_torch_set_resource(0, NULL) == TARN_STILL_IN_USE)
        tarn_torch_empty_cache(); /* returns blocks whose streams are done */
    end_pool();
}

/* --- logs --- */

static void begin_writer(void)
{
    CHILD_STATUS(TARN_OK, tarn_trace_writer_create(write_nothing, NULL, TARN_TRACE_RMM,
                                                   &its.writer));
}

/* Other code of the process requests local time, too. */
static void use_writer(unsigned turn)
{
    const tarn_trace_event event = {
        .action = TARN_ACTION_FREE, .address = 256, .bytes = 1};
    tarn_trace_writer *writer;
    time_t now = (time_t)turn;
    struct tm local;

    tarn_trace_write(its.writer, &event);
    tarn_trace_flush(its.writer);
    if (tarn_trace_writer_open("/dev/null", TARN_TRACE_RMM, &writer) == TARN_OK) {
        tarn_trace_write(writer, &event);
        tarn_trace_writer_release(writer);
    }
    if (turn >= TURNS) /* in a child glibc itself would wait */
        localtime_r(&now, &local);
}

#ifdef __SANITIZE_ADDRESS__
/* A child leaves its parent's table of chunks, which a thread may have been changing. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:add_place\n";
}
#endif

/* A child has a file of its own; run_rows() removes all of them. */
static void begin_binary_log(void)
{
    const tarn_trace_writer_options options = {.size = sizeof options,
                                               .format = TARN_TRACE_BINARY,
                                               .stack_depth = 8,
                                               .ring_bytes = 4 << 20};
    char path[64];

    snprintf(path, sizeof path, "%s/log", getenv("TARN_IPC_DIR"));
    CHILD_STATUS(TARN_OK, tarn_trace_writer_open_with(path, &options, &its.writer));
    CHILD_STATUS(TARN_OK, tarn_host_create(&its.upstream));
    CHILD_STATUS(TARN_OK, tarn_logger_create(its.upstream, its.writer, &its.resource));
}

static void use_binary_log(unsigned turn)
{
    tarn_trace_pool_row row_of_pool = {
        .size = sizeof row_of_pool, .cause = TARN_TRACE_POOL_SNAPSHOT, .pool = 1};

    come_and_go(turn);
    tarn_trace_write_pool(its.writer, &row_of_pool);
    tarn_trace_write_mark(its.writer, "turn", 0);
    if (turn % 16 == 0)
        tarn_trace_flush(its.writer);
}

static void end_writer(void)
{
    CHILD_STATUS(TARN_OK, tarn_trace_writer_release(its.writer));
}

/* --- memory for other processes --- */

static void begin_ipc(void)
{
    CHILD_STATUS(TARN_OK, tarn_exportable_create(0, NULL, &its.resource));
    CHILD_STATUS(TARN_OK, tarn_pointer_allocate(its.resource, BYTES, NULL, &its.pointer));
}

static void use_ipc(unsigned turn)
{
    tarn_ipc_counts counts;
    tarn_ipc_handle handle;

    tarn_ipc_export(its.pointer, turn % 2 ? TARN_IPC_SERVED : TARN_IPC_PLAIN, &handle);
    if (turn < TURNS) /* no handle; opening one would block the child */
        handle.bytes = 0;
    tarn_ipc_open(&handle, NULL, &(tarn_pointer *){NULL});
    tarn_ipc_get_counts(&counts);
    tarn_ipc_leases(NULL, 0, &counts.leases);
}

static void end_ipc(void)
{
    tarn_pointer_release(its.pointer);
    CHILD_STATUS(TARN_OK, tarn_resource_release(its.resource));
}

/* --- the table --- */

static const struct row rows[] = {
    {"symbolizers", NULL, use_hooks, NULL, NULL, false},
    {"error messages and warnings", NULL, use_messages, NULL, NULL, false},
    {"host memory", begin_host, come_and_go, NULL, end_resource, false},
    {"a limiter", begin_limiter, come_and_go, NULL, end_resource, false},
    {"a logger", begin_logger, come_and_go, NULL, end_logger, false},
    {"a counter", begin_counter, come_and_go, counts_are_whole, end_resource, false},
    {"sets of a counter", begin_counter, use_sets, NULL, end_resource, false},
    {"a tracker with stacks", begin_tracker, use_tracker, NULL, end_resource, false},
    {"a tap", begin_host, use_observer, NULL, end_resource, false},
    {"a log", begin_writer, use_writer, NULL, end_writer, false},
    {"the runtime for counted memory", NULL, use_runtime, NULL, end_runtime, false},
    {"cuda", begin_cuda, come_and_go, NULL, end_resource, false},
    {"async", begin_async, come_and_go, NULL, end_resource, false},
    {"exportable", begin_exportable, come_and_go, NULL, end_resource, false},
    {"a pool", begin_pool, use_pool, NULL, end_pool, false},
    {"a pool with a thread", begin_pool_with_thread, use_pool, NULL, end_pool, false},
    {"guard mode", begin_guard, use_guard, NULL, end_resource, false},
    {"a binary log", begin_binary_log, use_binary_log, NULL, end_logger, false},
    {"binning", begin_binning, use_bins, NULL, end_resource, false},
    {"pools of the driver", NULL, use_driver_pools, NULL, NULL, false},
    {"shared resources", NULL, use_shared, NULL, NULL, false},
    {"the registry of devices", begin_pool, use_registry, NULL, end_registry, false},
    {"opened streams", NULL, use_streams, NULL, NULL, false},
    {"pointers", begin_pool, use_pointers, NULL, end_pool, false},
    {"the manager over resources", begin_resource_manager, use_manager, NULL, end_manager,
     false},
    {"PyTorch", begin_torch, use_torch, NULL, end_torch, false},
    {"segments of PyTorch", begin_pool, use_segments, NULL, end_pool, false},
    {"the native manager", begin_native_manager, use_manager, NULL, end_manager, false},
    {"the manager with a pool", begin_pool_manager, use_manager, NULL, end_manager,
     false},
    {"the manager of the process", NULL, use_process_manager, NULL, NULL, true},
    {"handles for other processes", begin_ipc, use_ipc, NULL, end_ipc, true},
};

static const struct row *row; /* that runs */

/* Return whether the row is wanted: TARN_TEST_ROW names the only one to run. */
static bool is_wanted(void)
{
    const char *only = getenv("TARN_TEST_ROW");

    return !only || strcmp(only, row->name) == 0;
}

static void begin_row(void)
{
    memset(&its, 0, sizeof its);
    if (row->begin)
        row->begin();
}

static void end_row(void)
{
    if (row->end)
        row->end();
}

/* A child uses the objects. */
static void use_in_a_child(unsigned seconds)
{
    alarm(seconds); /* ends a child that hangs */
    if (row->is_whole && !row->is_whole())
        child_fail("%s: not whole", row->name);
    for (unsigned turn = 0; turn < TURNS; turn++)
        row->use(turn);
}

static void remove_logs(const char *directory)
{
    char pattern[64];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/log*", directory);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    for (size_t i = 0; i < found.gl_pathc; i++)
        CHECK_EQUAL(0, remove(found.gl_pathv[i]));
    globfree(&found);
}

/* Call `run` for each row of this kind, with a folder for sockets. */
static void run_rows(bool alone, void (*run)(void))
{
    char socket_directory[] = "/tmp/tarn-forks-XXXXXX";

    CHECK(mkdtemp(socket_directory) != NULL);
    CHECK_EQUAL(0, setenv("TARN_IPC_DIR", socket_directory, 1));
    for (row = rows; row < rows + sizeof rows / sizeof *rows; row++)
        if (row->is_alone == alone && is_wanted())
            run();
    remove_logs(socket_directory);
    CHECK_EQUAL(0, rmdir(socket_directory));
}

#endif
