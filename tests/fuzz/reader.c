/* reader.c -- a fuzz target: any bytes as a log, read, checked and loaded.
 *
 *     fuzz-reader [-max_total_time=120] [FOLDER]
 *
 * The reader accepts the bytes, or rejects them with a message that names the log. A log
 * that is loaded does not depend on the portions in which its source returns it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tarn/trace.h>

struct input {
    const uint8_t *at, *end;
    size_t portion; /* bytes that a read returns at most */
};

static long read_input(void *data, char *buffer, size_t capacity)
{
    struct input *input = data;
    size_t count = (size_t)(input->end - input->at);

    if (count > capacity)
        count = capacity;
    if (count > input->portion)
        count = input->portion;
    if (count > 0)
        memcpy(buffer, input->at, count);
    input->at += count;
    return (long)count;
}

static tarn_status load(const uint8_t *bytes, size_t count, size_t portion,
                        tarn_trace_summary *out)
{
    struct input input = {bytes, bytes + count, portion};
    const tarn_trace_limits limits = {
        .line_bytes = 1024, .live_rows = 1 << 16, .operations = 1 << 16};
    tarn_trace *trace;
    tarn_status status = tarn_trace_load("fuzz", read_input, &input, &limits, &trace);

    if (status == TARN_OK) {
        tarn_trace_summarize(trace, out);
        tarn_trace_release(trace);
    } else if (strncmp(tarn_error_last()->message, "fuzz:", 5) != 0) {
        fprintf(stderr, "no place in: %s\n", tarn_error_last()->message);
        abort();
    }
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    tarn_trace_summary whole, parts;

    memset(&whole, 0, sizeof whole);
    memset(&parts, 0, sizeof parts);
    tarn_status status = load(bytes, count, SIZE_MAX, &whole);
    if (load(bytes, count, 1 + count % 7, &parts) != status ||
        memcmp(&whole, &parts, sizeof whole) != 0)
        abort();
    return 0;
}
