/* convert_torch.c -- PyTorch's memory snapshot: a pickle that its viewer reads.
 *
 * The pickle is a dict with `device_traces`, a list of events for each device, and
 * `segments` of blocks without gaps. The events of a device go to a file of its own
 * while the log is read; the end puts the files together. The viewer's reader of pickles
 * knows the operations of protocol 2 and few others, so only such are used.
 *
 * A log does not have the segments. They are made here: live blocks whose surroundings of
 * 2 MiB touch make one segment.
 */
#define _GNU_SOURCE
#include "convert.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICES = 64 };
static const uint64_t SEGMENT_BYTES = 2 * 1024 * 1024;

struct trace {
    FILE *file;           /* the events of a device, pickled; NULL: it has none */
    struct stacks frames; /* stacks of which the file has the frames: their memos */
};

struct torch {
    struct trace traces[DEVICES];
    uint32_t memos; /* numbers of objects in the pickle's memo */
};

/* --- pickle ------------------------------------------------------------------------- */

static void put_little(FILE *out, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++)
        fputc((int)(value >> 8 * i & 255), out);
}

static void put_number(FILE *out, uint64_t value)
{
    if (value <= INT32_MAX) {
        fputc('J', out); /* BININT */
        put_little(out, value, 4);
        return;
    }
    fputs("\x8a\x09", out); /* LONG1 of nine bytes, so that it is not negative */
    put_little(out, value, 8);
    fputc(0, out);
}

/* Write text. Bytes that are not UTF-8 become '?'. */
static void put_text(FILE *out, const char *text)
{
    char *shown = NULL;
    size_t count = 0;
    FILE *memory = open_memstream(&shown, &count);

    if (memory) {
        print_text(memory, text);
        fclose(memory);
    }
    fputc('X', out); /* BINUNICODE */
    put_little(out, shown ? count : 0, 4);
    if (shown)
        fwrite(shown, 1, count, out);
    free(shown);
}

static void put_pair(FILE *out, const char *key, uint64_t value)
{
    put_text(out, key);
    put_number(out, value);
}

static void put_text_pair(FILE *out, const char *key, const char *value)
{
    put_text(out, key);
    put_text(out, value);
}

/* Write the list of a stack's frames and note its memo, or refer to that. */
static void put_frames(struct torch *torch, struct trace *trace, FILE *out,
                       tarn_stack stack)
{
    tarn_stack_frame frames[TARN_STACK_DEPTH_MAX];
    uint32_t memo = stacks_find(&trace->frames, stack);

    if (memo) {
        fputc('j', out); /* LONG_BINGET */
        put_little(out, memo, 4);
        return;
    }
    size_t count = tarn_stack_frames(stack, TARN_STACK_DEPTH_MAX, frames);
    fputs("](", out); /* EMPTY_LIST, MARK */
    for (size_t i = 0; i < count; i++) {
        fputs("}(", out); /* EMPTY_DICT, MARK */
        put_text_pair(out, "filename", frames[i].file);
        put_pair(out, "line", (uint64_t)frames[i].line);
        put_text_pair(out, "name", frames[i].function);
        fputc('u', out); /* SETITEMS */
    }
    fputc('e', out); /* APPENDS */
    if (stack && stacks_put(&trace->frames, stack, torch->memos + 1)) {
        fputc('r', out); /* LONG_BINPUT */
        put_little(out, ++torch->memos, 4);
    }
}

/* --- events ------------------------------------------------------------------------- */

static unsigned index_of(int device)
{
    return device < 0 ? 0 : device < DEVICES ? (unsigned)device : DEVICES - 1;
}

static tarn_status begin(struct convert *convert)
{
    convert->state = calloc(1, sizeof(struct torch));
    return convert->state
               ? TARN_OK
               : tarn_error_set(TARN_OUT_OF_MEMORY, "no host memory for a conversion");
}

/* The stack of an event, or its place. */
static tarn_stack stack_of(const tarn_trace_event *event)
{
    return event->stack ? event->stack : place_of(event);
}

/* Write an event of the trace of a device. */
static void put_event(struct convert *convert, const char *action, unsigned device,
                      const struct live_block *block, tarn_stack stack, uint64_t time_ns)
{
    struct torch *torch = convert->state;
    struct trace *trace = &torch->traces[device];

    fputs("}(", trace->file);
    put_text_pair(trace->file, "action", action);
    put_pair(trace->file, strcmp(action, "oom") == 0 ? "device_free" : "addr",
             block->address);
    put_pair(trace->file, "size", block->bytes);
    put_pair(trace->file, "stream", block->stream);
    put_pair(trace->file, "time_us", (convert->start_unix_ns + time_ns) / 1000);
    put_text(trace->file, "frames");
    put_frames(torch, trace, trace->file, stack);
    fputc('u', trace->file);
}

