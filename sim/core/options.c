/* options.c -- reads TARN_SIM="devices=2,memory=8GiB,fail=nth:17". */
#include "sim/core/options.h"
#include "sim/core/calls.h"
#include "sim/core/unsupported.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_MAX = 128 };
/* 1000 s; larger values could overflow the clock */
#define NS_MAX UINT64_C(1000000000000)

struct sim_options sim_options;

typedef bool parse_fn(const char *value, struct sim_options *out);

/* --- values --- */

/* Parse digits. *end is the text after them. */
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

/* Parse digits and nothing else: a number from `least` to `most`. */
static bool parse_number(const char *value, uint64_t least, uint64_t most, uint64_t *out)
{
    const char *end;
    uint64_t number;

    if (!parse_digits(value, &number, &end) || *end || number < least || number > most)
        return false;
    *out = number;
    return true;
}

/* `first` is false, `second` true. */
static bool parse_word(const char *value, const char *first, const char *second,
                       bool *out)
{
    bool is_second = strcmp(value, second) == 0;

    if (!is_second && strcmp(value, first) != 0)
        return false;
    *out = is_second;
    return true;
}

static const char *after(const char *value, const char *prefix)
{
    size_t length = strlen(prefix);

    return strncmp(value, prefix, length) == 0 ? value + length : NULL;
}

/* Return true if there is a call of that name in any version. */
static bool is_known_call(const char *name)
{
    static const char *const names[] = {
#define SIM_X(name, version, symbol, parameters) #name,
#define SIM_Z(name, version, symbol, per_thread, parameters, arguments) #name,
#define SIM_U(name, version, symbol) #name,
        SIM_CALLS(SIM_X, SIM_Z) SIM_ALIASES(SIM_U) SIM_UNSUPPORTED(SIM_U)
#undef SIM_X
#undef SIM_Z
#undef SIM_U
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Copy the name of a call, up to a colon or the end, into `name` without its version. */
static bool parse_call(const char *value, char name[SIM_CALL_NAME_MAX], const char **end)
{
    size_t length = strcspn(value, ":");

    if (length == 0 || length >= SIM_CALL_NAME_MAX)
        return false;
    memcpy(name, value, length);
    name[length] = '\0';
    char *version = strrchr(name, '_');
    if (version && version[1] == 'v' && isdigit((unsigned char)version[2]))
        *version = '\0';
    *end = value + length;
    return is_known_call(name);
}

bool sim_options_is_call(const char *call, const char *name)
{
    size_t length = strlen(name);

    return strncmp(call, name, length) == 0 &&
           (call[length] == '\0' || strncmp(call + length, "_v", 2) == 0);
}

/* --- options --- */

static bool parse_devices(const char *value, struct sim_options *out)
{
    return parse_number(value, 1, SIM_DEVICES_MAX, &out->devices);
}

static bool parse_memory(const char *value, struct sim_options *out)
{
    static const struct {
        const char *name;
        unsigned shift;
    } units[] = {{"", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
    const uint64_t least = (uint64_t)2 << 20, most = (uint64_t)8 << 40;
    const char *end;
    uint64_t bytes;

    if (!parse_digits(value, &bytes, &end))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(end, units[i].name) != 0)
            continue;
        if (bytes > most >> units[i].shift)
            return false;
        out->memory_bytes = bytes << units[i].shift & ~(least - 1);
        return out->memory_bytes >= least;
    }
    return false;
}

static bool parse_mode(const char *value, struct sim_options *out)
{
    return parse_word(value, "eager", "seeded", &out->is_seeded);
}

static bool parse_seed(const char *value, struct sim_options *out)
{
    return parse_number(value, 0, UINT64_MAX, &out->seed);
}

static bool parse_latency(const char *value, struct sim_options *out)
{
    const char *end;

    return parse_digits(value, &out->latency_min_ns, &end) && *end == '-' &&
           parse_number(end + 1, out->latency_min_ns, NS_MAX, &out->latency_max_ns);
}

static bool parse_patience(const char *value, struct sim_options *out)
{
    return parse_number(value, 0, 3600000, &out->patience_ms);
}

static bool parse_fail_call(const char *value, struct sim_options *out)
{
    const char *end;

    out->fail_call_nth = 0;
    if (!parse_call(value, out->fail_call, &end))
        return false;
    return !*end || parse_number(end + 1, 1, UINT64_MAX, &out->fail_call_nth);
}

static bool parse_fail(const char *value, struct sim_options *out)
{
    const char *rest;

    if ((rest = after(value, "nth:")))
        return parse_number(rest, 1, UINT64_MAX, &out->fail_nth);
    if ((rest = after(value, "one-in:")))
        return parse_number(rest, 1, UINT64_MAX, &out->fail_one_in);
    if ((rest = after(value, "call:")))
        return parse_fail_call(rest, out);
    return *value == '\0';
}

static bool parse_lost(const char *value, struct sim_options *out)
{
    return parse_number(value, 0, UINT64_MAX, &out->lost_at);
}

static bool parse_lost_code(const char *value, struct sim_options *out)
{
    return parse_number(value, 1, 999, &out->lost_code);
}

static bool parse_slow(const char *value, struct sim_options *out)
{
    const char *end = value;

    if (*value == '\0')
        return true;
    if (value[0] == '*' && value[1] == ':') {
        strcpy(out->slow_call, "*");
        end = value + 1;
    } else if (!parse_call(value, out->slow_call, &end)) {
        return false;
    }
    return *end == ':' && parse_number(end + 1, 0, NS_MAX, &out->slow_ns);
}

static bool parse_host_memory(const char *value, struct sim_options *out)
{
    const char *rest = after(value, "fail:");

    if (!rest)
        return *value == '\0';
    return parse_number(rest, 1, UINT64_MAX, &out->host_memory_nth);
}

static bool parse_dead(const char *value, struct sim_options *out)
{
    return parse_word(value, "abort", "error", &out->dead_is_error);
}

static bool parse_launches(const char *value, struct sim_options *out)
{
    return parse_word(value, "fail", "ignore", &out->ignores_launches);
}

static bool parse_races(const char *value, struct sim_options *out)
{
    return parse_word(value, "off", "on", &out->finds_races);
}

static bool parse_peers(const char *value, struct sim_options *out)
{
    return parse_word(value, "on", "off", &out->has_no_peers);
}

/* Parse one of `count` words; `*out` is its number. */
static bool parse_words(const char *value, const char *const *words, size_t count,
                        size_t *out)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(value, words[i]) != 0)
            continue;
        *out = i;
        return true;
    }
    return false;
}

