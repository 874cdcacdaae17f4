/* old_text.c -- the pruner of Numba before 0.52, on the text of a module.
 *
 * It processes one block at a time. All decrefs of the block move behind its last refop.
 * Then increfs and decrefs whose arguments are the same text are removed in pairs, the
 * last incref with the first decref. It compares text only: `ptr %a` and `ptr nonnull %a`
 * are different arguments to it, and only the null of typed pointers counts as null.
 * Labels separate the blocks. A label that has to be quoted for anything but a letter, a
 * digit or one of -$._ is not recognized. The blocks on both sides of it are treated as
 * one.
 */
#define _GNU_SOURCE /* memmem */
#include "base/hash.h"
#include <stdlib.h>
#include <string.h>
#include <tarn/prune.h>

enum kind { OTHER, INCREF, DECREF };

struct line {
    const char *text;
    size_t length;
    enum kind kind;
    const char *argument; /* of a refop: the text between the brackets */
    size_t argument_length;
    size_t below; /* the incref before it with the same argument, + 1; or 0 */
    bool gone;
};

/* The increfs of a block by their argument: each slot has the last one's index + 1. Open
 * addressing, at most half full. */
struct table {
    size_t *slots;
    size_t mask;
};

struct old {
    struct line *lines;
    size_t count;
    struct line *moved; /* space for the lines of a block in their new order */
    struct table table;
    uint64_t removed;
};

/* --- the kinds of lines --------------------------------------------------------------
 */

static bool starts_with(const char *text, const char *end, const char *start)
{
    size_t length = strlen(start);

    return (size_t)(end - text) >= length && memcmp(text, start, length) == 0;
}

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || (*at >= '\t' && *at <= '\r')))
        at++;
    return at;
}

/* A call of NRT_incref or NRT_decref, plain or marked `tail`; its argument ends at the
 * line's last closing bracket. */
static void classify(struct line *line)
{
    const char *end = line->text + line->length;
    const char *at = skip_space(line->text, end);
    const char *close = end;

    if (starts_with(at, end, "tail"))
        at = skip_space(at + strlen("tail"), end);
    if (starts_with(at, end, "call void @NRT_incref("))
        line->kind = INCREF;
    else if (starts_with(at, end, "call void @NRT_decref("))
        line->kind = DECREF;
    else
        return;
    line->argument = at + strlen("call void @NRT_incref(");
    while (close > line->argument && close[-1] != ')')
        close--;
    if (close == line->argument)
        line->kind = OTHER; /* no closing bracket */
    else
        line->argument_length = (size_t)(close - 1 - line->argument);
}

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-$._", c));
}

static bool is_quote(const char *at, const char *end)
{
    return at < end && (*at == '"' || *at == '\'');
}

/* A name, in quotes or not, and a colon; or the comment that numbers a block in old IR.
 */
static bool is_label(const struct line *line)
{
    const char *end = line->text + line->length;
    const char *name = line->text + is_quote(line->text, end);
    const char *at = name;

    while (at < end && in_name(*at))
        at++;
    if (at > name) {
        at += is_quote(at, end);
        return at < end && *at == ':';
    }
    return line->length > 0 && *line->text == ';' &&
           starts_with(skip_space(line->text + 1, end), end, "<label>");
}

static bool line_starts(const struct line *line, const char *start)
{
    return starts_with(line->text, line->text + line->length, start);
}

/* --- one block ---------------------------------------------------------------------- */

static bool same_argument(const struct line *a, const struct line *b)
{
    return a->argument_length == b->argument_length &&
           memcmp(a->argument, b->argument, a->argument_length) == 0;
}

static size_t *slot_for(struct old *old, const struct line *line)
{
    uint64_t hash = tarn__hash_bytes(line->argument, line->argument_length);
    size_t slot = (size_t)hash & old->table.mask;

    while (old->table.slots[slot] &&
           !same_argument(&old->lines[old->table.slots[slot] - 1], line))
        slot = (slot + 1) & old->table.mask;
    return &old->table.slots[slot];
}

/* Put the decrefs of the lines `from` to `to` behind the last refop among them. */
static void group_decrefs(struct old *old, size_t from, size_t to)
{
    struct line *moved = old->moved;
    size_t end = from;

    for (size_t i = from; i < to; i++)
        if (old->lines[i].kind != OTHER)
            end = i + 1;
    for (size_t i = from; i < end; i++)
        if (old->lines[i].kind != DECREF)
            *moved++ = old->lines[i];
    for (size_t i = from; i < end; i++)
        if (old->lines[i].kind == DECREF)
            *moved++ = old->lines[i];
    if (end > from)
        memcpy(old->lines + from, old->moved, (end - from) * sizeof *moved);
}

static void remove_line(struct old *old, struct line *line)
{
    line->gone = true;
    old->removed++;
}

static bool is_typed_null(const struct line *line)
{
    return line->argument_length == strlen("i8* null") &&
           memcmp(line->argument, "i8* null", line->argument_length) == 0;
}

