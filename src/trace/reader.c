/* reader.c -- reads a log of any form: the first bytes tell which. */
#include "base/options.h"
#include "trace/binary_reader.h"
#include "trace/csv_reader.h"

/* Read the log with handlers that have been checked. */
static tarn_status read_log(struct tarn__input *input, const tarn_trace_limits *limits,
                            const struct tarn__delivery *delivery,
                            tarn_trace_format *format_out)
{
    if (!tarn__input_begins_with(input, TARN__BINARY_MAGIC, sizeof TARN__BINARY_MAGIC))
        return tarn__csv_reader_read(input, limits, delivery, format_out);
    *format_out = TARN_TRACE_BINARY;
    return tarn__binary_reader_read(input, delivery);
}

tarn_status tarn_trace_read_all(const char *name, tarn_trace_read_fn read, void *data,
                                const tarn_trace_limits *limits,
                                const tarn_trace_handlers *handlers, void *handler_data,
                                tarn_trace_format *format_out)
{
    struct tarn__delivery delivery = {.name = name, .data = handler_data};
    struct tarn__input input;
    tarn_trace_format format;

    if (!name || !read)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "trace: read_all: name or read is NULL");
    tarn_status status = tarn__options_read("trace: read_all", handlers, sizeof *handlers,
                                            &delivery.handlers, sizeof *handlers);
    if (status != TARN_OK)
        return status;
    if (!tarn__input_open(&input, name, read, data))
        return tarn_error_set(TARN_OUT_OF_MEMORY, "%.200s: no host memory for a reader",
                              name);
    status = read_log(&input, limits, &delivery, &format);
    tarn__input_close(&input);
    if (status == TARN_OK && format_out)
        *format_out = format;
    return status;
}

tarn_status tarn_trace_read(const char *name, tarn_trace_read_fn read, void *data,
                            const tarn_trace_limits *limits, tarn_trace_event_fn on_event,
                            void *event_data, tarn_trace_format *format_out)
{
    const tarn_trace_handlers handlers = {.size = sizeof handlers, .on_event = on_event};

    if (!name || !read)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "trace: read: name or read is NULL");
    return tarn_trace_read_all(name, read, data, limits, &handlers, event_data,
                               format_out);
}
