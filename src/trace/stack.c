/* stack.c -- call stacks: captures, and their frames as text.
 *
 * The language runtime above knows the functions and lines that a user understands, and
 * has a finder. A thread that it does not know has native frames.
 */
#include "trace/stack.h"
#include "trace/native_stack.h"
#include "trace/stack_table.h"
#include <inttypes.h>
#include <stdatomic.h>

enum { CALLER_DEPTH = 16 }; /* of tarn__stack_capture_caller() */

static _Atomic(tarn_stack_finder) finder;
static _Thread_local const char *calling_library;

void tarn_stack_set_finder(tarn_stack_finder find)
{
    atomic_store(&finder, find);
}

const char *tarn__stack_set_library(const char *library)
{
    const char *previous = calling_library;

    calling_library = library;
    return previous;
}

/* Put a frame of the calling library before a stack of at most `depth` frames. */
static tarn_stack with_library(tarn_stack stack, unsigned depth)
{
    tarn_stack_frame library = {.function = "", .file = calling_library, .build_id = ""};
    uint32_t frames[TARN_STACK_DEPTH_MAX];

    frames[0] = tarn_stack_add_frame(&library);
    size_t count = tarn__stack_table_numbers(stack, depth - 1, frames + 1);
    if (frames[0] == 0)
        return stack;
    return tarn_stack_add(frames, 1 + (count < depth ? count : depth - 1));
}

/* Capture the frames that the finder knows. */
static tarn_stack capture_found(unsigned depth)
{
    tarn_stack_finder find = atomic_load(&finder);
    tarn_stack stack = find ? find(depth) : TARN_STACK_UNKNOWN;

    return stack != TARN_STACK_UNKNOWN && calling_library && depth > 1
               ? with_library(stack, depth)
               : stack;
}

tarn_stack tarn_stack_capture(unsigned depth)
{
    if (depth > TARN_STACK_DEPTH_MAX)
        depth = TARN_STACK_DEPTH_MAX;
    if (depth == 0)
        return TARN_STACK_UNKNOWN;
    tarn_stack stack = capture_found(depth);
    return stack != TARN_STACK_UNKNOWN ? stack : tarn__native_stack_capture(depth);
}

tarn_stack tarn__stack_capture_caller(void *caller)
{
    tarn_stack stack = capture_found(CALLER_DEPTH);

    if (stack == TARN_STACK_UNKNOWN)
        stack = tarn__native_stack_of_caller(caller);
    return stack != TARN_STACK_UNKNOWN ? stack : tarn__native_stack_capture(CALLER_DEPTH);
}

uint32_t tarn_stack_add_frame(tarn_stack_frame *frame)
{
    const char *function = frame->function ? frame->function : "";
    const char *file = frame->file ? frame->file : "";
    struct tarn__stack_table_frame entry = {
        .function = tarn__stack_table_string(function),
        .file = tarn__stack_table_string(file),
        .build_id = frame->build_id ? tarn__stack_table_string(frame->build_id) : 0,
        .line = frame->line,
        .offset = frame->offset};

    if (!entry.function || !entry.file || (frame->build_id && !entry.build_id))
        return 0;
    uint32_t number = tarn__stack_table_add_frame(&entry);
    if (number == 0)
        return 0;
    frame->function = tarn__stack_table_text(entry.function);
    frame->file = tarn__stack_table_text(entry.file);
    if (frame->build_id)
        frame->build_id = tarn__stack_table_text(entry.build_id);
    return number;
}

/* Return the name of a native function in the table; "": unknown. */
static const char *name_of(const struct tarn__stack_table_frame *entry)
{
    const char *name = tarn__native_stack_function(entry);

    return tarn__stack_table_text(name ? tarn__stack_table_string(name) : 0);
}

static tarn_stack_frame frame_of(const struct tarn__stack_table_frame *entry)
{
    bool is_native = entry->build_id != 0;

    return (tarn_stack_frame){
        .function = is_native && entry->function == 0
                        ? name_of(entry)
                        : tarn__stack_table_text(entry->function),
        .file = tarn__stack_table_text(entry->file),
        .line = entry->line,
        .offset = entry->offset,
        .build_id = is_native ? tarn__stack_table_text(entry->build_id) : NULL};
}

size_t tarn_stack_frames(tarn_stack stack, size_t capacity, tarn_stack_frame *frames)
{
    struct tarn__stack_table_frame entries[TARN_STACK_DEPTH_MAX];
    size_t count = tarn__stack_table_frames(stack, TARN_STACK_DEPTH_MAX, entries);

    for (size_t i = 0; i < count && i < capacity; i++)
        frames[i] = frame_of(&entries[i]);
    return count;
}

static void print_frame(const tarn_stack_frame *frame, FILE *out)
{
    fprintf(out, "  File \"%s\"", frame->file);
    if (frame->line > 0)
        fprintf(out, ", line %d", frame->line);
    if (frame->build_id)
        fprintf(out, ", offset 0x%" PRIx64, frame->offset);
    if (frame->function[0])
        fprintf(out, ", in %s", frame->function);
    if (frame->build_id && frame->build_id[0])
        fprintf(out, ", build-id %s", frame->build_id);
    fputc('\n', out);
}

void tarn_stack_print(tarn_stack stack, FILE *out)
{
    tarn_stack_frame frames[TARN_STACK_DEPTH_MAX];
    size_t count = tarn_stack_frames(stack, TARN_STACK_DEPTH_MAX, frames);

    if (count == 0)
        fputs("  the call stack is unknown\n", out);
    for (size_t i = count; i > 0; i--)
        print_frame(&frames[i - 1], out);
}