static bool parse_fabric(const char *value, struct sim_options *out)
{
    static const char *const words[] = {
        [SIM_FABRIC_OFF] = "off",
        [SIM_FABRIC_ON] = "on",
        [SIM_FABRIC_NO_CHANNEL] = "no-channel",
    };
    size_t which;

    if (!parse_words(value, words, sizeof words / sizeof *words, &which))
        return false;
    out->fabric = (enum sim_fabric)which;
    return true;
}

static bool parse_node(const char *value, struct sim_options *out)
{
    return parse_number(value, 0, 9, &out->node);
}

static bool parse_dma_buf(const char *value, struct sim_options *out)
{
    static const char *const words[] = {
        [SIM_DMA_BUF_OFF] = "off",
        [SIM_DMA_BUF_ON] = "on",
        [SIM_DMA_BUF_PCIE] = "pcie",
    };
    size_t which;

    if (!parse_words(value, words, sizeof words / sizeof *words, &which))
        return false;
    out->dma_buf = (enum sim_dma_buf)which;
    return true;
}

static bool parse_attribute(const char *value, struct sim_options *out)
{
    const char *end;

    if (*value == '\0')
        return true;
    return parse_digits(value, &out->attribute, &end) && *end == ':' &&
           out->attribute > 0 &&
           parse_number(end + 1, 0, INT32_MAX, &out->attribute_value);
}

/* --- the table --- */

static const struct option {
    const char *name, *syntax, *standard, *meaning;
    parse_fn *parse;
} table[] = {
#define X(name, syntax, parse, standard, meaning) \
    {#name, syntax, standard, meaning, parse},
    SIM_OPTIONS(X)
#undef X
};
enum { OPTION_COUNT = sizeof table / sizeof *table };

/* Write the error message about `item`, then the whole table. */
static bool reject(const char *item, const char *why, char *message, size_t message_bytes)
{
    size_t used =
        (size_t)snprintf(message, message_bytes, "\"%s\": %s; options are", item, why);

    for (size_t i = 0; i < OPTION_COUNT && used < message_bytes; i++)
        used += (size_t)snprintf(message + used, message_bytes - used, "%s %s=%s (%s)",
                                 i ? "," : "", table[i].name, table[i].syntax,
                                 table[i].meaning);
    return false;
}

static bool parse_item(const char *item, struct sim_options *options, char *message,
                       size_t message_bytes)
{
    const char *equals = strchr(item, '=');
    size_t name_length = equals ? (size_t)(equals - item) : strlen(item);

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strlen(table[i].name) != name_length ||
            memcmp(table[i].name, item, name_length) != 0)
            continue;
        if (!equals || equals[1] == '\0' || !table[i].parse(equals + 1, options))
            return reject(item, "invalid value", message, message_bytes);
        return true;
    }
    return reject(item, "unknown option", message, message_bytes);
}

bool sim_options_parse(const char *text, struct sim_options *out, char *message,
                       size_t message_bytes)
{
    struct sim_options options = {0};
    char item[OPTION_MAX];

    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (!table[i].parse(table[i].standard, &options))
            abort();
    while (text && *text) {
        size_t length = strcspn(text, ",");
        snprintf(item, sizeof item, "%.*s", (int)(length < 100 ? length : 100), text);
        if (!parse_item(item, &options, message, message_bytes))
            return false;
        text += length + (text[length] == ',');
    }
    *out = options;
    return true;
}
