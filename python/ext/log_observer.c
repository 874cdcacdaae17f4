/* log_observer.c -- the rows of all memory that comes from resources.
 *
 * The observer of the process reports each outermost call on a resource, whoever makes
 * it: a DeviceBuffer, a framework under tarn.use(), PyTorch's allocator, C code. So each
 * block has one row, whatever stands between the caller and the device.
 *
 * A manager that logs its own calls has the same block from a resource. Its rows are the
 * manager's: they cover pinned and managed memory, too, and name frees that wait. While
 * such a call runs, this thread leaves the allocation out. The table of live blocks tells
 * whose row the allocation was, and so whose the free will be.
 */
#include "log_observer.h"
#include "error.h"
#include "live.h"
#include "log.h"
#include "log_file.h"
#include "log_site.h"
#include "module.h"

#include <pthread.h>
#include <string.h>

enum { FRESH_NS = 1000000, DEVICES = 128 };

static const uint64_t no_row = UINT64_MAX;

static _Thread_local bool serves_manager;
static _Thread_local uint64_t row_of_free = UINT64_MAX; /* between its two reports */

bool tarn__log_observer_serve_manager(bool serves)
{
    bool before = serves_manager;

    serves_manager = serves;
    return before;
}

/* Return true if libtarn can use the device: C code may create resources of any number. */
static bool is_usable(int device)
{
    return device >= 0 && device < DEVICES;
}

/* --- the device's free memory ------------------------------------------------------- */

/* The last query of each device. As for a manager (memory_info.c), rows count from it for
 * a millisecond. */
static struct {
    pthread_mutex_t lock;
    struct figures {
        uint64_t free_bytes, total_bytes, queried_ns;
    } of_device[DEVICES];
} known = {.lock = PTHREAD_MUTEX_INITIALIZER};

static struct figures query(const tarn_observer_event *event, int device)
{
    struct figures figures = {.queried_ns = event->end_ns};
    size_t free_bytes, total_bytes;
    tarn_device_info info;

    if (tarn_resource_supports_memory_info(event->resource) &&
        tarn_resource_memory_info(event->resource, event->stream, &free_bytes,
                                  &total_bytes) == TARN_OK) {
        figures.free_bytes = free_bytes;
        figures.total_bytes = total_bytes;
    } else if (tarn_driver_device_info(device, &info) == TARN_OK) {
        figures.free_bytes = info.free_bytes;
        figures.total_bytes = info.total_bytes;
    }
    return figures;
}

static uint64_t quanta_of(uint64_t bytes)
{
    return (bytes + TARN_POOL_QUANTUM - 1) & ~(uint64_t)(TARN_POOL_QUANTUM - 1);
}

/* The figures of the last query with this call counted; false: they are too old. */
static bool count(const tarn_observer_event *event, int device, struct figures *out)
{
    pthread_mutex_lock(&known.lock);
    struct figures *figures = &known.of_device[device];
    bool fresh =
        figures->queried_ns != 0 && event->end_ns - figures->queried_ns <= FRESH_NS;
    if (fresh && event->action == TARN_ACTION_ALLOCATE)
        figures->free_bytes -= quanta_of(event->bytes);
    else if (fresh && event->action == TARN_ACTION_FREE && event->status == TARN_OK)
        figures->free_bytes += quanta_of(event->bytes);
    *out = *figures;
    pthread_mutex_unlock(&known.lock);
    return fresh;
}

static void read_figures(const tarn_observer_event *event, struct tarn__log_call *call)
{
    struct figures figures;

    if (!tarn__log_file_has_figures() || !is_usable(call->device))
        return;
    if (!count(event, call->device, &figures)) {
        figures = query(event, call->device);
        pthread_mutex_lock(&known.lock);
        known.of_device[call->device] = figures;
        pthread_mutex_unlock(&known.lock);
    }
    call->free_bytes = figures.free_bytes;
    call->total_bytes = figures.total_bytes;
}

/* --- rows about pools ---------------------------------------------------------------- */

/* What the log has about the pool of each device. The lock is held while a row is written:
 * a thread that waits for it has a call on the same pool behind it. */
