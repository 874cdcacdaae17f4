/* binary_names.c -- the strings, frames and stacks of a binary log, by their numbers.
 *
 * The numbers are those of the process that wrote the log. They are keys here and never
 * sizes: a log from a stranger may have any.
 */
#define _GNU_SOURCE
#include "trace/binary_names.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A process has at most half of these (stack.h). */
enum { NAMES_MAX = 2 * 1024 * 1024, TEXT_BYTES_MAX = 128 * 1024 * 1024 };

struct named_frame {
    struct tarn__binary_frame is;
    char *location; /* owned; NULL until it is wanted */
};

void tarn__binary_names_init(struct tarn__binary_names *names)
{
    tarn__map_init(&names->strings, sizeof(char *));
    tarn__map_init(&names->frames, sizeof(struct named_frame));
    tarn__map_init(&names->stacks, sizeof(uint32_t));
    names->bytes = 0;
}

void tarn__binary_names_free(struct tarn__binary_names *names)
{
    size_t cursor = 0;
    uint64_t key;
    void *value;

    while (tarn__map_next(&names->strings, &cursor, &key, &value))
        free(*(char **)value);
    cursor = 0;
    while (tarn__map_next(&names->frames, &cursor, &key, &value))
        free(((struct named_frame *)value)->location);
    tarn__map_free(&names->strings);
    tarn__map_free(&names->frames);
    tarn__map_free(&names->stacks);
}

