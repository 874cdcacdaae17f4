/* limiter_log.c -- stack adaptors: a limiter over a logger over a pool.
 *
 * The logger sees the requests that pass the limiter, so a rejected request is not in the
 * log. In the reverse order it would be there, as a failure.
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

/* Build the stack from below. Each layer retains the one beneath, so only the top is
 * kept. */
static tarn_resource *stack(tarn_trace_writer *writer, size_t limit_bytes)
{
    tarn_resource *pool = NULL, *logger = NULL, *limiter = NULL;

    if (ok(tarn_pool_create(0, NULL, NULL, &pool)) &&
        ok(tarn_logger_create(pool, writer, &logger)))
        ok(tarn_limiter_create(logger, limit_bytes, &limiter));
    tarn_resource_release(logger);
    tarn_resource_release(pool);
    return limiter;
}

static bool use(tarn_resource *limiter)
{
    tarn_pointer *pointer, *more;

    tarn_site_set((tarn_site){.file = "limiter_log.c", .line = __LINE__ + 1});
    if (!ok(tarn_pointer_allocate(limiter, 600, TARN_STREAM_DEFAULT, &pointer)))
        return false;
    tarn_status status = tarn_pointer_allocate(limiter, 600, TARN_STREAM_DEFAULT, &more);
    printf("a second one: %s\n", tarn_error_last()->message);
    tarn_pointer_release(pointer);
    return status == TARN_OUT_OF_MEMORY;
}

int main(void)
{
    tarn_trace_writer *writer;

    if (!ok(tarn_trace_writer_create(print_lines, stdout, TARN_TRACE_NBEP7, &writer)))
        return 1;
    tarn_resource *limiter = stack(writer, 1024);
    bool is_good = limiter && use(limiter);
    return ok(tarn_resource_release(limiter)) && ok(tarn_trace_writer_release(writer)) &&
                   is_good
               ? 0
               : 1;
}