static struct {
    pthread_mutex_t lock;
    tarn_logger_pool of_device[DEVICES];
} pools = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Write the rows that are due about the pool beneath the resource of a call. */
static void note_pool(const tarn_observer_event *event, tarn_stack stack)
{
    int device = tarn_resource_device(event->resource);
    tarn_trace_writer *writer;

    if (tarn__log_file_has_figures() || !is_usable(device) ||
        (writer = tarn__log_pool_writer()) == NULL)
        return;
    pthread_mutex_lock(&pools.lock);
    tarn_logger_pool *pool = &pools.of_device[device];
    pool->size = sizeof *pool;
    tarn_logger_note_pool(writer, event->resource, event->action, stack, pool);
    pthread_mutex_unlock(&pools.lock);
    tarn_trace_writer_release(writer);
}

/* --- rows --------------------------------------------------------------------------- */

static struct tarn__log_call call_of(const tarn_observer_event *event)
{
    return (struct tarn__log_call){
        .action = event->action,
        .device = tarn_resource_device(event->resource),
        .address = event->block,
        .stream = event->stream == TARN_STREAM_NONE
                      ? UINT64_MAX
                      : (uint64_t)(uintptr_t)tarn_stream_handle(event->stream),
        .bytes = event->bytes,
        .start_ns = event->start_ns,
        .end_ns = event->end_ns,
    };
}

static void add_allocation(const tarn_observer_event *event)
{
    struct tarn__log_call call = call_of(event);

    tarn__log_site_find(false, &call.site, &call.stack);
    read_figures(event, &call);
    tarn__log_add(&call);
    note_pool(event, call.stack);
}

static void begin_free(const tarn_observer_event *event)
{
    struct tarn__live_block block;

    row_of_free = no_row;
    if (!tarn__live_find(event->block, &block) || block.of_manager)
        return;
    struct tarn__log_call call = call_of(event);
    tarn__log_site_find(true, &call.site, &call.stack);
    row_of_free = tarn__log_free_begin(&call);
}

static void end_free(const tarn_observer_event *event)
{
    struct tarn__log_call call = call_of(event);

    if (row_of_free == no_row)
        return;
    read_figures(event, &call);
    tarn__log_free_end(row_of_free, &call, event->status == TARN_OK);
    row_of_free = no_row;
}

static void observe(void *data, const tarn_observer_event *event)
{
    (void)data;
    if (event->action != TARN_ACTION_FREE) {
        if (serves_manager)
            note_pool(event, TARN_STACK_UNKNOWN);
        else
            add_allocation(event);
    } else if (event->is_over) {
        end_free(event);
        note_pool(event, TARN_STACK_UNKNOWN);
    } else {
        begin_free(event);
    }
}

/* --- for Python --------------------------------------------------------------------- */

PyDoc_STRVAR(log_observe_doc,
             "log_observe()\n--\n\n"
             "Add rows for the blocks of all resources to the log, from now on.\n\n"
             "Raises TarnError if the program has set an observer of its own.");

static PyObject *log_observe(PyObject *module, PyObject *unused)
{
    static bool is_set; /* GIL held */

    (void)unused;
    if (!is_set) {
        tarn_status status = tarn_resource_set_observer(observe, NULL);
        if (status != TARN_OK)
            return tarn__error_raise(tarn__state_get(module), status);
        is_set = true;
    }
    Py_RETURN_NONE;
}

static PyMethodDef observer_functions[] = {
    {"log_observe", log_observe, METH_NOARGS, log_observe_doc},
    {NULL, NULL, 0, NULL},
};

/* In a forked child another thread may have had the lock. */
static void after_fork_in_child(void)
{
    pthread_mutex_init(&known.lock, NULL);
    pthread_mutex_init(&pools.lock, NULL);
    memset(pools.of_device, 0, sizeof pools.of_device); /* its log has no rows yet */
}

int tarn__log_observer_init(PyObject *module)
{
    static bool begun;

    if (!begun) {
        begun = true;
        pthread_atfork(NULL, NULL, after_fork_in_child);
    }
    return PyModule_AddFunctions(module, observer_functions);
}
