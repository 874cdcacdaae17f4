/* convert_perfetto.c -- Chrome's JSON of trace events, which ui.perfetto.dev reads.
 *
 * Lifetimes of blocks overlap without nesting, so they are async events, each with the id
 * of its block. Counters have the live bytes of each device and the reserved bytes of
 * each pool. Every event is written when its row is read.
 */
#include "convert.h"
#include <inttypes.h>
#include <stdlib.h>

enum { DEVICES = 64 }; /* devices with a counter */

struct perfetto {
    struct json json;
    uint64_t live_bytes[DEVICES];
};

/* Open an event; its time is in microseconds. */
static struct json *open_event(struct convert *convert, const char *phase,
                               const char *name, uint64_t time_ns, uint64_t thread)
{
    struct json *json = &((struct perfetto *)convert->state)->json;

    json_open(json, NULL, '{');
    json_text(json, "ph", phase);
    json_text(json, "name", *name ? name : "(unknown)");
    json_micros(json, "ts", time_ns);
    json_number(json, "pid", convert->pid);
    json_number(json, "tid", thread);
    return json;
}

static tarn_status begin(struct convert *convert)
{
    struct perfetto *perfetto = calloc(1, sizeof *perfetto);

    if (!perfetto)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "no host memory for a conversion");
    convert->state = perfetto;
    perfetto->json.file = convert->out;
    json_open(&perfetto->json, NULL, '{');
    json_text(&perfetto->json, "displayTimeUnit", "ns");
    perfetto->json.flat = 3;
    json_open(&perfetto->json, "traceEvents", '[');
    return TARN_OK;
}

/* Name the process: the viewer shows its command line above its tracks. */
static tarn_status on_process(struct convert *convert, const tarn_trace_process *process)
{
    if (!process->command || !*process->command)
        return TARN_OK;
    struct json *json = open_event(convert, "M", "process_name", 0, 0);
    json_open(json, "args", '{');
    json_text(json, "name", process->command);
    json_close(json, '}');
    json_close(json, '}');
    return TARN_OK;
}

/* Write a counter with its value from that time on. */
static void write_counter(struct convert *convert, const char *name, uint64_t number,
                          uint64_t time_ns, uint64_t bytes)
{
    char text[64];

    snprintf(text, sizeof text, "%s %" PRIu64, name, number);
    struct json *json = open_event(convert, "C", text, time_ns, 0);
    json_open(json, "args", '{');
    json_number(json, "bytes", bytes);
    json_close(json, '}');
    json_close(json, '}');
}

/* Write an end of a block's life, or the begin with its details. */
static void write_life(struct convert *convert, const char *phase,
                       const struct live_block *block, uint64_t time_ns, uint64_t thread)
{
    struct json *json =
        open_event(convert, phase, place_text(block->place), time_ns, thread);
    char id[24];

    snprintf(id, sizeof id, "0x%" PRIx64, block->id);
    json_text(json, "cat", "memory");
    json_text(json, "id", id);
    if (phase[0] == 'b') {
        char address[24];
        snprintf(address, sizeof address, "0x%" PRIx64, block->address);
        json_open(json, "args", '{');
        json_number(json, "bytes", block->bytes);
        json_text(json, "address", address);
        json_number(json, "device", block->device < 0 ? 0 : (uint64_t)block->device);
        json_close(json, '}');
    }
    json_close(json, '}');
}

/* Change the live bytes of a block's device. */
static void change(struct convert *convert, const struct live_block *block, bool is_new,
                   uint64_t time_ns)
{
    unsigned device = block->device < 0 ? 0 : (unsigned)block->device;
    uint64_t *bytes = ((struct perfetto *)convert->state)->live_bytes;

    if (device >= DEVICES)
        return;
    bytes[device] += is_new ? block->bytes : 0 - block->bytes;
    write_counter(convert, "live bytes of device", device, time_ns, bytes[device]);
}

/* Write something that has a time and no duration. */
static void write_instant(struct convert *convert, const char *name, uint64_t time_ns,
                          uint64_t thread, uint64_t bytes)
{
    struct json *json = open_event(convert, "i", name, time_ns, thread);

    json_text(json, "s", "g");
    json_open(json, "args", '{');
    json_number(json, "bytes", bytes);
    json_close(json, '}');
    json_close(json, '}');
}

static tarn_status on_event(struct convert *convert, const tarn_trace_event *event,
                            uint64_t line)
{
    struct live_block old, block = {.address = event->address,
                                    .bytes = event->bytes,
                                    .id = line,
                                    .place = place_of(event),
                                    .device = event->device};

    if (event->action == TARN_ACTION_ALLOCATE_FAILURE) {
        write_instant(convert, "failed allocation", event->end_ns, event->thread,
                      event->bytes);
        return TARN_OK;
    }
    if (event->action == TARN_ACTION_FREE) {
        old = live_blocks_take(&convert->live, event->address);
        if (old.id) {
            write_life(convert, "e", &old, event->start_ns, event->thread);
            change(convert, &old, false, event->start_ns);
        }
        return TARN_OK;
    }
    tarn_status status = live_blocks_add(&convert->live, &block, &old);
    if (status != TARN_OK)
        return status;
    if (old.id) {
        write_life(convert, "e", &old, event->end_ns, event->thread);
        change(convert, &old, false, event->end_ns);
    }
    write_life(convert, "b", &block, event->end_ns, event->thread);
    change(convert, &block, true, event->end_ns);
    return TARN_OK;
}

static tarn_status on_pool(struct convert *convert, const tarn_trace_pool_row *row)
{
    static const char *const causes[] = {"growth", "release", "trim", "out of memory",
                                         "snapshot"};

    write_counter(convert, "reserved bytes of pool", row->pool, row->time_ns,
                  row->reserved_bytes);
    write_instant(convert, causes[row->cause], row->time_ns, 0, row->reserved_bytes);
    return TARN_OK;
}

static tarn_status on_mark(struct convert *convert, const char *name, uint64_t time_ns)
{
    write_instant(convert, name, time_ns, 0, 0);
    return TARN_OK;
}

static tarn_status end(struct convert *convert)
{
    struct perfetto *perfetto = convert->state;

    json_close(&perfetto->json, ']');
    json_close(&perfetto->json, '}');
    return TARN_OK;
}

static void release(struct convert *convert)
{
    free(convert->state);
}

const struct convert_form form_perfetto = {
    .name = "perfetto",
    .suffix = ".json",
    .keeps = PART_THREADS | PART_DEVICES | PART_PLACES | PART_POOLS | PART_MARKS |
             PART_PROCESS,
    .begin = begin,
    .on_process = on_process,
    .on_event = on_event,
    .on_pool = on_pool,
    .on_mark = on_mark,
    .end = end,
    .release = release,
};
