/* nbep7.c -- the example of NBEP 7 in C: ten doubles are allocated and freed, and the log
 * shows them.
 *
 * The document's program puts RMM under Numba, sends an array of ten zeros to the device,
 * deletes it, and prints RMM's log. Here the pool manager serves the process, with a
 * resource that the program creates: a logger over a pool.
 */
#include <stdio.h>
#include <tarn/tarn.h>

static bool print_lines(void *file, const char *bytes, size_t count)
{
    return fwrite(bytes, 1, count, file) == count;
}

static bool ok(tarn_status status)
{
    if (status != TARN_OK)
        fprintf(stderr, "%s: %s\n", tarn_status_name(status), tarn_error_last()->message);
    return status == TARN_OK;
}

/* The manager calls this at its preparation: the resource of one device. */
static tarn_status make_logged_pool(void *writer, int device, tarn_resource **out)
{
    tarn_resource *pool;
    tarn_status status = tarn_pool_create(device, NULL, NULL, &pool);

    if (status != TARN_OK)
        return status;
    status = tarn_logger_create(pool, writer, out);
    tarn_resource_release(pool);
    return status;
}

/* to_device(np.zeros(10)), and del. */
static bool send_zeros(tarn_manager *manager)
{
    double zeros[10] = {0};
    tarn_pointer *array;

    tarn_site_set((tarn_site){.file = "nbep7.c", .line = __LINE__ + 1});
    if (!ok(tarn_manager_memalloc(manager, sizeof zeros, TARN_STREAM_NONE, &array)))
        return false;
    bool is_sent = ok(tarn_memcpy_async(0, tarn_pointer_address(array),
                                        (tarn_device_ptr)(uintptr_t)zeros, sizeof zeros,
                                        TARN_STREAM_NONE));
    tarn_pointer_release(array);
    return is_sent;
}

int main(void)
{
    tarn_trace_writer *writer;
    tarn_manager *manager;

    if (!ok(tarn_trace_writer_create(print_lines, stdout, TARN_TRACE_NBEP7, &writer)))
        return 1;
    tarn_pool_manager_options options = {
        .size = sizeof options, .make = make_logged_pool, .data = writer};
    if (!ok(tarn_set_memory_manager(tarn_pool_manager_ops(), &options)) ||
        !ok(tarn_memory_manager(0, &manager)))
        return 1;
    bool is_good = send_zeros(manager) && ok(tarn_trace_flush(writer));
    tarn_manager_release(manager); /* the process has a reference of its own */
    return is_good ? 0 : 1;
}