static void prune_line(struct old *old, size_t index)
{
    struct line *line = &old->lines[index];

    if (line->kind == OTHER)
        return;
    if (is_typed_null(line)) {
        remove_line(old, line);
        return;
    }
    size_t *last = slot_for(old, line);
    if (line->kind == INCREF) {
        line->below = *last;
        *last = index + 1;
    } else if (*last && !old->lines[*last - 1].gone) {
        struct line *incref = &old->lines[*last - 1];
        remove_line(old, incref);
        remove_line(old, line);
        /* The slot keeps its argument when no incref of it is left. */
        if (incref->below)
            *last = incref->below;
    }
}

/* Size the table for this block alone; otherwise emptying it would cost more than the
 * work. */
static void open_table(struct old *old, size_t from, size_t to)
{
    size_t refops = 0, slots = 4;

    for (size_t i = from; i < to; i++)
        refops += old->lines[i].kind != OTHER;
    while (slots < 2 * refops)
        slots *= 2;
    old->table.mask = slots - 1;
    memset(old->table.slots, 0, slots * sizeof *old->table.slots);
}

static void prune_block(struct old *old, size_t from, size_t to)
{
    open_table(old, from, to);
    group_decrefs(old, from, to);
    for (size_t i = from; i < to; i++)
        prune_line(old, i);
}

/* --- the module --------------------------------------------------------------------- */

/* From the line of a `define` to the line of its `}`: process each run of lines between
 * labels. Empty lines are removed. */
static void prune_function(struct old *old, size_t first, size_t last)
{
    size_t from = first + 1;

    for (size_t i = first + 1; i < last; i++) {
        old->lines[i].gone = old->lines[i].length == 0;
        if (!is_label(&old->lines[i]))
            continue;
        prune_block(old, from, i);
        from = i + 1;
    }
    prune_block(old, from, last);
}

static void prune_lines(struct old *old)
{
    size_t first = old->count; /* the line of the `define` that is open */

    for (size_t i = 0; i < old->count; i++) {
        if (first == old->count && line_starts(&old->lines[i], "define"))
            first = i;
        else if (first < old->count && line_starts(&old->lines[i], "}")) {
            prune_function(old, first, i);
            first = old->count;
        }
    }
}

/* A module without the function NRT_incref is left as it is. */
static bool knows_incref(const struct old *old)
{
    for (size_t i = 0; i < old->count; i++) {
        const struct line *line = &old->lines[i];
        if ((line_starts(line, "declare") || line_starts(line, "define")) &&
            memmem(line->text, line->length, "@NRT_incref(", strlen("@NRT_incref(")))
            return true;
    }
    return false;
}

static size_t count_lines(const char *text, size_t bytes)
{
    size_t count = 0;

    for (const char *at = text, *end = text + bytes; at < end; count++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        at = stop ? stop + 1 : end;
    }
    return count;
}

static void split(struct old *old, const char *text, size_t bytes)
{
    const char *end = text + bytes;

    while (text < end) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t length = (size_t)((stop ? stop : end) - text);
        struct line *line = &old->lines[old->count++];
        *line = (struct line){.text = text, .length = length};
        if (length > 0 && text[length - 1] == '\r')
            line->length--;
        classify(line);
        text = stop ? stop + 1 : end;
    }
}

/* The lines that are left, with a line feed between them. */
static size_t join(const struct old *old, char *to)
{
    char *at = to;

    for (size_t i = 0; i < old->count; i++) {
        const struct line *line = &old->lines[i];
        if (line->gone)
            continue;
        if (at > to)
            *at++ = '\n';
        memcpy(at, line->text, line->length);
        at += line->length;
    }
    *at = 0;
    return (size_t)(at - to);
}

static void close_old(struct old *old)
{
    free(old->lines);
    free(old->moved);
    free(old->table.slots);
}

static bool open_old(struct old *old, const char *text, size_t bytes)
{
    size_t lines = count_lines(text, bytes);

    *old = (struct old){
        .lines = calloc(lines + 1, sizeof *old->lines),
        .moved = calloc(lines + 1, sizeof *old->moved),
        .table.slots = calloc(4 * lines + 4, sizeof *old->table.slots),
    };
    return old->lines && old->moved && old->table.slots;
}

tarn_status tarn_prune_old_text(const char *text, size_t bytes, char **out,
                                size_t *out_bytes, uint64_t *out_removed)
{
    struct old old;

    if ((!text && bytes) || !out || !out_bytes)
        return tarn_error_set(TARN_INVALID_ARGUMENT,
                              "prune: text, out or out_bytes is NULL");
    char *result = malloc(bytes + 1);
    if (!open_old(&old, text, bytes) || !result) {
        close_old(&old);
        free(result);
        return tarn_error_set(TARN_OUT_OF_MEMORY,
                              "prune: no host memory for %zu bytes of text", bytes);
    }
    split(&old, text, bytes);
    if (knows_incref(&old)) {
        prune_lines(&old);
        *out_bytes = join(&old, result);
    } else {
        if (bytes > 0)
            memcpy(result, text, bytes);
        result[bytes] = 0;
        *out_bytes = bytes;
    }
    *out = result;
    if (out_removed)
        *out_removed = old.removed;
    close_old(&old);
    return TARN_OK;
}
