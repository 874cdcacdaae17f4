/* stack_table.c -- the strings, frames and stacks of this process, each with a number.
 *
 * All three are entries of one table of interned bytes, each with a kind in front. A frame
 * has the numbers of its strings, a stack those of its frames. So an equal stack is found
 * with one hash of a few numbers, and a number is all that a block or a row keeps.
 *
 * Entries are never removed. Rows that were written keep their meaning, a free need not
 * drop a reference, and the strings can be read without the lock. A program has as many
 * stacks as its code has paths to an allocation. The bounds are for code that is made at
 * run time. A full table still finds the entries that it has.
 *
 * The lock is held for the lookup alone. A fork happens between two lookups (mutex.h), so
 * that a child has a consistent table.
 */
#define _GNU_SOURCE
#include "trace/stack_table.h"
#include "base/intern.h"
#include "base/mutex.h"
#include "base/mutex_assert.h"
#include <string.h>

enum { ENTRIES_MAX = 1 << 20, BYTES_MAX = 64 << 20, TEXT_MAX = 4096 };

enum kind { STRING = 1, FRAME, STACK };

struct frame_entry {
    uint32_t kind, zero; /* without gaps: the bytes are compared */
    struct tarn__stack_table_frame frame;
};

TARN__STATIC_MUTEX(lock); /* guards all below */
static struct tarn__intern entries;
static uint64_t stacks, lost;

/* Find or add an entry: its number plus 1, or 0. `lock` held. */
static uint32_t number_of(const void *entry, size_t bytes)
{
    tarn__assert_mutex_held(&lock.mutex);

    uint32_t number;

    if (entries.by_hash.stride == 0)
        tarn__intern_init(&entries);
    if (tarn__intern_find(&entries, entry, bytes, &number))
        return number + 1;
    if (entries.count >= ENTRIES_MAX || entries.bytes >= BYTES_MAX)
        return 0;
    return tarn__intern_add(&entries, entry, bytes, &number) ? number + 1 : 0;
}

/* The entry with a number, if it is of this kind; else NULL. `lock` held. */
static const struct tarn__interned *entry_of(uint32_t number, enum kind kind)
{
    tarn__assert_mutex_held(&lock.mutex);

    if (number == 0 || number > entries.count)
        return NULL;
    const struct tarn__interned *entry = entries.items[number - 1];
    uint32_t found;
    memcpy(&found, entry->bytes, sizeof found);
    return found == kind ? entry : NULL;
}

uint32_t tarn__stack_table_string(const char *text)
{
    struct {
        uint32_t kind;
        char text[TEXT_MAX];
    } entry = {.kind = STRING};
    size_t length = strnlen(text, sizeof entry.text);

    memcpy(entry.text, text, length);
    tarn__mutex_lock(&lock);
    uint32_t number = number_of(&entry, sizeof entry.kind + length);
    tarn__mutex_unlock(&lock);
    return number;
}

const char *tarn__stack_table_text(uint32_t string)
{
    if (string == 0)
        return "";
    tarn__mutex_lock(&lock);
    const struct tarn__interned *entry = entry_of(string, STRING);
    tarn__mutex_unlock(&lock);
    return entry ? (const char *)entry->bytes + sizeof(uint32_t) : "";
}

uint32_t tarn__stack_table_add_frame(const struct tarn__stack_table_frame *frame)
{
    const struct frame_entry entry = {.kind = FRAME, .frame = *frame};

    tarn__mutex_lock(&lock);
    uint32_t number = number_of(&entry, sizeof entry);
    tarn__mutex_unlock(&lock);
    return number;
}

/* Return true if each number is that of a frame, or 0. `lock` held. */
static bool are_frames(const uint32_t *frames, size_t count, bool *is_one_missing)
{
    tarn__assert_mutex_held(&lock.mutex);

    *is_one_missing = false;
    for (size_t i = 0; i < count; i++) {
        *is_one_missing |= frames[i] == 0;
        if (frames[i] != 0 && !entry_of(frames[i], FRAME))
            return false;
    }
    return true;
}

/* Find or add a stack: its kind and `count` frames in `words`. `lock` held. */
static uint32_t add_stack(const uint32_t *words, size_t count)
{
    tarn__assert_mutex_held(&lock.mutex);

    uint32_t before = entries.count, number = 0;
    bool is_one_missing;

    if (!are_frames(words + 1, count, &is_one_missing))
        return TARN_STACK_UNKNOWN;
    if (!is_one_missing)
        number = number_of(words, (count + 1) * sizeof *words);
    stacks += entries.count - before;
    lost += number == 0;
    return number;
}

tarn_stack tarn_stack_add(const uint32_t *frames, size_t count)
{
    uint32_t words[1 + TARN_STACK_DEPTH_MAX] = {STACK};

    if (!frames || count == 0)
        return TARN_STACK_UNKNOWN;
    if (count > TARN_STACK_DEPTH_MAX)
        count = TARN_STACK_DEPTH_MAX;
    memcpy(words + 1, frames, count * sizeof *frames);
    tarn__mutex_lock(&lock);
    tarn_stack number = add_stack(words, count);
    tarn__mutex_unlock(&lock);
    return number;
}

bool tarn__stack_table_frame(uint32_t number, struct tarn__stack_table_frame *out)
{
    struct frame_entry entry;

    tarn__mutex_lock(&lock);
    const struct tarn__interned *frame = entry_of(number, FRAME);
    if (frame)
        memcpy(&entry, frame->bytes, sizeof entry);
    tarn__mutex_unlock(&lock);
    if (frame)
        *out = entry.frame;
    return frame != NULL;
}

size_t tarn__stack_table_numbers(tarn_stack stack, size_t capacity, uint32_t *frames)
{
    tarn__mutex_lock(&lock);
    const struct tarn__interned *entry = entry_of(stack, STACK);
    size_t count = entry ? entry->count / sizeof *frames - 1 : 0;
    if (count > 0)
        memcpy(frames, entry->bytes + sizeof *frames,
               (count < capacity ? count : capacity) * sizeof *frames);
    tarn__mutex_unlock(&lock);
    return count;
}

size_t tarn__stack_table_frames(tarn_stack stack, size_t capacity,
                                struct tarn__stack_table_frame *frames)
{
    uint32_t numbers[TARN_STACK_DEPTH_MAX];
    size_t count = tarn__stack_table_numbers(stack, TARN_STACK_DEPTH_MAX, numbers);

    for (size_t i = 0; i < count && i < capacity; i++)
        if (!tarn__stack_table_frame(numbers[i], &frames[i]))
            frames[i] = (struct tarn__stack_table_frame){0};
    return count;
}

tarn_status tarn_stack_get_counts(tarn_stack_counts *out)
{
    tarn_stack_counts counts;

    if (!out || out->size < sizeof out->size)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "stack: counts: out is NULL, or its size is not set");
    tarn__mutex_lock(&lock);
    counts = (tarn_stack_counts){
        .stacks = stacks, .entries = entries.count, .bytes = entries.bytes, .lost = lost};
    tarn__mutex_unlock(&lock);
    counts.size = out->size < sizeof counts ? out->size : sizeof counts;
    memcpy(out, &counts, counts.size);
    return TARN_OK;
}
