/* names.c -- strings of a log, each stored once. */
#include "names.h"
#include "map.h"
#include "memory.h"
#include <stdlib.h>
#include <string.h>

enum { LENGTH_MAX = 4096, NAMES_MAX = 1 << 20 };
static const size_t TEXT_MAX = 64 << 20;
static const char others[] = "<other>";

static uint64_t hash_of(const char *text, size_t length)
{
    uint64_t hash = map_hash(length), word;

    for (; length >= 8; text += 8, length -= 8) {
        memcpy(&word, text, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    word = 0;
    memcpy(&word, text, length);
    return map_hash(hash ^ word);
}

/* The slot of a string: that with its number, or an empty one. */
static size_t slot_of(const struct names *names, const char *text, size_t length,
                      uint64_t hash)
{
    size_t mask = names->slot_count - 1, at = hash & mask;

    for (; names->slots[at] != 0; at = (at + 1) & mask) {
        const struct name *name = &names->items[names->slots[at] - 1];
        if (name->hash == hash && name->length == length &&
            memcmp(names->text + name->at, text, length) == 0)
            break;
    }
    return at;
}

static void grow_slots(struct names *names)
{
    free(names->slots);
    names->slot_count = names->slot_count ? names->slot_count * 2 : 64;
    names->slots = memory_new(names->slot_count, sizeof *names->slots);
    for (size_t i = 0; i < names->count; i++) {
        const struct name *name = &names->items[i];
        names->slots[slot_of(names, names->text + name->at, name->length, name->hash)] =
            (uint32_t)i + 1;
    }
}

static uint32_t append(struct names *names, const char *text, size_t length,
                       uint64_t hash, size_t slot)
{
    names->text = memory_grow(names->text, &names->text_capacity,
                              names->text_bytes + length + 1, 1);
    names->items = memory_grow(names->items, &names->capacity, names->count + 1,
                               sizeof *names->items);
    memcpy(names->text + names->text_bytes, text, length);
    names->text[names->text_bytes + length] = '\0';
    names->items[names->count] = (struct name){names->text_bytes, hash, (uint32_t)length};
    names->text_bytes += length + 1;
    names->slots[slot] = (uint32_t)++names->count;
    return (uint32_t)names->count - 1;
}

uint32_t names_add_bytes(struct names *names, const char *text, size_t length)
{
    if (names->slot_count == 0) {
        grow_slots(names);
        names_add_bytes(names, "", 0);
    }
    if (names->count * 2 >= names->slot_count)
        grow_slots(names);
    if (length > LENGTH_MAX)
        length = LENGTH_MAX;
    uint64_t hash = hash_of(text, length);
    size_t slot = slot_of(names, text, length, hash);
    if (names->slots[slot] != 0)
        return names->slots[slot] - 1;
    if ((names->count >= NAMES_MAX || names->text_bytes >= TEXT_MAX) &&
        !(length == sizeof others - 1 && memcmp(text, others, length) == 0)) {
        hash = hash_of(others, sizeof others - 1);
        slot = slot_of(names, others, sizeof others - 1, hash);
        return names->slots[slot] ? names->slots[slot] - 1
                                  : append(names, others, sizeof others - 1, hash, slot);
    }
    return append(names, text, length, hash, slot);
}

uint32_t names_add(struct names *names, const char *text)
{
    return names_add_bytes(names, text ? text : "", text ? strlen(text) : 0);
}

const char *names_text(const struct names *names, uint32_t number)
{
    return number < names->count ? names->text + names->items[number].at : "";
}

void names_free(struct names *names)
{
    free(names->text);
    free(names->items);
    free(names->slots);
    *names = (struct names){.count = 0};
}
