/* options.c -- reads TARN_SIM="devices=2,memory=8GiB,fail=nth:17". */
#include "sim/options.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_MAX = 128 };

typedef bool parse_fn(const char *value, uint64_t *out);

/* Digits and nothing else; *end is what follows them. */
static bool parse_digits(const char *value, uint64_t *out, const char **end)
{
    uint64_t number = 0;

    if (!isdigit((unsigned char)*value))
        return false;
    for (; isdigit((unsigned char)*value); value++) {
        uint64_t digit = (uint64_t)(*value - '0');
        if (number > (UINT64_MAX - digit) / 10)
            return false;
        number = number * 10 + digit;
    }
    *out = number;
    *end = value;
    return true;
}

static bool sim_parse_seed(const char *value, uint64_t *out)
{
    const char *end;

    return parse_digits(value, out, &end) && *end == '\0';
}

static bool sim_parse_devices(const char *value, uint64_t *out)
{
    return sim_parse_seed(value, out) && *out >= 1 && *out <= SIM_DEVICES_MAX;
}

static bool sim_parse_memory(const char *value, uint64_t *out)
{
    static const struct {
        const char *name;
        unsigned shift;
    } units[] = {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}};
    const uint64_t least = (uint64_t)2 << 20, most = (uint64_t)1024 << 30;
    const char *end;

    if (!parse_digits(value, out, &end))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) != 0)
            continue;
        if (*out > most >> units[i].shift)
            return false;
        *out = *out << units[i].shift & ~(least - 1);
        return *out >= least;
    }
    return false;
}

static bool sim_parse_fail(const char *value, uint64_t *out)
{
    if (*value == '\0') {
        *out = 0;
        return true;
    }
    return strncmp(value, "nth:", 4) == 0 && sim_parse_seed(value + 4, out) && *out > 0;
}

static const struct option {
    const char *name, *syntax, *standard, *meaning;
    parse_fn *parse;
    size_t offset;
} table[] = {
#define X(name, syntax, parse, field, standard, meaning) \
    {#name, syntax, standard, meaning, parse, offsetof(struct sim_options, field)},
    SIM_OPTIONS(X)
#undef X
};
enum { OPTION_COUNT = sizeof table / sizeof *table };

static uint64_t *field_of(struct sim_options *options, const struct option *option)
{
    return (uint64_t *)(void *)((char *)options + option->offset);
}

/* What was wrong with `item`, then the whole table. */
static bool refuse(const char *item, const char *why, char *words, size_t words_bytes)
{
    size_t used =
        (size_t)snprintf(words, words_bytes, "\"%s\": %s; options are", item, why);

    for (size_t i = 0; i < OPTION_COUNT && used < words_bytes; i++)
        used += (size_t)snprintf(words + used, words_bytes - used, "%s %s=%s (%s)",
                                 i ? "," : "", table[i].name, table[i].syntax,
                                 table[i].meaning);
    return false;
}

static bool parse_item(const char *item, struct sim_options *options, char *words,
                       size_t words_bytes)
{
    const char *equals = strchr(item, '=');
    size_t name_length = equals ? (size_t)(equals - item) : strlen(item);

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        uint64_t value;
        if (strlen(table[i].name) != name_length ||
            memcmp(table[i].name, item, name_length) != 0)
            continue;
        if (!equals || equals[1] == '\0' || !table[i].parse(equals + 1, &value))
            return refuse(item, "this value is not allowed", words, words_bytes);
        *field_of(options, &table[i]) = value;
        return true;
    }
    return refuse(item, "there is no such option", words, words_bytes);
}

bool sim_options_parse(const char *text, struct sim_options *out, char *words,
                       size_t words_bytes)
{
    struct sim_options options;
    char item[OPTION_MAX];

    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (!table[i].parse(table[i].standard, field_of(&options, &table[i])))
            abort();
    while (text && *text) {
        size_t length = strcspn(text, ",");
        snprintf(item, sizeof item, "%.*s", (int)(length < 100 ? length : 100), text);
        if (!parse_item(item, &options, words, words_bytes))
            return false;
        text += length + (text[length] == ',');
    }
    *out = options;
    return true;
}