/* Copy a string into memory that the bound counts; NULL: no space. */
static char *copy_text(struct tarn__binary_names *names, const char *text, size_t bytes)
{
    if (bytes >= TEXT_BYTES_MAX - names->bytes)
        return NULL;
    char *copy = malloc(bytes + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    names->bytes += bytes + 1;
    return copy;
}

/* Add a value under a number that has none. */
static enum tarn__binary_name put(struct tarn__binary_names *names, struct tarn__map *map,
                                  uint32_t number, const void *value)
{
    size_t count = names->strings.count + names->frames.count + names->stacks.count;

    return count < NAMES_MAX && tarn__map_put(map, number, value)
               ? TARN__BINARY_NAME_ADDED
               : TARN__BINARY_NAME_NO_SPACE;
}

/* Whether a record's number can be added to the map. */
static enum tarn__binary_name judge(const struct tarn__map *map, uint32_t number)
{
    if (number == 0)
        return TARN__BINARY_NAME_INVALID;
    return tarn__map_get(map, number) ? TARN__BINARY_NAME_KNOWN : TARN__BINARY_NAME_ADDED;
}

enum tarn__binary_name tarn__binary_names_add_string(struct tarn__binary_names *names,
                                                     const void *payload, size_t bytes)
{
    uint32_t head[2]; /* number, zero */

    if (bytes < sizeof head)
        return TARN__BINARY_NAME_INVALID;
    memcpy(head, payload, sizeof head);
    enum tarn__binary_name result = judge(&names->strings, head[0]);
    if (result != TARN__BINARY_NAME_ADDED)
        return result;
    char *text =
        copy_text(names, (const char *)payload + sizeof head, bytes - sizeof head);
    if (!text)
        return TARN__BINARY_NAME_NO_SPACE;
    result = put(names, &names->strings, head[0], &text);
    if (result != TARN__BINARY_NAME_ADDED)
        free(text);
    return result;
}

enum tarn__binary_name tarn__binary_names_add_frame(struct tarn__binary_names *names,
                                                    const void *payload, size_t bytes)
{
    struct named_frame frame = {.location = NULL};

    if (bytes != sizeof frame.is)
        return TARN__BINARY_NAME_INVALID;
    memcpy(&frame.is, payload, sizeof frame.is);
    enum tarn__binary_name result = judge(&names->frames, frame.is.number);
    return result == TARN__BINARY_NAME_ADDED
               ? put(names, &names->frames, frame.is.number, &frame)
               : result;
}

const char *tarn__binary_names_text(const struct tarn__binary_names *names,
                                    uint32_t string)
{
    char *const *text = string ? tarn__map_get(&names->strings, string) : NULL;

    return text ? *text : "";
}

static tarn_stack_frame frame_of(const struct tarn__binary_names *names, uint32_t number)
{
    const struct named_frame *frame =
        number ? tarn__map_get(&names->frames, number) : NULL;

    if (!frame)
        return (tarn_stack_frame){.function = "", .file = ""};
    return (tarn_stack_frame){
        .function = tarn__binary_names_text(names, frame->is.function),
        .file = tarn__binary_names_text(names, frame->is.file),
        .line = frame->is.line > 0 ? frame->is.line : 0,
        .offset = frame->is.offset,
        .build_id = frame->is.build_id
                        ? tarn__binary_names_text(names, frame->is.build_id)
                        : NULL,
    };
}

/* Return true if a frame is not of the program's own: native, of Python, of a package. */
static bool is_internal(const tarn_stack_frame *frame)
{
    static const char *const folders[] = {"/site-packages/", "/dist-packages/",
                                          "/lib/python3", "/lib64/python3"};

    if (frame->build_id || !*frame->file || strncmp(frame->file, "<frozen", 7) == 0)
        return true;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        if (strstr(frame->file, folders[i]))
            return true;
    return false;
}

enum tarn__binary_name tarn__binary_names_add_stack(
    struct tarn__binary_names *names, const void *payload, size_t bytes,
    tarn_stack *stack, tarn_stack_frame frames[TARN_STACK_DEPTH_MAX], size_t *count)
{
    uint32_t head[2], numbers[TARN_STACK_DEPTH_MAX]; /* head: number, count */

    if (bytes < sizeof head)
        return TARN__BINARY_NAME_INVALID;
    memcpy(head, payload, sizeof head);
    if (head[1] == 0 || head[1] > TARN_STACK_DEPTH_MAX ||
        bytes != sizeof head + head[1] * sizeof numbers[0])
        return TARN__BINARY_NAME_INVALID;
    enum tarn__binary_name result = judge(&names->stacks, head[0]);
    if (result != TARN__BINARY_NAME_ADDED)
        return result;
    memcpy(numbers, (const char *)payload + sizeof head, head[1] * sizeof numbers[0]);
    size_t own = 0;
    for (size_t i = head[1]; i-- > 0;) {
        frames[i] = frame_of(names, numbers[i]);
        if (!is_internal(&frames[i]))
            own = i;
    }
    *stack = head[0];
    *count = head[1];
    return put(names, &names->stacks, head[0], &numbers[own]);
}

bool tarn__binary_names_knows(const struct tarn__binary_names *names, tarn_stack stack)
{
    return stack && tarn__map_get(&names->stacks, stack) != NULL;
}

/* "file:line", the file of a frame without a line, or the function of a native frame. */
static char *location_of(struct tarn__binary_names *names, const tarn_stack_frame *frame)
{
    char *text;
    int count;

    if (frame->build_id && *frame->function)
        count = asprintf(&text, "%s", frame->function);
    else if (frame->build_id)
        count =
            asprintf(&text, "%s+0x%llx", frame->file, (unsigned long long)frame->offset);
    else if (frame->line > 0)
        count = asprintf(&text, "%s:%d", frame->file, frame->line);
    else
        count = asprintf(&text, "%s", frame->file);
    if (count < 0)
        return NULL;
    if ((size_t)count < TEXT_BYTES_MAX - names->bytes) {
        names->bytes += (size_t)count + 1;
        return text;
    }
    free(text);
    return NULL;
}

bool tarn__binary_names_location(struct tarn__binary_names *names, tarn_stack stack,
                                 const char **out)
{
    const uint32_t *number = stack ? tarn__map_get(&names->stacks, stack) : NULL;
    struct named_frame *frame =
        number && *number ? tarn__map_get(&names->frames, *number) : NULL;

    *out = "";
    if (!frame)
        return true;
    if (!frame->location) {
        tarn_stack_frame shown = frame_of(names, *number);
        frame->location = location_of(names, &shown);
    }
    if (frame->location)
        *out = frame->location;
    return frame->location != NULL;
}
