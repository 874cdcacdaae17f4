/* grammar.c -- the options of guard mode: their text and their ranges. */
#include "guard/grammar.h"
#include "base/options.h"
#include "base/size.h"
#include <inttypes.h>
#include <stdlib.h>

enum {
    DEFAULT_ZONE = 512,
    LEAST_ZONE = 256,
    MOST_ZONE = 1 << 20,
    DEFAULT_STACKS = 16,
    MOST_ITEM = 64 /* characters of an item */
};
#define DEFAULT_QUARANTINE ((uint64_t)64 << 20)
#define MOST_SAMPLE ((uint64_t)1 << 30)

tarn_guard_options tarn__grammar_default(void)
{
    return (tarn_guard_options){.size = sizeof(tarn_guard_options),
                                .guard = true,
                                .poison = true,
                                .quarantine_bytes = DEFAULT_QUARANTINE};
}

static tarn_status check(const tarn_guard_options *options)
{
    if (!options->guard && !options->poison && !options->quarantine_bytes)
        return tarn_error_set(
            TARN_INVALID_ARGUMENT,
            "guard: the options have neither guard, nor poison, nor quarantine");
    if (options->zone_bytes < LEAST_ZONE || options->zone_bytes > MOST_ZONE)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "guard: a zone of %zu bytes, the range is %d to %d",
                              options->zone_bytes, LEAST_ZONE, MOST_ZONE);
    if (options->sample > MOST_SAMPLE)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "guard: a sample of 1/%" PRIu64 ", the least is 1/%" PRIu64,
                              options->sample, MOST_SAMPLE);
    if (options->stack_depth > TARN_STACK_DEPTH_MAX)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "guard: stacks of %u frames, the maximum is %d",
                              options->stack_depth, TARN_STACK_DEPTH_MAX);
    return TARN_OK;
}

tarn_status tarn__grammar_complete(const tarn_guard_options *options,
                                   tarn_guard_options *out)
{
    tarn_guard_options all = tarn__grammar_default();
    tarn_status status = TARN_OK;

    if (options)
        status =
            tarn__options_read("guard", options, sizeof options->size, &all, sizeof all);
    if (status != TARN_OK)
        return status;
    if (all.zone_bytes == 0)
        all.zone_bytes = DEFAULT_ZONE;
    if (all.sample == 0)
        all.sample = 1;
    if (all.stack_depth == 0 && all.sample == 1)
        all.stack_depth = DEFAULT_STACKS;
    status = check(&all);
    if (status == TARN_OK)
        *out = all;
    return status;
}

/* --- the text --- */

/* Read a number, which is all of `text` up to `*end_out`. */
static bool read_number(const char *text, const char **end_out, uint64_t *out)
{
    uint64_t number = 0;
    const char *next = text;

    for (; *next >= '0' && *next <= '9'; next++) {
        if (number > (UINT64_MAX - 9) / 10)
            return false;
        number = number * 10 + (uint64_t)(*next - '0');
    }
    *end_out = next;
    *out = number;
    return next > text && number > 0;
}

static bool read_size(const char *text, uint64_t *out)
{
    static const struct {
        const char *name;
        unsigned shift;
    } units[] = {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    uint64_t number;
    const char *unit;

    if (!read_number(text, &unit, &number))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0 && number <= UINT64_MAX >> units[i].shift) {
            *out = number << units[i].shift;
            return true;
        }
    return false;
}

/* Read `1/N`. */
static bool read_sample(const char *text, uint64_t *out)
{
    const char *end;

    return strncmp(text, "1/", 2) == 0 && read_number(text + 2, &end, out) && *end == 0 &&
           *out <= MOST_SAMPLE;
}

/* Read an item with its value (NULL: it has none). Returns false if it is wrong. */
static bool read_item(const char *name, const char *value, tarn_guard_options *options)
{
    uint64_t number = 0;
    const char *end;

    if (strcmp(name, "guard") == 0) {
        options->guard = true;
        return !value || read_sample(value, &options->sample);
    }
    if (strcmp(name, "poison") == 0)
        return options->poison = !value;
    if (strcmp(name, "abort") == 0)
        return options->aborts = !value;
    if (strcmp(name, "quarantine") == 0) {
        options->quarantine_bytes = DEFAULT_QUARANTINE;
        return !value || read_size(value, &options->quarantine_bytes);
    }
    if (strcmp(name, "zone") == 0 && value && read_size(value, &number)) {
        options->zone_bytes = number;
        return number >= LEAST_ZONE && number <= MOST_ZONE;
    }
    if (strcmp(name, "stacks") == 0 && value && read_number(value, &end, &number)) {
        options->stack_depth = (unsigned)tarn__size_least(number, UINT32_MAX);
        return *end == 0 && number <= TARN_STACK_DEPTH_MAX;
    }
    return false;
}

static tarn_status reject(const char *item, size_t length)
{
    int shown = (int)tarn__size_least(length, MOST_ITEM);

    return tarn_error_set(
        TARN_INVALID_ARGUMENT,
        "guard: \"%.*s\" is not an item; the items are guard, guard=1/N, poison, "
        "quarantine, quarantine=SIZE, zone=SIZE (256 to 1MiB), stacks=N (1 to 128), "
        "abort; a SIZE is a number of bytes, or of KiB, MiB or GiB",
        shown, item);
}

tarn_status tarn_guard_parse(const char *text, tarn_guard_options *out)
{
    tarn_guard_options options = {.size = sizeof options};

    if (!text || !out)
        return tarn_error_set(TARN_INVALID_ARGUMENT, "guard: parse: %s is NULL",
                              text ? "out" : "text");
    for (const char *item = text;; item++) {
        size_t length = strcspn(item, ",");
        char name[MOST_ITEM];
        if (length >= sizeof name)
            return reject(item, length);
        memcpy(name, item, length);
        name[length] = 0;
        char *value = strchr(name, '=');
        if (value)
            *value++ = 0;
        if (!read_item(name, value, &options))
            return reject(item, length);
        item += length;
        if (*item == 0)
            break;
    }
    tarn_guard_options checked;
    tarn_status status = tarn__grammar_complete(&options, &checked);
    if (status == TARN_OK)
        *out = options;
    return status;
}
