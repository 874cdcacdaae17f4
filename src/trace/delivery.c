/* delivery.c -- the functions that receive the contents of a log.
 *
 * They are a caller's. A failure must name the log, also if its function set no message.
 */
#include "trace/delivery.h"
#include "base/error.h"
#include <inttypes.h>
#include <stdio.h>

/* Complete the failure of a handler that was called when `before` failures were known.
 * `line`: of a row; 0 for anything else. */
static tarn_status checked(const struct tarn__delivery *delivery, unsigned before,
                           tarn_status status, const char *what, uint64_t line)
{
    char place[24] = "";

    if (status == TARN_OK || tarn__error_has_message(before, status))
        return status;
    if (line)
        snprintf(place, sizeof place, ":%" PRIu64, line);
    return tarn_error_set(status,
                          "%.200s%s: the callback rejected the %s without a message",
                          delivery->name, place, what);
}

tarn_status tarn__delivery_process(const struct tarn__delivery *delivery,
                                   const tarn_trace_process *process)
{
    unsigned before = tarn__error_count;

    if (!delivery->handlers.on_process)
        return TARN_OK;
    return checked(delivery, before,
                   delivery->handlers.on_process(delivery->data, process), "process", 0);
}

tarn_status tarn__delivery_stack(const struct tarn__delivery *delivery, tarn_stack stack,
                                 const tarn_stack_frame *frames, size_t count)
{
    unsigned before = tarn__error_count;

    if (!delivery->handlers.on_stack)
        return TARN_OK;
    return checked(delivery, before,
                   delivery->handlers.on_stack(delivery->data, stack, frames, count),
                   "stack", 0);
}

tarn_status tarn__delivery_event(const struct tarn__delivery *delivery,
                                 const tarn_trace_event *event, uint64_t line)
{
    unsigned before = tarn__error_count;

    if (!delivery->handlers.on_event)
        return TARN_OK;
    return checked(delivery, before,
                   delivery->handlers.on_event(delivery->data, event, line), "row", line);
}

tarn_status tarn__delivery_pool(const struct tarn__delivery *delivery,
                                const tarn_trace_pool_row *row)
{
    unsigned before = tarn__error_count;

    if (!delivery->handlers.on_pool)
        return TARN_OK;
    return checked(delivery, before, delivery->handlers.on_pool(delivery->data, row),
                   "pool row", 0);
}

tarn_status tarn__delivery_mark(const struct tarn__delivery *delivery, const char *name,
                                uint64_t time_ns)
{
    unsigned before = tarn__error_count;

    if (!delivery->handlers.on_mark)
        return TARN_OK;
    return checked(delivery, before,
                   delivery->handlers.on_mark(delivery->data, name, time_ns), "mark", 0);
}

tarn_status tarn__delivery_end(const struct tarn__delivery *delivery,
                               const tarn_trace_end *end)
{
    unsigned before = tarn__error_count;

    if (!delivery->handlers.on_end)
        return TARN_OK;
    return checked(delivery, before, delivery->handlers.on_end(delivery->data, end),
                   "end", 0);
}