static void put_free(struct convert *convert, const struct live_block *block,
                     tarn_stack stack, uint64_t time_ns)
{
    unsigned device = index_of(block->device);

    put_event(convert, "free_requested", device, block, stack, time_ns);
    put_event(convert, "free_completed", device, block, stack, time_ns);
}

static tarn_status put_allocation(struct convert *convert, const struct live_block *block,
                                  uint64_t time_ns)
{
    struct live_block old;
    tarn_status status = live_blocks_add(&convert->live, block, &old);

    if (status != TARN_OK)
        return status;
    if (old.id)
        put_free(convert, &old, TARN_STACK_UNKNOWN, time_ns);
    put_event(convert, "alloc", index_of(block->device), block, block->stack, time_ns);
    return TARN_OK;
}

static tarn_status on_event(struct convert *convert, const tarn_trace_event *event,
                            uint64_t line)
{
    unsigned device = index_of(event->device);
    struct trace *trace = &((struct torch *)convert->state)->traces[device];
    struct live_block old, block = {.address = event->address,
                                    .bytes = event->bytes,
                                    .stream = event->stream,
                                    .id = line,
                                    .stack = stack_of(event),
                                    .device = (int)device};

    if (!trace->file && !(trace->file = tmpfile()))
        return tarn_error_set(TARN_SYSTEM_FAILURE, "cannot create a temporary file: %s",
                              strerror(errno));
    if (block.stream == UINT64_MAX) /* none */
        block.stream = 0;
    if (event->action == TARN_ACTION_ALLOCATE_FAILURE) {
        block.address = event->free_bytes;
        put_event(convert, "oom", device, &block, block.stack, event->end_ns);
    } else if (event->action == TARN_ACTION_ALLOCATE && block.address && block.bytes) {
        return put_allocation(convert, &block, event->end_ns);
    } else if (event->action == TARN_ACTION_FREE) {
        old = live_blocks_take(&convert->live, event->address);
        if (old.id)
            put_free(convert, &old, block.stack, event->start_ns);
    }
    return TARN_OK;
}

/* --- the end ------------------------------------------------------------------------ */

static int compare_blocks(const void *a, const void *b)
{
    const struct live_block *one = a, *other = b;

    if (one->device != other->device)
        return one->device < other->device ? -1 : 1;
    return (one->address > other->address) - (one->address < other->address);
}

/* The live blocks, sorted; `*count` of them. Blocks that overlap the one before, or the
 * end of addresses, are left out. NULL: no host memory. */
static struct live_block *sorted_blocks(const struct convert *convert, size_t *count)
{
    struct live_block *blocks = calloc(convert->live.count + 1, sizeof *blocks);
    size_t found = 0, kept = 0;

    for (size_t i = 0; blocks && i < convert->live.capacity; i++) {
        const struct live_block *block = &convert->live.slots[i];
        if (block->id && block->bytes <= INT64_MAX && block->address <= INT64_MAX)
            blocks[found++] = *block;
    }
    if (blocks)
        qsort(blocks, found, sizeof *blocks, compare_blocks);
    for (size_t i = 0; i < found; i++) {
        const struct live_block *before = kept ? &blocks[kept - 1] : NULL;
        if (!before || before->device != blocks[i].device ||
            before->address + before->bytes <= blocks[i].address)
            blocks[kept++] = blocks[i];
    }
    *count = kept;
    return blocks;
}

static uint64_t segment_begin(const struct live_block *block)
{
    return block->address - block->address % SEGMENT_BYTES;
}

static uint64_t segment_end(const struct live_block *block)
{
    uint64_t end = block->address + block->bytes + SEGMENT_BYTES - 1;

    return end - end % SEGMENT_BYTES;
}

/* Write a block of a segment: free memory if `block` is NULL. */
static void put_block(struct convert *convert, uint64_t address, uint64_t bytes,
                      const struct live_block *block)
{
    struct torch *torch = convert->state;
    FILE *out = convert->out;

    if (bytes == 0)
        return;
    fputs("}(", out);
    put_pair(out, "address", address);
    put_pair(out, "size", bytes);
    put_pair(out, "requested_size", block ? bytes : 0);
    put_text_pair(out, "state", block ? "active_allocated" : "inactive");
    put_text(out, "frames");
    put_frames(torch, &torch->traces[block ? block->device : 0], out,
               block ? block->stack : TARN_STACK_UNKNOWN);
    fputc('u', out);
}

/* Write the segment of `count` blocks. */
static void put_segment(struct convert *convert, const struct live_block *blocks,
                        size_t count)
{
    FILE *out = convert->out;
    uint64_t at = segment_begin(blocks), end = segment_end(&blocks[count - 1]);
    uint64_t live_bytes = 0;

    for (size_t i = 0; i < count; i++)
        live_bytes += blocks[i].bytes;
    fputs("}(", out);
    put_pair(out, "device", (uint64_t)blocks->device);
    put_pair(out, "address", at);
    put_pair(out, "total_size", end - at);
    put_pair(out, "allocated_size", live_bytes);
    put_pair(out, "active_size", live_bytes);
    put_pair(out, "requested_size", live_bytes);
    put_pair(out, "stream", blocks->stream);
    put_text_pair(out, "segment_type", "large");
    put_text(out, "segment_pool_id");
    put_number(out, 0);
    put_number(out, 0);
    fputs("\x86", out); /* TUPLE2 */
    put_text(out, "is_expandable");
    fputs("\x89", out); /* NEWFALSE */
    put_text(out, "frames");
    fputc(']', out);
    put_text(out, "blocks");
    fputs("](", out);
    for (size_t i = 0; i < count; i++) {
        put_block(convert, at, blocks[i].address - at, NULL);
        put_block(convert, blocks[i].address, blocks[i].bytes, &blocks[i]);
        at = blocks[i].address + blocks[i].bytes;
    }
    put_block(convert, at, end - at, NULL);
    fputs("eu", out);
}

static tarn_status put_segments(struct convert *convert)
{
    size_t count;
    struct live_block *blocks = sorted_blocks(convert, &count);

    if (!blocks)
        return tarn_error_set(TARN_OUT_OF_MEMORY, "no host memory for %zu blocks",
                              convert->live.count);
    put_text(convert->out, "segments");
    fputs("](", convert->out);
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1;
             next < count && blocks[next].device == blocks[i].device &&
             segment_begin(&blocks[next]) <= segment_end(&blocks[next - 1]);)
            next++;
        put_segment(convert, &blocks[i], next - i);
    }
    fputc('e', convert->out);
    free(blocks);
    return TARN_OK;
}

/* Append the events of a device. */
static tarn_status copy_trace(struct convert *convert, FILE *from)
{
    char part[64 * 1024];
    size_t count;

    if (!from)
        return TARN_OK;
    if (fflush(from) != 0 || ferror(from) || fseek(from, 0, SEEK_SET) != 0)
        return tarn_error_set(TARN_SYSTEM_FAILURE, "cannot write a temporary file: %s",
                              strerror(errno));
    while ((count = fread(part, 1, sizeof part, from)) > 0)
        fwrite(part, 1, count, convert->out);
    return ferror(from)
               ? tarn_error_set(TARN_SYSTEM_FAILURE, "cannot read a temporary file: %s",
                                strerror(errno))
               : TARN_OK;
}

static tarn_status end(struct convert *convert)
{
    struct torch *torch = convert->state;
    unsigned devices = DEVICES;
    tarn_status status = TARN_OK;

    while (devices > 1 && !torch->traces[devices - 1].file)
        devices--;
    fputs("\x80\x02}(", convert->out); /* PROTO 2, EMPTY_DICT, MARK */
    put_text(convert->out, "device_traces");
    fputs("](", convert->out);
    for (unsigned i = 0; i < devices && status == TARN_OK; i++) {
        fputs("](", convert->out);
        status = copy_trace(convert, torch->traces[i].file);
        fputc('e', convert->out);
    }
    fputc('e', convert->out);
    if (status == TARN_OK)
        status = put_segments(convert);
    fputs("u.", convert->out); /* SETITEMS, STOP */
    return status;
}

static void release(struct convert *convert)
{
    struct torch *torch = convert->state;

    for (unsigned i = 0; torch && i < DEVICES; i++) {
        if (torch->traces[i].file)
            fclose(torch->traces[i].file);
        stacks_free(&torch->traces[i].frames);
    }
    free(torch);
}

const struct convert_form form_torch = {
    .name = "torch-snapshot",
    .suffix = ".pickle",
    .keeps = PART_DEVICES | PART_PLACES | PART_STACKS | PART_FREE_MEMORY,
    .begin = begin,
    .on_event = on_event,
    .end = end,
    .release = release,
};
